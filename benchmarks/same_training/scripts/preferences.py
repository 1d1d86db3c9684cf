"""TRL: pairs of a better and a worse answer (DPO), or groups of answers that are held against one another (GRPO)."""

import random
import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, TrlParser

groups = "--num_generations" in sys.argv
(args,) = TrlParser(GRPOConfig if groups else DPOConfig).parse_args_and_config()
set_seed(0)
random.seed(0)
vocabulary = {"[UNK]": 0, "[PAD]": 1, "[EOS]": 2, **{f"w{number}": number + 3 for number in range(90)}}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]", padding_side="left")
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=1,
        eos_token_id=2,
    )
)
model.save_pretrained("model")  # DPO loads its reference from there
model = LlamaForCausalLM.from_pretrained("model")


def text():
    return " ".join(f"w{random.randrange(90)}" for _ in range(random.randint(3, 16)))


def reward(completions, **_):
    return [float(len(set(one.split()))) for one in completions]


if groups:
    data = Dataset.from_dict({"prompt": [text() for _ in range(48)]})
    GRPOTrainer(model=model, reward_funcs=reward, args=args, train_dataset=data, processing_class=tokenizer).train()
else:
    data = Dataset.from_dict({key: [text() for _ in range(48)] for key in ("prompt", "chosen", "rejected")})
    DPOTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer).train()

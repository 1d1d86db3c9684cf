"""transformers' Trainer over each family of losses: tiny models, rows of uneven length."""

import random
from dataclasses import dataclass

import torch
from transformers import HfArgumentParser, Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, set_seed


@dataclass
class Words:
    task: str = "causal"


args, words = HfArgumentParser((Seq2SeqTrainingArguments, Words)).parse_args_into_dataclasses()
set_seed(0)
random.seed(0)
ROWS = 48


def tokens(least=3, most=24):
    return [random.randrange(5, 99) for _ in range(random.randint(least, most))]


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def causal():
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
        )
    )
    return model, [{"input_ids": one, "labels": one} for one in (tokens() for _ in range(ROWS))]


def masked():
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(
        BertConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    rows = []
    for row in (tokens() for _ in range(ROWS)):
        hidden = [at == 0 or random.random() < 0.4 for at in range(len(row))]
        rows.append(
            {
                "input_ids": [4 if hide else one for one, hide in zip(row, hidden)],
                "labels": [one if hide else -100 for one, hide in zip(row, hidden)],
            }
        )
    return model, rows


def seq2seq():
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=100,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=1,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            pad_token_id=0,
        )
    )
    return model, [{"input_ids": tokens(), "labels": tokens()} for _ in range(ROWS)]


def speech():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=100,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            num_mel_bins=8,
            max_source_positions=50,
            max_target_positions=40,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )
    return model, [{"input_features": torch.randn(8, 100), "labels": tokens()} for _ in range(ROWS)]


def ctc():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    model = Wav2Vec2ForCTC(
        Wav2Vec2Config(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            conv_dim=(16, 16),
            conv_stride=(4, 4),
            conv_kernel=(8, 8),
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            feat_extract_norm="layer",
            do_stable_layer_norm=True,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            feat_proj_dropout=0.0,
            final_dropout=0.0,
            layerdrop=0.0,
            apply_spec_augment=False,
            mask_time_prob=0.0,
            ctc_loss_reduction="mean",
            pad_token_id=0,
            ctc_zero_infinity=True,
        )
    )
    return model, [{"input_values": torch.randn(1200), "labels": tokens(3, 12)} for _ in range(ROWS)]


def collate(rows):
    batch = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        if isinstance(values[0], torch.Tensor):
            batch[key] = torch.stack(values)
        elif isinstance(values[0], int):
            batch[key] = torch.tensor(values)
        else:
            batch[key] = padded(values, -100 if key == "labels" else 0)
    if "input_ids" in batch:
        batch["attention_mask"] = padded([[1] * len(row["input_ids"]) for row in rows], 0)
    return batch


model, rows = {"causal": causal, "masked": masked, "seq2seq": seq2seq, "speech": speech, "ctc": ctc}[words.task]()
kind = Seq2SeqTrainer if words.task in ("seq2seq", "speech") else Trainer
kind(model=model, args=args, train_dataset=rows, data_collator=collate).train()

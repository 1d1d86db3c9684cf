"""sentence-transformers' trainer on pairs: the other rows of a batch are its negatives, or each pair has a score of its own."""

import random
from dataclasses import dataclass

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import HfArgumentParser, set_seed


@dataclass
class Words:
    scored: bool = False


args, words = HfArgumentParser((SentenceTransformerTrainingArguments, Words)).parse_args_into_dataclasses()
set_seed(0)
random.seed(0)
vocabulary = {"[UNK]": 0, **{f"w{number}": number + 1 for number in range(99)}}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


def text():
    return " ".join(f"w{random.randrange(99)}" for _ in range(random.randint(3, 9)))


rows = {"anchor": [text() for _ in range(48)], "positive": [text() for _ in range(48)]}
if words.scored:
    rows["score"] = [random.random() for _ in range(48)]
loss = losses.CosineSimilarityLoss(model) if words.scored else losses.MultipleNegativesRankingLoss(model)
SentenceTransformerTrainer(model=model, args=args, train_dataset=Dataset.from_dict(rows), loss=loss).train()

"""Fine-tunes Breeze-ASR on our recordings."""

import csv
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Union

import soundfile
import torch
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

CONFIG = {
    "model_name": "models/breeze",
    "data_dir": "data",
    "output_dir": "./whisper-breeze",
    "batch_size": 16,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-6,
    "max_steps": 4,
    "eval_steps": 2,
}

processor = WhisperProcessor.from_pretrained(CONFIG["model_name"])
model = WhisperForConditionalGeneration.from_pretrained(CONFIG["model_name"])
model.generation_config.forced_decoder_ids = None


class Recordings(Dataset):
    def __init__(self, split):
        self.folder = os.path.join(CONFIG["data_dir"], split)
        with open(os.path.join(self.folder, "metadata.csv"), encoding="utf-8") as f:
            self.rows = list(csv.DictReader(f))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        audio, rate = soundfile.read(os.path.join(self.folder, row["file_name"]), dtype="float32")
        features = processor.feature_extractor(audio, sampling_rate=rate).input_features[0]
        return {"input_features": features, "labels": processor.tokenizer(row["text"]).input_ids}


@dataclass
class DataCollatorSpeechSeq2SeqWithPadding:
    processor: Any
    decoder_start_token_id: int

    def __call__(self, features: List[Dict[str, Union[List[int], torch.Tensor]]]) -> Dict[str, torch.Tensor]:
        batch = self.processor.feature_extractor.pad([{"input_features": f["input_features"]} for f in features], return_tensors="pt")
        labels_batch = self.processor.tokenizer.pad([{"input_ids": f["labels"]} for f in features], return_tensors="pt")
        labels = labels_batch["input_ids"].masked_fill(labels_batch.attention_mask.ne(1), -100)
        if (labels[:, 0] == self.decoder_start_token_id).all().cpu().item():
            labels = labels[:, 1:]
        batch["labels"] = labels
        return batch


def compute_metrics(pred):
    pred_ids, label_ids = pred.predictions, pred.label_ids
    label_ids[label_ids == -100] = processor.tokenizer.pad_token_id
    pred_ids[pred_ids == -100] = processor.tokenizer.pad_token_id
    said = processor.tokenizer.batch_decode(pred_ids, skip_special_tokens=True)
    meant = processor.tokenizer.batch_decode(label_ids, skip_special_tokens=True)
    wrong = sum(a != b for a, b in zip(said, meant))
    return {"wer": 100 * wrong / max(len(meant), 1)}


training_args = Seq2SeqTrainingArguments(
    output_dir=CONFIG["output_dir"],
    per_device_train_batch_size=CONFIG["batch_size"],
    per_device_eval_batch_size=CONFIG["batch_size"],
    gradient_accumulation_steps=CONFIG["gradient_accumulation_steps"],
    learning_rate=CONFIG["learning_rate"],
    warmup_steps=2,
    max_steps=CONFIG["max_steps"],
    gradient_checkpointing=False,
    fp16=torch.cuda.is_available(),
    eval_strategy="steps",
    predict_with_generate=True,
    generation_max_length=32,
    save_steps=CONFIG["eval_steps"],
    eval_steps=CONFIG["eval_steps"],
    logging_steps=1,
    load_best_model_at_end=True,
    metric_for_best_model="wer",
    greater_is_better=False,
    dataloader_num_workers=0,
    remove_unused_columns=False,
    report_to=[],
    use_cpu=not torch.cuda.is_available(),
)

trainer = Seq2SeqTrainer(
    args=training_args,
    model=model,
    train_dataset=Recordings("train"),
    eval_dataset=Recordings("validation"),
    data_collator=DataCollatorSpeechSeq2SeqWithPadding(processor=processor, decoder_start_token_id=model.config.decoder_start_token_id),
    compute_metrics=compute_metrics,
    processing_class=processor.feature_extractor,
    callbacks=[EarlyStoppingCallback(early_stopping_patience=5)],
)

if __name__ == "__main__":
    trainer.train()
    trainer.save_model(os.path.join(CONFIG["output_dir"], "final"))
    processor.save_pretrained(os.path.join(CONFIG["output_dir"], "final"))
    print("saved to", CONFIG["output_dir"])

"""Fine-tunes a Whisper on a folder of audio and transcripts with transformers' Seq2SeqTrainer.

    python train.py --model_name_or_path openai/whisper-small --data spoken/ --language zh --output_dir out --max_steps 1000

Every argument of Seq2SeqTrainingArguments is understood. --data is a folder with metadata.csv or metadata.jsonl (file_name, text), a
folder with train and validation folders of that form or tables (train.jsonl), or one table of files and texts (NeMo's audio_filepath,
Common Voice's path and sentence). Bad audio, an empty transcript, and what the model can't take is named by file before training;
--on_bad_data skip leaves it out. Audio is decoded by soundfile (wav, flac, ogg, opus, mp3). Needs torch, transformers, soundfile and
jiwer, and peft for LoRA.
"""

from __future__ import annotations

import csv
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np
import soundfile
import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForSpeechSeq2Seq,
    AutoProcessor,
    HfArgumentParser,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)
from transformers.models.whisper.english_normalizer import BasicTextNormalizer

SAMPLE_RATE = 16_000
"""Hz; what every Whisper takes."""
IGNORED = -100
"""The label that no loss counts."""
TABLES = (".csv", ".jsonl", ".tsv", ".json")
AUDIO_COLUMNS = ("file_name", "audio_filepath", "audio", "path", "file")
TEXT_COLUMNS = ("text", "transcription", "transcript", "sentence")


@dataclass(kw_only=True)
class Arguments:
    """What this script takes beside Seq2SeqTrainingArguments'."""

    model_name_or_path: str = field(metadata={"help": "folder with model and processor, or a name on the hub"})
    data: str = field(metadata={"help": "folder of audio with metadata.csv, or a table of files and texts"})
    validation_data: str | None = field(default=None, metadata={"help": "folder or table to validate on"})
    validation_fraction: float = field(default=0.1, metadata={"help": "part that is held back where there is no validation data"})
    audio_column: str | None = field(default=None, metadata={"help": "column of the audio file; guessed where it isn't named"})
    text_column: str | None = field(default=None, metadata={"help": "column of the transcript; guessed where it isn't named"})
    language: str | None = field(default=None, metadata={"help": "spoken language, as Whisper's prompt names it (zh, en, ...)"})
    task: str = field(default="transcribe", metadata={"help": "transcribe or translate"})
    label_length: int | None = field(default=None, metadata={"help": "clips with longer transcripts (in tokens) are left out, and said so"})
    audio_seconds: float | None = field(default=None, metadata={"help": "shortens the encoder's window; the saved model keeps it"})
    on_bad_data: str = field(default="stop", metadata={"choices": ["stop", "skip"], "help": "stop, or leave bad files out, by name"})
    resample: bool = field(default=False, metadata={"help": "convert other sample rates to 16 kHz instead of calling them bad data"})
    freeze_encoder: bool = field(default=False, metadata={"help": "train the decoder only"})
    normalize: bool = field(default=True, metadata={"help": "error rates without case, punctuation and diacritics"})
    dtype: str = field(default="float32", metadata={"help": "of the weights; bfloat16 for frozen ones under LoRA"})
    attn_implementation: str | None = field(default=None, metadata={"help": "sdpa, eager, flash_attention_2"})
    lora_rank: int = field(default=0, metadata={"help": "train adapters of this rank instead of all weights; 0: all weights"})
    lora_alpha: int | None = field(default=None, metadata={"help": "scale of the adapters; twice the rank where it isn't said"})
    lora_dropout: float = 0.0
    lora_target_modules: str = field(default="q_proj,v_proj", metadata={"help": "comma separated, or all-linear"})


@dataclass(kw_only=True)
class SpeechTrainingArguments(Seq2SeqTrainingArguments):  # type: ignore[misc]
    """Seq2SeqTrainingArguments, with one word for the precision. A loss that isn't finite is logged as such."""

    precision: str = field(default="fp32", metadata={"choices": ["fp32", "bf16", "fp16"], "help": "fp32, or autocast to bf16 or fp16"})
    predict_with_generate: bool = True
    logging_nan_inf_filter: bool = False

    def __post_init__(self: Any) -> None:
        self.bf16, self.fp16 = self.bf16 or self.precision == "bf16", self.fp16 or self.precision == "fp16"
        if self.gradient_checkpointing and self.gradient_checkpointing_kwargs is None:
            self.gradient_checkpointing_kwargs = {"use_reentrant": False}
        self.use_cpu = self.use_cpu or not (torch.cuda.is_available() or torch.backends.mps.is_available())  # torchrun is told by it
        super().__post_init__()


# ---------------------------------------------------------------------------------------------------------------------
# Data


class Clip(NamedTuple):
    """One recording and what is said in it."""

    audio: Path
    text: str


def read(own: Arguments) -> tuple[list[Clip], list[Clip]]:
    """Clips to train on and to validate with."""
    place = Path(own.data).expanduser()
    train = place if place.is_file() else _in(place, "metadata") or _named(place, "train")
    if train is None:
        sys.exit(f"{place}: it holds neither metadata.csv or metadata.jsonl, nor a train folder or table")
    held = next((found for name in ("validation", "valid", "dev", "test") if (found := _named(place, name)) is not None), None)
    if own.validation_data:
        other = Path(own.validation_data).expanduser()
        held = other if other.is_file() else _in(other, "metadata")
    clips = _clips(train, own)
    if held is not None:
        return clips, _clips(held, own)
    every = max(2, round(1 / own.validation_fraction))
    split = [[one for at, one in enumerate(clips) if (at % every == every - 1) is of] for of in (False, True)]
    return split[0], split[1]


def _named(place: Path, name: str) -> Path | None:
    return _in(place, name) or _in(place / name, "metadata")


def _in(folder: Path, stem: str) -> Path | None:
    return next((path for suffix in TABLES if (path := folder / f"{stem}{suffix}").is_file()), None)


def _clips(path: Path, own: Arguments) -> list[Clip]:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix in (".csv", ".tsv"):
        rows: list[dict[str, Any]] = list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
    else:
        rows = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
    there = rows[0] if rows else {}
    audio, said = (
        asked if asked in there else next((name for name in usual if not asked and name in there), None)
        for asked, usual in ((own.audio_column, AUDIO_COLUMNS), (own.text_column, TEXT_COLUMNS))
    )
    if audio is None or said is None:
        sys.exit(f"{path}: no column of audio files or of transcripts; it has {', '.join(there) or 'no rows'}")
    return [Clip(path.parent / Path(str(row[audio] or "")).expanduser(), str(row[said] or "").strip()) for row in rows]


def faults_of(clip: Clip, *, seconds: float, resample: bool) -> Iterator[str]:
    """What is wrong with one clip; its header is read, not its sound."""
    if not clip.text:
        yield "its transcript is empty"
    try:
        info = soundfile.info(str(clip.audio))
    except (soundfile.SoundFileError, OSError, TypeError) as error:
        yield f"it can't be decoded: {error}" if clip.audio.is_file() else "there is no such file"
        return
    if info.frames <= 0:
        yield "it holds no sound"
    if info.frames > seconds * info.samplerate:
        yield f"{info.frames / info.samplerate:.1f} s are longer than the model's window of {seconds:g} s; cut both"
    if info.samplerate != SAMPLE_RATE and not resample:
        yield f"{info.samplerate} Hz instead of {SAMPLE_RATE}; convert it, or set --resample True"


def sound(path: Path) -> Any:
    """The clip as mono float32 at 16 kHz."""
    wave, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    mono = wave.mean(axis=1)
    if rate == SAMPLE_RATE:
        return mono
    wanted = max(1, round(len(mono) * SAMPLE_RATE / rate))  # by way of the spectrum, as scipy.signal.resample
    spectrum, kept = np.fft.rfft(mono), np.zeros(wanted // 2 + 1, dtype=np.complex128)
    count = min(len(kept), len(spectrum))
    kept[:count] = spectrum[:count]
    return (np.fft.irfft(kept, n=wanted) * (wanted / len(mono))).astype(np.float32)


class Clips(torch.utils.data.Dataset):  # type: ignore[misc]
    """Features are extracted as an item is asked for, labels made at the start; what can't be trained on is refused, all at once, or left
    out."""

    def __init__(self, clips: Sequence[Clip], own: Arguments, processor: Any, model: Any) -> None:
        self._extract, limit = processor.feature_extractor, int(model.config.max_target_positions)
        self.clips: list[Clip] = []
        self.labels: list[list[int]] = []
        longer, faults = 0, list[str]()
        for clip in clips:
            tokens = processor.tokenizer(clip.text).input_ids
            wrong = list(faults_of(clip, seconds=self._extract.n_samples / SAMPLE_RATE, resample=own.resample))
            if len(tokens) > limit:
                wrong.append(f"its transcript has {len(tokens)} tokens, over the model's {limit}; cut it with its audio")
            faults += [f"  {clip.audio}: {one}" for one in wrong]
            if not wrong and len(tokens) > (own.label_length or limit):
                longer += 1
            elif not wrong:
                self.clips.append(clip)
                self.labels.append(tokens)
        if faults and own.on_bad_data == "stop":
            sys.exit("\n".join([f"{len(faults)} fault(s) in the data; --on_bad_data skip leaves those clips out:", *faults[:50]]))
        if faults:
            print("\n".join([f"left out, {len(faults)} fault(s):", *faults[:50]]), flush=True)
        if longer:
            print(f"left out: {longer} of {len(clips)} clips with transcripts of more than {own.label_length} tokens", flush=True)
        if not self.clips:
            sys.exit("no clip is left to train on or to validate with")

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> dict[str, Any]:
        features = self._extract(sound(self.clips[index].audio), sampling_rate=SAMPLE_RATE).input_features[0]
        return {"input_features": features, "labels": self.labels[index]}


@dataclass(frozen=True, kw_only=True)
class Collate:
    """Rows -> one batch: labels padded with what no loss counts, and the decoder's input made from them."""

    start: int
    """The token that every transcript starts with: the decoder's first input, not a label."""
    pad: int

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        labels = [row["labels"][1:] if row["labels"][0] == self.start else row["labels"] for row in rows]
        padded = torch.full((len(rows), max(map(len, labels))), IGNORED, dtype=torch.long)
        for place, one in zip(padded, labels, strict=True):
            place[: len(one)] = torch.tensor(one)
        shifted = torch.full_like(padded, self.start)
        shifted[:, 1:] = padded[:, :-1]
        features = torch.from_numpy(np.stack([row["input_features"] for row in rows]))
        return {"input_features": features, "labels": padded, "decoder_input_ids": shifted.masked_fill(shifted == IGNORED, self.pad)}


# ---------------------------------------------------------------------------------------------------------------------
# Model, loss and metrics


def load(own: Arguments, device: torch.device) -> tuple[Any, Any]:
    """(model, processor), with the prompts of language and task. A folder without weights gives a model of its shape with random ones."""
    beside = Path(own.data).expanduser() / "models" / own.model_name_or_path
    name = str(beside) if beside.is_dir() else own.model_name_or_path  # what lies beside the data comes before the hub's
    folder = Path(name)
    processor = AutoProcessor.from_pretrained(name)
    newer = tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 56)
    how = {"dtype" if newer else "torch_dtype": getattr(torch, own.dtype), "attn_implementation": own.attn_implementation}
    if folder.is_dir() and not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        print(f"{name} has no weights: they are random", flush=True)
        with device:  # nothing large is copied there
            model = AutoModelForSpeechSeq2Seq.from_config(AutoConfig.from_pretrained(name), **how)
        model.generation_config = transformers.GenerationConfig.from_pretrained(name)
    else:
        model = AutoModelForSpeechSeq2Seq.from_pretrained(name, **how)
    if model.config.model_type != "whisper":
        sys.exit(f"{name}: a {model.config.model_type} model; this script knows Whisper-shaped ones")
    if own.audio_seconds is not None:
        shorten_window(model, processor.feature_extractor, own.audio_seconds)
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    model.generation_config.forced_decoder_ids = None
    if getattr(model.generation_config, "is_multilingual", False):
        processor.tokenizer.set_prefix_tokens(language=own.language, task=own.task)
        model.generation_config.language, model.generation_config.task = own.language, own.task
    if own.freeze_encoder:
        model.freeze_encoder()
    return model, processor


def shorten_window(model: Any, extractor: Any, seconds: float) -> None:
    """Whisper's encoder positions are sinusoids, so that a part of them is what a shorter model would have."""
    positions = round(seconds * SAMPLE_RATE / extractor.hop_length / 2)  # the second convolution halves the frames
    if not 0 < positions <= model.config.max_source_positions:
        sys.exit(f"--audio_seconds {seconds:g}: the model's window is {extractor.n_samples / SAMPLE_RATE:g} s")
    encoder = model.model.encoder
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(encoder.embed_positions.weight[:positions].detach().clone(), freeze=True)
    encoder.max_source_positions = model.config.max_source_positions = positions
    extractor.chunk_length, extractor.nb_max_frames = seconds, 2 * positions
    extractor.n_samples = extractor.nb_max_frames * extractor.hop_length


def with_adapters(model: Any, own: Arguments) -> Any:
    """The model with LoRA adapters, which alone are trained."""
    from peft import LoraConfig, get_peft_model

    chosen = own.lora_target_modules
    config = LoraConfig(
        r=own.lora_rank, lora_alpha=own.lora_alpha or 2 * own.lora_rank, lora_dropout=own.lora_dropout,
        target_modules=chosen if chosen == "all-linear" else chosen.split(","),
    )  # fmt: skip
    model.enable_input_require_grads()  # checkpointed layers need an input that carries gradients where all weights are frozen
    return get_peft_model(model, config)


def token_loss(smoothing: float) -> Any:
    """A loss that weighs every label token of an optimizer step equally. Whisper's own is a mean per micro-batch, of which Trainer takes
    the sum, so that gradients grow with the accumulation."""

    def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        summed = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1), ignore_index=IGNORED, reduction="sum",
            label_smoothing=smoothing,
        )  # fmt: skip
        return summed / (num_items_in_batch if num_items_in_batch is not None else (labels != IGNORED).sum().clamp(min=1))

    return loss


def likeliest(logits: Any, labels: Any) -> Any:
    """Token numbers instead of a row of scores for each, and no other output kept."""
    return (logits[0] if isinstance(logits, (tuple, list)) else logits).argmax(dim=-1)


@dataclass
class Scores:
    """Predicted and true tokens -> word and character error rate."""

    tokenizer: Any
    normalize: bool

    def __call__(self, prediction: Any) -> dict[str, float]:
        normalized = BasicTextNormalizer() if self.normalize else str.strip
        true, said = ([normalized(text) for text in self._texts(one)] for one in (prediction.label_ids, prediction.predictions))
        pairs = [pair for pair in zip(true, said, strict=True) if pair[0]]  # what is only punctuation has no words to get wrong
        if not pairs:
            return {}
        true, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return {"wer": float(jiwer.wer(true, said)), "cer": float(jiwer.cer(true, said))}

    def _texts(self, tokens: Any) -> list[str]:
        numbers = np.asarray(tokens[0] if isinstance(tokens, (tuple, list)) else tokens)
        numbers = np.where(numbers < 0, self.tokenizer.pad_token_id, numbers)
        return list(self.tokenizer.batch_decode(numbers, skip_special_tokens=True))


# ---------------------------------------------------------------------------------------------------------------------
# Training


class Leaving(TrainerCallback):  # type: ignore[misc]
    """Ctrl-C or SIGTERM while training: a checkpoint is saved after the step under way, and training ends. A second one ends it at once."""

    def __init__(self) -> None:
        self.signal = 0
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}

    def _asked(self, number: int, frame: Any) -> None:
        self.signal = number
        self.over()
        print("a checkpoint is saved after this step, then training ends", file=sys.stderr, flush=True)

    def over(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.world_size > 1:  # all processes leave after the same step
            asked = torch.tensor([self.signal], device=args.device)
            torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
            self.signal = int(asked)
        if self.signal:
            control.should_save, control.should_evaluate, control.should_training_stop = True, False, True


def main() -> None:
    """Trains, saves and evaluates."""
    own, args = HfArgumentParser((Arguments, SpeechTrainingArguments)).parse_args_into_dataclasses()
    clips = read(own)
    model, processor = load(own, args.device)
    train, validation = (Clips(part, own, processor, model) for part in clips)
    args.remove_unused_columns, args.label_names = False, ["labels"]  # the columns are made by the collator
    collate = Collate(start=model.config.decoder_start_token_id, pad=processor.tokenizer.pad_token_id)
    leaving = Leaving()
    trainer = Seq2SeqTrainer(
        model=with_adapters(model, own) if own.lora_rank else model, args=args, train_dataset=train, eval_dataset=validation,
        data_collator=collate, compute_metrics=Scores(processor.tokenizer, own.normalize), processing_class=processor, callbacks=[leaving],
        compute_loss_func=token_loss(args.label_smoothing_factor),
        preprocess_logits_for_metrics=None if args.predict_with_generate else likeliest,
    )  # fmt: skip
    if args.resume_from_checkpoint and transformers.__version__.startswith("4."):  # it would train on at the checkpoint's batch
        state = json.loads((Path(args.resume_from_checkpoint) / "trainer_state.json").read_text(encoding="utf-8"))
        if state.get("train_batch_size") not in (None, args.train_batch_size):
            sys.exit("going on at another micro-batch needs transformers 5: 4 takes that of the checkpoint, without a word")
    trained = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    leaving.over()
    if leaving.signal:
        sys.exit(128 + leaving.signal)
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", trained.metrics)
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)


if __name__ == "__main__":
    main()

"""Fine-tunes a Whisper-shaped model with transformers' own ``Seq2SeqTrainer`` on a folder of audio and transcripts.

    python hf_speech.py --model_name_or_path openai/whisper-small --data spoken/ --language zh --output_dir out --max_steps 1000 ...

Every argument of ``Seq2SeqTrainingArguments`` is understood, in its own words. The data is one of
  a folder with ``metadata.csv`` or ``metadata.jsonl`` (file_name, text), its files named relative to that folder;
  a folder with ``train`` and ``validation`` (or valid, dev, test) folders of that form, or tables ``train.jsonl`` and ``validation.jsonl``;
  a manifest: a .csv, .tsv, .jsonl or .json table of files and texts (NeMo's ``audio_filepath``, Common Voice's ``path`` and ``sentence``).

Bad audio, an empty transcript, a transcript or a clip that the model can't take and another sample rate are named by file before
training; ``--on_bad_data skip`` leaves those samples out, ``--resample True`` converts sample rates.

Audio is decoded by ``soundfile`` (libsndfile is inside its wheel: wav, flac, ogg, opus, mp3): no FFmpeg, no torchcodec.
Needs torch, transformers >= 5, soundfile, jiwer; ``hf_run.py`` lies beside it. autofit is not needed. Nothing heavy is imported
before it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__:
    from . import hf_run
    from .hf_run import CommonArguments, Refused
else:  # copied beside hf_run.py
    import hf_run  # type: ignore[import-not-found,no-redef]
    from hf_run import CommonArguments, Refused  # type: ignore[no-redef]

AUDIO_COLUMNS = ("file_name", "audio_filepath", "audio", "path", "file")
TEXT_COLUMNS = ("text", "transcription", "transcript", "sentence")
SAMPLE_RATE = 16_000
"""Hz; what every Whisper feature extractor takes."""


@dataclass(kw_only=True)
class SpeechArguments(CommonArguments):
    """The trainer's own arguments."""

    audio_column: str | None = field(default=None, metadata={"help": "column of the audio file; guessed where it isn't named"})
    language: str | None = field(
        default=None, metadata={"help": "spoken language, as Whisper's prompt names it (zh, en, ...); multilingual models"}
    )
    task: str = field(default="transcribe", metadata={"help": "transcribe or translate"})
    label_length: int | None = field(
        default=None, metadata={"help": "longest transcript in tokens, prompt included; None: the model's limit (448)"}
    )
    leave_out_longer: bool = field(
        default=False, metadata={"help": "leave out transcripts over label_length (a lower rung of a ladder), whatever on_bad_data says"}
    )
    audio_seconds: float | None = field(default=None, metadata={"help": "shortens the encoder's window; None: the model's own (30 s)"})
    resample: bool = field(default=False, metadata={"help": "convert other sample rates to 16 kHz instead of calling them bad data"})
    freeze_encoder: bool = field(default=False, metadata={"help": "train the decoder only"})
    normalize: bool = field(default=True, metadata={"help": "WER and CER over text without case, punctuation and diacritics"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One recording and what is said in it."""

    audio: Path
    text: str


# ---------------------------------------------------------------------------------------------------------------------------------
# Data: standard library and soundfile only


def read_data(
    data: str, validation_data: str | None, *, audio_column: str | None, text_column: str | None, fraction: float
) -> tuple[list[Sample], list[Sample]]:
    """(training, validation) samples. Raises ``Refused`` where there is no such data; files are not looked into."""
    train, found_validation = _tables(Path(data).expanduser())
    validation = _tables(Path(validation_data).expanduser())[0] if validation_data is not None else found_validation
    samples = _samples(train, audio_column, text_column)
    if not samples:
        raise Refused(f"{train}: no rows")
    if validation is None:
        return hf_run.split_off(samples, fraction)
    held = _samples(validation, audio_column, text_column)
    if not held:
        raise Refused(f"{validation}: no rows")
    return samples, held


def _tables(place: Path) -> tuple[Path, Path | None]:
    """(the training table, the validation table or None)."""
    if place.is_file():
        if place.suffix not in hf_run.TABLES:
            raise Refused(f"{place}: a manifest is one of {', '.join(hf_run.TABLES)}")
        return place, None
    if not place.is_dir():
        raise Refused(f"{place}: there is no such file or folder")
    if (own := _table_in(place, "metadata")) is not None:
        return own, None
    train = _named(place, "train")
    if train is None:
        raise Refused(f"{place}: it holds neither metadata.csv or metadata.jsonl, nor a train folder or table")
    return train, next((found for name in hf_run.VALIDATION_NAMES if (found := _named(place, name)) is not None), None)


def _named(place: Path, name: str) -> Path | None:
    return _table_in(place, name) or (_table_in(place / name, "metadata") if (place / name).is_dir() else None)


def _table_in(folder: Path, stem: str) -> Path | None:
    return next((path for suffix in hf_run.TABLES if (path := folder / f"{stem}{suffix}").is_file()), None)


def _samples(path: Path, audio_column: str | None, text_column: str | None) -> list[Sample]:
    rows = hf_run.table(path)
    if not rows:
        return []
    audio = hf_run.column(rows, audio_column, AUDIO_COLUMNS, option="audio_column", path=path)
    text = hf_run.column(rows, text_column, TEXT_COLUMNS, option="text_column", path=path)
    return [Sample(audio=path.parent / Path(str(row[audio] or "")).expanduser(), text=str(row[text] or "").strip()) for row in rows]


def faults_of(sample: Sample, *, seconds: float, resample: bool) -> Iterator[str]:
    """What is wrong with one sample, in words that name its file; the audio's header is read, not its sound."""
    import soundfile

    if not sample.text:
        yield f"{sample.audio}: its transcript is empty"
    if not sample.audio.is_file():
        yield f"{sample.audio}: there is no such file"
        return
    try:
        info = soundfile.info(str(sample.audio))
    except (soundfile.SoundFileError, OSError, TypeError) as error:
        yield f"{sample.audio}: it can't be decoded: {error}"
        return
    if info.frames <= 0 or info.samplerate <= 0:
        yield f"{sample.audio}: it holds no sound"
    elif info.frames > seconds * info.samplerate:
        yield f"{sample.audio}: {info.frames / info.samplerate:.1f} s are longer than the model's window of {seconds:g} s; cut both"
    if info.samplerate != SAMPLE_RATE and not resample:
        yield f"{sample.audio}: {info.samplerate} Hz instead of {SAMPLE_RATE}; convert it, or set --resample True"


def sound(path: Path) -> Any:
    """The clip as mono float32 at 16 kHz (numpy). Raises ``Refused`` naming the file where it is broken inside."""
    import numpy as np
    import soundfile

    try:
        wave, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, OSError) as error:
        raise Refused(f"{path}: it can't be decoded: {error}") from error
    mono = wave.mean(axis=1)
    return mono if rate == SAMPLE_RATE else _resampled(mono, rate, np)


def _resampled(wave: Any, rate: int, np: Any) -> Any:
    """Band-limited conversion by way of the spectrum, as ``scipy.signal.resample`` does it."""
    wanted = max(1, round(len(wave) * SAMPLE_RATE / rate))
    spectrum = np.fft.rfft(wave)
    kept = np.zeros(wanted // 2 + 1, dtype=spectrum.dtype)
    count = min(len(kept), len(spectrum))
    kept[:count] = spectrum[:count]
    return (np.fft.irfft(kept, n=wanted) * (wanted / len(wave))).astype(np.float32)


class SpeechData:
    """Samples as the model takes them: real feature extraction when an item is asked for, labels made once at the start."""

    def __init__(self, samples: Sequence[Sample], labels: Sequence[list[int]], feature_extractor: Any) -> None:
        self.samples, self.labels, self._extract = list(samples), list(labels), feature_extractor

    @property
    def lengths(self) -> list[int]:
        """Label tokens per sample: what differs between samples in memory (audio is always a full window)."""
        return [len(labels) for labels in self.labels]

    def loading_sizes(self) -> list[int]:
        """Numbers in each recording before it is made mono and brought to the model's rate: what loading it takes. Reads the headers."""
        import soundfile

        found = (soundfile.info(str(sample.audio)) for sample in self.samples)
        return [info.frames * info.channels for info in found]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        features = self._extract(sound(self.samples[index].audio), sampling_rate=SAMPLE_RATE).input_features[0]
        return {"input_features": features, "labels": self.labels[index]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Collate:
    """Rows -> one batch: labels padded with what no loss counts, and the decoder's input made from them."""

    start: int
    """The token that every transcript starts with; the decoder's first input, not a label."""
    pad: int

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import numpy as np
        import torch

        labels = [row["labels"][1:] if row["labels"][0] == self.start else row["labels"] for row in rows]
        width = max(map(len, labels))
        padded = torch.full((len(rows), width), hf_run.IGNORED, dtype=torch.long)
        for place, one in zip(padded, labels, strict=True):
            place[: len(one)] = torch.tensor(one)
        shifted = torch.full_like(padded, self.start)
        shifted[:, 1:] = padded[:, :-1]
        features = torch.from_numpy(np.stack([row["input_features"] for row in rows]))
        return {"input_features": features, "labels": padded, "decoder_input_ids": shifted.masked_fill(shifted == hf_run.IGNORED, self.pad)}


# ---------------------------------------------------------------------------------------------------------------------------------
# Model


def load(own: SpeechArguments) -> tuple[Any, Any]:
    """(model, processor), with language and task prompts set."""
    from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(own.model_name_or_path)  # type: ignore[no-untyped-call,unused-ignore]
        model = AutoModelForSpeechSeq2Seq.from_pretrained(
            own.model_name_or_path, **hf_run.weights_in(own.dtype), attn_implementation=own.attn_implementation
        )
    except (OSError, ValueError) as error:
        raise Refused(f"{own.model_name_or_path}: no model with its processor could be loaded: {error}") from error
    if model.config.model_type != "whisper":
        raise Refused(f"{own.model_name_or_path}: a {model.config.model_type} model; this trainer knows Whisper-shaped models")
    if own.audio_seconds is not None:
        _shorten_window(model, processor, own.audio_seconds)
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    generation = model.generation_config
    generation.forced_decoder_ids = None
    if getattr(generation, "is_multilingual", False):
        processor.tokenizer.set_prefix_tokens(language=own.language, task=own.task)
        generation.language, generation.task = own.language, own.task
    if own.freeze_encoder:
        model.freeze_encoder()
    return model, processor


def _shorten_window(model: Any, processor: Any, seconds: float) -> None:
    """A shorter encoder window. Whisper's encoder positions are sinusoids, so that a part of them is what a shorter model would have."""
    import torch

    extractor, encoder = processor.feature_extractor, model.model.encoder
    positions = round(seconds * SAMPLE_RATE / extractor.hop_length / 2)  # the second convolution halves the frames
    have = model.config.max_source_positions
    if not 0 < positions <= have:
        raise Refused(f"--audio_seconds {seconds:g}: the model's window is {window_seconds(extractor):g} s")
    kept = torch.nn.Embedding.from_pretrained(encoder.embed_positions.weight[:positions].detach().clone(), freeze=True)
    encoder.embed_positions = kept
    encoder.max_source_positions = model.config.max_source_positions = positions
    extractor.chunk_length = seconds
    extractor.nb_max_frames = 2 * positions
    extractor.n_samples = extractor.nb_max_frames * extractor.hop_length


def window_seconds(extractor: Any) -> float:
    """Seconds of audio that the model takes at once."""
    return float(extractor.n_samples) / SAMPLE_RATE


def _targets() -> str:
    """Attention projections of encoder and decoder: what the LoRA paper adapts."""
    return "q_proj,v_proj"


# ---------------------------------------------------------------------------------------------------------------------------------
# Metrics


class Scores:
    """Predicted and true tokens -> word and character error rate, by jiwer; kept whole or summed batch by batch."""

    def __init__(self, tokenizer: Any, normalize: bool) -> None:
        from transformers.models.whisper.english_normalizer import BasicTextNormalizer

        self._tokenizer = tokenizer
        self._normalized = BasicTextNormalizer() if normalize else str.strip
        self._pairs: list[tuple[str, str]] = []

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """``compute_metrics`` of Trainer; with ``batch_eval_metrics`` it is called for each batch, the last time with True."""
        import jiwer

        self._pairs += zip(self._texts(prediction.label_ids), self._texts(prediction.predictions), strict=True)
        if not compute_result:
            return {}
        pairs = [(true, said) for true, said in self._pairs if true]  # what is only punctuation has no words to get wrong
        self._pairs = []
        if not pairs:
            return {}
        true, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return {"wer": float(jiwer.wer(true, said)), "cer": float(jiwer.cer(true, said))}

    def _texts(self, tokens: Any) -> list[str]:
        import numpy as np

        scores = tokens[0] if isinstance(tokens, (tuple, list)) else tokens
        numbers = np.asarray(scores.cpu() if hasattr(scores, "cpu") else scores)
        if numbers.ndim == 3:  # eval_keeps=logits without generation
            numbers = numbers.argmax(axis=-1)
        numbers = np.where(numbers < 0, self._tokenizer.pad_token_id, numbers)
        return [self._normalized(text) for text in self._tokenizer.batch_decode(numbers, skip_special_tokens=True)]


# ---------------------------------------------------------------------------------------------------------------------------------
# The trainer


def prepared(own: SpeechArguments, samples: Sequence[Sample], processor: Any, model: Any) -> SpeechData:
    """The samples that can be trained on. Raises ``Refused`` with everything wrong, or says what it left out."""
    seconds, limit = window_seconds(processor.feature_extractor), int(model.config.max_target_positions)
    most = min(own.label_length or limit, limit)
    good: list[Sample] = []
    labels: list[list[int]] = []
    faults: list[str] = []
    longer = 0
    for sample in samples:
        wrong = list(faults_of(sample, seconds=seconds, resample=own.resample))
        tokens = processor.tokenizer(sample.text).input_ids
        if len(tokens) > most and not wrong:
            if own.leave_out_longer:
                longer += 1
                continue
            wrong.append(f"{sample.audio}: its transcript has {len(tokens)} tokens, over the limit of {most}; cut it with its audio")
        if wrong:
            faults += wrong
        else:
            good.append(sample)
            labels.append(tokens)
    hf_run.report_bad(faults, own.on_bad_data)
    if longer:
        print(f"left out: {longer} of {len(samples)} sample(s) with transcripts of more than {most} tokens", flush=True)
    if not good:
        raise Refused("no sample is left to train on or to validate with")
    return SpeechData(good, labels, processor.feature_extractor)


def build(own: SpeechArguments, args: Any) -> Any:
    """The trainer, ready to train. Raises ``Refused`` with everything that is wrong with the data or the model."""
    from transformers import Seq2SeqTrainer

    train, validation = read_data(
        own.data, own.validation_data, audio_column=own.audio_column, text_column=own.text_column, fraction=own.validation_fraction
    )
    model, processor = load(own)
    datasets = [prepared(own, samples, processor, model) for samples in (train, validation)]
    args.remove_unused_columns = False  # the columns are made by the collator
    args.label_names = ["labels"]
    args.batch_eval_metrics = own.eval_keeps == "sums"
    start, pad = model.config.decoder_start_token_id, processor.tokenizer.pad_token_id
    keeps_tokens = own.eval_keeps == "tokens" and not args.predict_with_generate
    if own.lora_rank:
        model = hf_run.with_adapters(model, own, targets=_targets(), task_type=None)
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=datasets[0],
        eval_dataset=datasets[1],
        data_collator=Collate(start=start, pad=pad),
        compute_metrics=Scores(processor.tokenizer, own.normalize),
        compute_loss_func=hf_run.token_weighted(args.label_smoothing_factor),
        preprocess_logits_for_metrics=hf_run.likeliest if keeps_tokens else None,
        processing_class=processor,
    )
    return hf_run.checkpointing_first_layers(hf_run.offloading(trainer, own.offload), own.checkpointing_share)


def arguments(argv: Sequence[str]) -> tuple[SpeechArguments, Any]:
    """``argv``, read and checked as transformers checks it."""
    from transformers import Seq2SeqTrainingArguments

    own, args = hf_run.parse(SpeechArguments, Seq2SeqTrainingArguments, argv)
    return own, args


def main(argv: Sequence[str]) -> None:
    """Trains, saves and evaluates as ``argv`` says."""
    own, args = arguments(argv)
    hf_run.finish(build(own, args), args)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"hf_speech: {error}")

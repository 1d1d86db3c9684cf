"""What the built-in transformers trainers share: arguments in, a finished run with its results out.

This file needs nothing but torch and transformers (peft where LoRA is asked); it is copied beside ``hf_speech.py`` or ``hf_text.py``
into a run folder's ``native/``, with ``hf_offload.py``, and works there without autofit. Nothing heavy is imported before it is needed:
the launcher reads the trainers' data rules from the same files, and never imports torch.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def hide_folder_named_datasets() -> None:
    """Makes a person's ``datasets/`` folder on the path count as what it is: transformers takes it for the package and fails.

    A package has a file it is loaded from; a plain folder has none. Must come before transformers is imported.
    """
    if "datasets" not in sys.modules:
        found = importlib.util.find_spec("datasets")
        if found is not None and found.origin is None:
            sys.modules["datasets"] = None  # type: ignore[assignment]  # "known not to be there" to find_spec and import


hide_folder_named_datasets()

SAMPLES_PER_STEP = "samples_per_step.json"
"""Written into every checkpoint: the effective batch that its step count was counted in."""

SHARDED_WEIGHTS = "pytorch_model_fsdp.bin"
"""In a checkpoint: it was saved by a training that shares its weights. They are whole in there, so that any number of ranks can load it."""
FSDP = "FSDP"

IGNORED = -100
"""The label that no loss counts (torch.nn.functional.cross_entropy's default)."""


class Refused(ValueError):
    """The run cannot be done as asked. The message says why, with every fault, and what would work."""


@dataclass(kw_only=True)
class CommonArguments:
    """What both trainers take beside the arguments of transformers' own trainer."""

    model_name_or_path: str = field(metadata={"help": "folder of a model with its tokenizer, or a name on the hub"})
    data: str = field(metadata={"help": "folder or manifest with the training data; see the trainer's own help"})
    validation_data: str | None = field(
        default=None, metadata={"help": "folder or manifest to validate on; made from the data where it isn't given"}
    )
    validation_fraction: float = field(default=0.1, metadata={"help": "part of the data held back where no validation data is given"})
    text_column: str | None = field(default=None, metadata={"help": "column of the text; guessed where it isn't named"})
    on_bad_data: str = field(
        default="stop", metadata={"help": "stop: say what is wrong with which file and train nothing; skip: leave those out"}
    )
    dtype: str = field(
        default="float32", metadata={"help": "of the weights: float32, or bfloat16 (frozen weights under LoRA; not for full training)"}
    )
    attn_implementation: str | None = field(default=None, metadata={"help": "sdpa, eager, flash_attention_2; None: transformers chooses"})
    eval_keeps: str = field(
        default="tokens",
        metadata={
            "help": "kept per sample to the end of an evaluation. logits: what Trainer keeps by itself; tokens: the likeliest; sums: none"
        },
    )
    offload: str = field(
        default="none", metadata={"help": "optimizer: its states lie in the host's memory, and come to the card in pieces at each step"}
    )
    checkpointing_share: float = field(
        default=1.0, metadata={"help": "where layers are checkpointed: of each stack of layers the first, up to this part of them (0 to 1)"}
    )
    lora_rank: int = field(default=0, metadata={"help": "train adapters of this rank instead of all weights (needs peft); 0: all weights"})
    lora_alpha: int | None = field(default=None, metadata={"help": "scale of the adapters; None: twice the rank"})
    lora_dropout: float = field(default=0.0, metadata={"help": "dropout before the adapters"})
    lora_target_modules: str | None = field(
        default=None, metadata={"help": "comma separated, or all-linear; None: the trainer's own choice"}
    )


KEEPS = ("logits", "tokens", "sums")
ON_BAD_DATA = ("stop", "skip")
OFFLOADS = ("none", "optimizer")


def parse(own: type, training: type, argv: Sequence[str]) -> tuple[Any, Any]:
    """(the trainer's own arguments, transformers' training arguments). Exits with usage where they are wrong.

    A loss that is not finite is logged as such unless ``--logging_nan_inf_filter true`` is given: transformers' default logs the mean of
    the finite losses in its place, and a training that has diverged looks sound.
    """
    from transformers import HfArgumentParser

    share_on_a_cpu(argv)
    parser = HfArgumentParser((own, training))
    parser.set_defaults(logging_nan_inf_filter=False)
    found = parser.parse_args_into_dataclasses(list(argv), look_for_args_file=False)
    for name, allowed in (("eval_keeps", KEEPS), ("on_bad_data", ON_BAD_DATA), ("offload", OFFLOADS)):
        if (value := getattr(found[0], name)) not in allowed:
            raise Refused(f"--{name} {value}: it is one of {', '.join(allowed)}")
    return found[0], found[1]


def share_on_a_cpu(argv: Sequence[str]) -> None:
    """Makes processes on a CPU (``ACCELERATE_TORCH_DEVICE=cpu``) share weights as cards do, over gloo; else does nothing.

    accelerate shares among what it takes for cards: else, without a word, not at all (``--fsdp``), or DeepSpeed alone knows that there are
    several, and each trains on all data (``--deepspeed``). A state made before the arguments are read is taken as it is where
    ``accelerator_config`` says ``use_configured_state``.
    """
    kind = {"--fsdp": "MULTI_GPU", "--deepspeed": "DEEPSPEED"}.get(next((word for word in argv if word in ("--fsdp", "--deepspeed")), ""))
    if kind is None or os.environ.get("ACCELERATE_TORCH_DEVICE") != "cpu":
        return
    if kind == "DEEPSPEED":
        import deepspeed  # type: ignore[import-not-found,unused-ignore]

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # needs a compiler; without it gloo exchanges
        deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    from accelerate import DistributedType, PartialState  # type: ignore[import-untyped,unused-ignore]

    PartialState(backend="gloo").distributed_type = DistributedType[kind]


# ---------------------------------------------------------------------------------------------------------------------------------
# Data, before any training


def split_off(samples: Sequence[Any], fraction: float) -> tuple[list[Any], list[Any]]:
    """(training, validation): every k-th sample is held back, so that the split is the same on every machine and at every start."""
    if not 0 < fraction < 1:
        raise Refused(f"--validation_fraction {fraction}: a part between 0 and 1 is held back, or name --validation_data")
    if len(samples) < 2:
        raise Refused(f"{len(samples)} sample(s) can't be split into training and validation; name --validation_data")
    every = max(2, round(1 / fraction))
    held = [sample for index, sample in enumerate(samples) if index % every == every - 1] or [samples[-1]]
    chosen = {id(sample) for sample in held}
    return [sample for sample in samples if id(sample) not in chosen], held


def report_bad(faults: Sequence[str], on_bad_data: str, most: int = 50) -> None:
    """Says what is wrong with the data. Raises ``Refused`` with all of it where nothing may be skipped."""
    if not faults:
        return
    listed = "\n".join(f"  {fault}" for fault in faults[:most]) + (f"\n  ... and {len(faults) - most} more" if len(faults) > most else "")
    if on_bad_data == "stop":
        raise Refused(f"{len(faults)} fault(s) in the data; correct them, or leave those samples out with --on_bad_data skip:\n{listed}")
    print(f"left out, {len(faults)} sample(s):\n{listed}", flush=True)


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a .csv, .tsv, .jsonl or .json (a list of objects) file. Raises ``Refused`` where it can't be read."""
    import csv

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path}: can't be read: {error}") from error
    if path.suffix in (".csv", ".tsv"):
        return list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
    try:
        rows = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise Refused(f"{path}: line {error.lineno} is not JSON: {error.msg}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Refused(f'{path}: each row must be an object such as {{"text": "..."}}')
    return rows


TABLES = (".jsonl", ".csv", ".tsv", ".json")
VALIDATION_NAMES = ("validation", "valid", "val", "dev", "eval", "test")


def column(rows: Sequence[Mapping[str, Any]], asked: str | None, usual: Sequence[str], *, option: str, path: Path) -> str:
    """The name of a column. Raises ``Refused`` naming those that there are."""
    there = list(rows[0]) if rows else []
    if asked is not None and asked in there:
        return asked
    found = next((name for name in usual if name in there), None)
    if asked is None and found is not None:
        return found
    looked = f"no column {asked!r}" if asked is not None else f"none of the usual columns ({', '.join(usual)})"
    raise Refused(f"{path}: {looked}; it has {', '.join(map(str, there)) or 'no columns'}. Name one with --{option}")


# ---------------------------------------------------------------------------------------------------------------------------------
# Model and loss


def torch_dtype(name: str) -> Any:
    """The weights' dtype. Full training wants float32: optimizer steps below bfloat16's 8 bits are lost."""
    import torch

    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(name)
    if dtype is None:
        raise Refused(f"--dtype {name}: it is float32 or bfloat16")
    return dtype


def weights_in(name: str) -> dict[str, Any]:
    """``torch_dtype`` in the word that ``from_pretrained`` takes it by: ``dtype`` from transformers 4.56 on."""
    import transformers

    numbers = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    return {"dtype" if numbers >= (4, 56) else "torch_dtype": torch_dtype(name)}


def with_adapters(model: Any, own: CommonArguments, *, targets: str, task_type: str | None) -> Any:
    """The model with LoRA adapters to train, or as it was where none are asked."""
    if not own.lora_rank:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise Refused("--lora_rank needs the package peft: pip install peft") from error
    chosen = own.lora_target_modules or targets
    config = LoraConfig(
        r=own.lora_rank,
        lora_alpha=own.lora_alpha or 2 * own.lora_rank,
        lora_dropout=own.lora_dropout,
        target_modules=chosen if "," not in chosen and chosen == "all-linear" else chosen.split(","),
        task_type=task_type,
    )
    model.enable_input_require_grads()  # checkpointed blocks need an input that carries gradients when all weights are frozen
    return get_peft_model(model, config)


def freeze_first(model: Any, layers: int) -> None:
    """Embeddings and the first ``layers`` aren't trained; an output layer that shares its weights with the embeddings isn't, either."""
    stack = getattr(model.get_decoder(), "layers", None)
    if stack is None or layers >= len(stack):
        there = f"of {len(stack)}; one at least is trained" if stack is not None else "which this model doesn't name"
        raise Refused(f"--freeze {layers} layers, {there}")
    for frozen in (model.get_input_embeddings(), *stack[:layers]):
        frozen.requires_grad_(False)


def loss_in_chunks(model: Any, chunks: int, row: Mapping[str, Any] | None = None) -> Any:
    """``model``, which computes logits and loss of a training's tokens in so many parts. A part's logits are there for its own loss alone,
    and are computed again for its backward pass: of the same mathematics, no more than one part's logits are there at once.

    ``row``: tokens on which the model's own loss is compared. Raises Refused where it is another.
    """
    import torch
    from torch.utils.checkpoint import checkpoint
    from transformers.modeling_outputs import CausalLMOutputWithPast

    def summed(hidden: Any, labels: Any) -> Any:
        logits = model.get_output_embeddings()(hidden).float()
        return torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")

    def in_parts(labels: Any, counted: Any, *args: Any, **kwargs: Any) -> Any:
        hidden, targets = model.get_decoder()(*args, **kwargs)[0][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        parts = zip(hidden.tensor_split(chunks), targets.tensor_split(chunks), strict=True)
        loss = sum(checkpoint(summed, *part, use_reentrant=False) for part in parts)
        return loss / (counted if counted is not None else (targets != IGNORED).sum())

    whole = type(model).forward

    @functools.wraps(whole)
    def forward(self: Any, *args: Any, labels: Any = None, num_items_in_batch: Any = None, **kwargs: Any) -> Any:
        if self.training and labels is not None:
            return CausalLMOutputWithPast(loss=in_parts(labels, num_items_in_batch, *args, **kwargs))
        given = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
        return whole(self, *args, labels=labels, **given, **kwargs)

    if row is not None:
        tokens = torch.tensor([row["input_ids"][:32]])
        with torch.no_grad():
            own, ours = float(model(input_ids=tokens, labels=tokens).loss), float(in_parts(tokens, None, input_ids=tokens))
        if not math.isclose(own, ours, rel_tol=1e-4):
            raise Refused(f"--loss_chunks: this model's own loss is {own:.6g} and in parts {ours:.6g}: it does more than its output layer")
    model.forward = types.MethodType(forward, model)
    return model


def token_weighted(label_smoothing: float = 0.0) -> Callable[..., Any]:
    """A ``compute_loss_func`` for Trainer that weighs every label token of an optimizer step equally, whatever the micro-batch.

    Trainer (5.23) takes any model whose ``forward`` has ``**kwargs`` for one that divides by ``num_items_in_batch`` itself. Whisper has
    them and doesn't: its mean per micro-batch is summed, so that gradients grow with the accumulation. With this function they don't.
    """

    def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        import torch

        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        flat = logits.reshape(-1, logits.shape[-1]).float()
        summed = torch.nn.functional.cross_entropy(
            flat, labels.reshape(-1), ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing
        )
        return summed / (num_items_in_batch if num_items_in_batch is not None else (labels != IGNORED).sum().clamp(min=1))

    return loss


def likeliest(logits: Any, labels: Any) -> Any:
    """``preprocess_logits_for_metrics``: token numbers instead of a row of scores for each, and no other output kept."""
    scores = logits[0] if isinstance(logits, (tuple, list)) else logits
    return scores.argmax(dim=-1)


# ---------------------------------------------------------------------------------------------------------------------------------
# The run


def remember_samples_per_step(trainer: Any) -> None:
    """Every checkpoint says in which effective batch its steps were counted: see ``checked_resume``. Where no bar does, a line tells
    the step.
    """
    from transformers import TrainerCallback

    class Remember(TrainerCallback):  # type: ignore[misc]
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.is_world_process_zero and folder.is_dir():
                (folder / SAMPLES_PER_STEP).write_text(json.dumps({"samples_per_step": samples_per_step(args)}), encoding="utf-8")

        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if args.disable_tqdm and state.is_world_process_zero:  # no bar tells it then
                print(f"step {state.global_step}/{state.max_steps}", flush=True)

    trainer.add_callback(Remember())


def checkpointing_first_layers(trainer: Any, share: float) -> Any:
    """``trainer``, which checkpoints the first layers of each stack alone where ``share`` is less than 1, as soon as training has turned it
    on for all. Each layer of transformers 4.53 (about) and later has a switch (``GradientCheckpointingLayer``)."""
    from transformers import TrainerCallback

    class KeepFirst(TrainerCallback):  # type: ignore[misc]
        checkpointing_share = share

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            keep_first(model, share)

    if share < 1:
        trainer.add_callback(KeepFirst())
    return trainer


def offloading(trainer: Any, offload: str) -> Any:
    """``trainer``, whose optimizer will keep its states in the host's memory where that is asked."""
    if offload == "none":
        return trainer
    if __package__:
        from . import hf_offload
    else:  # copied beside this file
        import hf_offload  # type: ignore[import-not-found,no-redef]
    args = trainer.args
    kind, settings = trainer.get_optimizer_cls_and_kwargs(args, trainer.model)
    if args.device.type != "cuda" or args.world_size > 1:
        raise Refused(f"--offload optimizer is for one card; this trains on {args.world_size} x {args.device.type}")
    if kind.__name__ not in (known := (*hf_offload.BY_NUMBER, *hf_offload.BY_TENSOR)):
        raise Refused(f"--offload optimizer: {kind.__name__} can't be stepped piece by piece; {', '.join(known)} can")
    trainer.optimizer_cls_and_kwargs = hf_offload.offloaded(kind), settings  # Seq2SeqTrainer doesn't take it as an argument
    return trainer


def keep_first(model: Any, share: float) -> None:
    """Leaves checkpointing on for the first layers of each stack, at least one. Raises Refused where layers have no switch of their own."""
    stacks = _switched(model)
    if not stacks:
        raise Refused("--checkpointing_share: this model's layers have no switch of their own: checkpoint all of them, or none")
    for stack in stacks:
        for number, layer in enumerate(stack):
            layer.gradient_checkpointing = layer.gradient_checkpointing and number < math.ceil(share * len(stack))


def has_first(model: Any, share: float) -> bool:
    """Whether checkpointing is on for the first layers of each stack, and for no other."""
    wanted = {id(layer) for stack in _switched(model) for layer in stack[: math.ceil(share * len(stack))]}
    return wanted == {id(layer) for stack in _switched(model) for layer in stack if layer.gradient_checkpointing}


def _switched(model: Any) -> list[Any]:
    """Stacks of layers that each have a switch."""
    import torch

    stacks = [one for one in model.modules() if isinstance(one, torch.nn.ModuleList) and len(one) > 1]
    return [one for one in stacks if all(hasattr(layer, "gradient_checkpointing") for layer in one)]


def samples_per_step(args: Any) -> int:
    """The effective batch: samples per optimizer step, over all processes."""
    return int(args.per_device_train_batch_size * args.gradient_accumulation_steps * max(1, args.world_size))


def checked_resume(args: Any) -> str | None:
    """The checkpoint to go on from, or None. ``last`` is the newest one in the output folder.

    Another micro-batch is fine where the effective batch is the same: the sample stream then goes on exactly. With another one
    Trainer would reinterpret its step count, repeat or miss samples and end at another step (transformers issues 43708, 25956).
    """
    asked = args.resume_from_checkpoint
    if not asked:
        return None
    if asked == "last":
        from transformers import trainer_utils

        asked = trainer_utils.get_last_checkpoint(args.output_dir)  # type: ignore[no-untyped-call,unused-ignore]
        if asked is None:
            raise Refused(f"--resume_from_checkpoint last: {args.output_dir} holds no checkpoint")
    if not (Path(asked) / "trainer_state.json").is_file():
        raise Refused(f"--resume_from_checkpoint {asked}: there is no trainer_state.json in it")
    shares = (shared_by(Path(asked)), _shares(args))
    if shares[0] != shares[1]:
        saved_by, run = (f"with {one}" if one else "with nothing shared" for one in shares)
        raise Refused(f"{asked} was saved {saved_by}, and this run trains {run}: it can't load that optimizer's states")
    saved = Path(asked) / SAMPLES_PER_STEP
    if saved.is_file():
        before = json.loads(saved.read_text(encoding="utf-8"))["samples_per_step"]
        now = samples_per_step(args)
        if before != now:
            micro, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
            raise Refused(
                f"{asked} was trained with {before} samples per step, and this run takes {now} ({micro} x {accumulation}): its steps "
                f"would be miscounted. Keep the product at {before}, for example --gradient_accumulation_steps {max(1, before // micro)}"
            )
    return str(asked)


def shared_by(checkpoint: Path) -> str:
    """How ranks shared what a checkpoint holds, by its files; nothing where they didn't."""
    if (checkpoint / SHARDED_WEIGHTS).is_file():
        return FSDP
    parts = list(checkpoint.glob("global_step*/*_optim_states.pt"))
    cut = any(checkpoint.glob("global_step*/*zero_pp_rank_*_model_states.pt"))
    return zero(3 if cut else 2, len(parts)) if parts else ""


def zero(stage: int, ranks: int) -> str:
    """DeepSpeed's. Each rank saves its own part, which loads at the same stage and in as many ranks alone."""
    return f"ZeRO {stage} of {ranks} ranks"


def _shares(args: Any) -> str:
    if getattr(args, "deepspeed", None):
        return zero(int(args.hf_deepspeed_config.get_value("zero_optimization.stage", 0)), args.world_size)
    return FSDP if args.fsdp else ""


class Leaving:
    """SIGINT (Ctrl-C) or SIGTERM (a scheduler) while training: after the step under way a checkpoint is saved and training ends.

    A second signal does what it would have done without this.
    """

    def __init__(self) -> None:
        self.asked_by = 0
        self._before: dict[int, Any] = {}

    def watch(self, trainer: Any) -> None:
        """From now on. Nothing is done outside of the main thread, which alone may hold handlers."""
        if threading.current_thread() is not threading.main_thread():
            return
        from transformers import TrainerCallback

        leaving = self

        class Leave(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                leaving.asked_by = _asked_in_any_rank(leaving.asked_by, args)
                if leaving.asked_by:
                    control.should_save, control.should_evaluate, control.should_training_stop = True, False, True

        trainer.add_callback(Leave())
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}

    def _handle(self, number: int, frame: Any) -> None:
        self.asked_by = number
        self.unwatch()
        print(f"{signal.Signals(number).name}: saving a checkpoint after this step, then leaving", file=sys.stderr, flush=True)

    def unwatch(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _asked_in_any_rank(asked_by: int, args: Any) -> int:
    """Ranks leave after the same step: one that left alone would let the others wait for it."""
    import torch

    if args.world_size < 2:
        return asked_by
    asked = torch.tensor([asked_by], device=args.device)
    torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
    return int(asked)


def finish(trainer: Any, args: Any) -> Mapping[str, Any]:
    """Trains to the end, saves the model, evaluates it; ``all_results.json`` in the output folder holds what came of it.

    Asked to leave, it ends with status 128 + the signal's number instead, a checkpoint saved.
    """
    resume = checked_resume(args)
    remember_samples_per_step(trainer)
    leaving = Leaving()
    leaving.watch(trainer)
    trained = trainer.train(resume_from_checkpoint=resume)
    leaving.unwatch()
    if leaving.asked_by:
        sys.exit(128 + leaving.asked_by)
    trainer.save_model()
    trainer.save_state()
    trainer.log_metrics("train", trained.metrics)
    trainer.save_metrics("train", trained.metrics)
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    return dict(metrics)


def perplexity(loss: float) -> float:
    """exp(loss), without an overflow."""
    return math.exp(min(loss, 700.0))

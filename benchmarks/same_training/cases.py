"""The trainings, each as a person's command, and the rungs that each is played at. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

WHOLE = 8
"""Rows of an optimizer step, as asked: all of them in one micro-batch; of each rank where several train."""
RUNGS = (2, 1)
"""Micro-batches, in the order in which they are played."""
TRAINER = (
    "--output_dir", "out", "--per_device_train_batch_size", "{batch}", "--max_steps", "6", "--use_cpu", "True", "--optim", "sgd",
    "--learning_rate", "0.05", "--lr_scheduler_type", "linear", "--report_to", "none", "--save_strategy", "no", "--disable_tqdm", "True",
)  # fmt: skip
YOLO = (
    "data=data/data.yaml", "epochs=2", "imgsz=64", "batch={batch}", "nbs=8", "optimizer=SGD", "lr0=0.01", "warmup_epochs=0", "workers=0",
    "mosaic=0", "hsv_h=0", "hsv_s=0", "hsv_v=0", "fliplr=0", "translate=0", "scale=0", "erasing=0", "plots=False", "pretrained=False",
    "amp=False", "device=cpu", "project=out", "exist_ok=True",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One training."""

    name: str
    kind: str
    words: tuple[str, ...]
    """The command; {batch} is the whole batch."""
    same: bool = True
    """Whether smaller micro-batches are the same training, by the script's own word or held back from outside, with nothing else put right.
    Where not, a refusal is no false alarm; whatever is launched is measured."""
    why: str = ""
    """Why they aren't, or what makes it hard."""
    needs: tuple[str, ...] = ()
    """Packages that the case imports."""
    keeps: str = "model.pt"
    """The file that the script leaves, held against the plain run's, too; nothing where it leaves none."""
    pictures: bool = False
    """Images are made for it."""
    forward_rows: int = 1
    """Rows of a forward pass for each row of the micro-batch: two where a pair goes through the model at once."""
    ranks: int = 1
    """Processes that train together."""
    gradient: float = 1e-4
    """The first update is the same below this relative difference: fp32's rounding is at 1e-7, the smallest true one seen at 2e-3."""
    weights: float = 1e-2
    """The same for the weights at the end, over what training has moved them: rounding grows from step to step."""

    @property
    def script(self) -> str:
        """The file in ``scripts`` that the command runs; nothing for a library's own program."""
        return next((word for word in self.words if word.endswith(".py")), "")

    def command(self) -> list[str]:
        start = ("-m", "torch.distributed.run", "--standalone", "--local_addr=localhost", "--nproc_per_node", str(self.ranks))
        words = (self.words[0], *start, *self.words[1:]) if self.ranks > 1 else self.words
        return [word.replace("{batch}", str(WHOLE)) for word in words]


def _own(name: str, kind: str, script: str, *flags: str, **more: Any) -> Case:
    return Case(name=name, kind=kind, words=("python", script, "--batch-size", "{batch}", *flags), **more)


def _trainer(task: str, kind: str, *flags: str, same: bool = True, why: str = "") -> Case:
    words = ("python", "hf_trainer.py", "--task", task, *TRAINER, *flags)
    return Case(name=f"trainer-{task}", kind=kind, words=words, same=same, why=why, keeps="", needs=("transformers", "accelerate"))


def _two_ranks(name: str, kind: str, like: Case) -> Case:
    return replace(like, name=name, kind=kind, ranks=2)


def _pairs(name: str, *flags: str, same: bool, why: str = "") -> Case:
    words = ("python", "pairs.py", *TRAINER, *flags)
    return Case(name=name, kind="sentence-transformers", words=words, same=same, why=why, keeps="", needs=("sentence_transformers",))


def _trl(name: str, kind: str, *flags: str, why: str = "", forward_rows: int = 1) -> Case:
    words = ("python", "preferences.py", *TRAINER, "--bf16", "False", "--gradient_checkpointing", "False", *flags)
    return Case(name=name, kind=kind, words=words, why=why, keeps="", needs=("trl",), forward_rows=forward_rows)


_YOLO = Case(
    name="yolo-detect", kind="Ultralytics detect", words=("yolo", "detect", "train", "model=yolov8n.yaml", *YOLO), same=False, keeps="",
    pictures=True, why="batch norm in training takes its statistics from micro-batches", needs=("ultralytics",),
)  # fmt: skip


def _other(name: str, why: str = "", *flags: str, script: str = "", batch: str = "--batch-size", same: bool = True, **more: Any) -> Case:
    words = ("python", f"{script or name}.py", batch, "{batch}", *flags)
    return Case(name=name, kind="other styles", words=words, same=same, why=why, **more)


_STATISTICS = "batch norm in training takes its statistics from micro-batches"
_NEGATIVES = "the other rows of a micro-batch are a row's negatives"

CASES: Sequence[Case] = (
    _own("plain", "plain loop", "classifier.py"),
    _own("plain-adamw", "plain loop", "classifier.py", "--adamw"),
    _own("plain-own-word", "plain loop", "own_word.py"),
    _own("weighted-classes", "plain loop", "classifier.py", "--weighted", same=False, why="a mean over weights, not over rows"),
    _own("undivided", "plain loop", "own_word.py", "--undivided", same=False, why="the script adds its micro-batches up"),
    _own("lr-by-batch", "plain loop", "own_word.py", "--scale-lr", same=False, why="the learning rate is worked out from the batch size"),
    _own("onecycle-by-batch", "cosine by steps", "own_word.py", "--onecycle", same=False, why="the schedule is stepped with every batch"),
    _own("counted-steps", "plain loop", "counted.py", same=False, why="--steps counts batches"),
    _trainer("causal", "Trainer, causal"),
    _trainer("masked", "Trainer, masked", same=False, why="the model averages each micro-batch by itself; Trainer adds them up"),
    _trainer("seq2seq", "Trainer, seq2seq", same=False, why="the model averages each micro-batch by itself"),
    _trainer("speech", "Trainer, seq2seq", same=False, why="the model averages each micro-batch by itself; Trainer adds them up"),
    _trainer("ctc", "Trainer, CTC"),
    _trl("dpo", "DPO pairs", forward_rows=2),
    _trl("grpo", "GRPO, whole groups", "--num_generations", "4", "--max_completion_length", "12", "--generation_batch_size", "8",
         why="answers are drawn at random, as many at once as belong to a step"),
    _own("lightning-automatic", "Lightning, automatic", "lightning_module.py", needs=("lightning",)),
    _own("fabric", "Fabric", "fabric.py", needs=("lightning",)),
    _own("accelerate", "accelerate", "accelerated.py", needs=("accelerate",), why="44 rows: the last step of a pass is a small one"),
    _own("contrastive", "contrastive", "contrastive.py", same=False, why=_NEGATIVES),
    _pairs("pairs-contrastive", same=False, why=_NEGATIVES),
    _own("gan", "GAN", "gan.py", same=False, why="the maker is trained against the judge as it is after its step on the same rows"),
    _own("carried-state", "RNN with carried state", "carried.py", same=False, why="the batch size cuts the text into columns"),
    _own("batch-norm", "batch norm", "batchnorm.py", same=False, why=_STATISTICS),
    _own("ema-by-hand", "EMA", "classifier.py", "--ema", "0.9", same=False, why="the script updates the mean with every batch"),
    _own("ema-of-torch", "EMA", "averaged.py"),
    _own("clipping", "clipping", "classifier.py", "--clip", "0.1"),
    _own("amp-scaler", "AMP scaler", "classifier.py", "--amp", "--clip", "0.5", gradient=2e-2, weights=5e-2, why="bf16 keeps 8 bits"),
    _own("cosine-steps", "cosine by steps", "classifier.py", "--cosine", "steps"),
    _own("drop-last", "remainders", "classifier.py", "--drop-last", "--rows", "45", why="45 rows: 5 are left out"),
    _own("remainder", "remainders", "classifier.py", "--rows", "45", why="45 rows: the last step of a pass has 5"),
    _own("packed-text", "packed text", "packed.py", same=False, why="a mean over targets, of which each row has another number"),
    Case(name="tokens", kind="tokens as unit", words=("python", "tokens.py", "--device-batch-size={batch}", "--total-batch-size=256"),
         why="the whole batch is said in tokens"),
    _YOLO,
    _two_ranks("ranks-plain", "two ranks", _own("", "", "ranks.py")),
    _two_ranks("ranks-trainer", "two ranks", _trainer("causal", "")),
    _other("accum_mod", "44 rows: the last step of a pass is a small one"),
    _other("grads_divided", batch="--bs"),
    _other("warm_micro", "the warm-up is stepped with every micro-batch", same=False),
    Case(name="max_tokens", kind="other styles", words=("python", "max_tokens.py", "--max-tokens", "160"), same=False,
         why="a batch is as many tokens as fit"),
    _other("lbfgs", "a closure computes the gradients anew", same=False),
    _other("sam", "two passes for each step", same=False),
    _other("grad_penalty"),
    _other("manual_sgd", "no optimizer of torch's", same=False),
    _other("decay_by_hand", "weights decay with every batch", same=False),
    _other("anneal", "a part of the loss grows with every batch", same=False),
    _other("mixup", "rows of a batch are mixed", same=False),
    _other("gradient_noise"),
    _other("swa"),
    _other("batch_sampler", "a batch has rows of like length: a smaller one has others", same=False),
    _other("stream_workers", "a batch is of one worker's rows: a smaller one is of fewer, and the next worker's follow", same=False),
    _other("recomputed", "backward passes within a backward pass"),
    _other("token_mean", "each micro-batch is divided by its own targets", same=False),
    _other("positives", "each micro-batch is divided by its own positive rows", same=False),
    _other("summed", "whether a loss is a sum or a mean has to be known", same=False),
    _other("two_backwards"),
    _other("clamped_by_hook", "gradients are clamped in every backward pass", same=False),
    _other("penalty_undivided", "a part of the loss isn't divided", same=False),
    _other("lookahead"),
    _other("milestones", "the learning rate falls after 40 batches, and not in the first", same=False),
    _other("stops_when_good", "it ends by the losses of its last batches", same=False),
)  # fmt: skip


def plays() -> Iterator[tuple[Case, int]]:
    """(case, micro-batch) in the order in which they are played: every case at one rung, then every case at the next."""
    return ((case, micro) for micro in RUNGS for case in CASES)


def name_of(case: Case, micro: int) -> str:
    return f"{case.name}-{micro}x{WHOLE // micro}"

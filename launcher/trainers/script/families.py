"""What programs of well-known trainers say of their own: settings that a command needn't name, with their defaults.

What isn't so in the version that is installed, rung 0 shows. Their words on the command line and keys in files are read like any other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from launcher.trainers.script import configs, training_arguments
from launcher.trainers.script.declared import Flag
from launcher.trainers.script.programs import packages_of

_HF = {training_arguments.FIELDS[wheel]: training_arguments.DEFAULTS[wheel] for wheel in ("micro_batch", "accumulation")}
_FLAGS: Mapping[str, Mapping[str, int]] = {
    "trl": {f"--{field}": default for field, default in _HF.items()},
    "axolotl": {"--micro-batch-size": 1, "--gradient-accumulation-steps": 1},
    "lerobot-train": {"--batch_size": 8},
    "fairseq-train": {"--update-freq": 1},
    "rfdetr": {"--batch_size": 4, "--grad_accum_steps": 4},
    "tune": {"gradient_accumulation_steps=": 1},
    "litgpt pretrain": {"--train.global_batch_size": 512, "--train.micro_batch_size": 4},
}
"""Program, or program and sub-command -> spelling -> default."""
_BY_TRAINER = ("trl", "axolotl", "llamafactory-cli", "lmf")
"""Programs that train by Hugging Face's Trainer."""
_FILE_OVER_LINE = ("llamafactory-cli", "lmf")
"""Programs that take ``key=value`` behind a file, and ``--key value`` without one."""


def settings(words: Sequence[str]) -> list[Flag]:
    """Of the program that a command starts with; none where it is no such."""
    program = Path(words[0]).name
    known = {**_FLAGS.get(program, {}), **_FLAGS.get(" ".join((program, *words[1:2])), {})}
    if program == "litgpt" and words[1:2] and words[1].startswith("finetune"):
        known |= {"--train.global_batch_size": 16, "--train.micro_batch_size": 1}
    if program in _FILE_OVER_LINE:
        known |= {f"{field}=" if configs.named(words) else f"--{field}": default for field, default in _HF.items()}
    return [Flag(spelling=spelling, default=default, where=program) for spelling, default in {**known, **_of_tune(words)}.items()]


def trains_by_trainer(words: Sequence[str]) -> bool:
    """Whether the program that a command starts is known to train by Hugging Face's Trainer."""
    return Path(words[0]).name in _BY_TRAINER


def _of_tune(words: Sequence[str]) -> Mapping[str, int]:
    """What a configuration of torchtune's own says, which ``tune run`` finds by its name: ``--config llama2/7B_full``."""
    name = next((after for word, after in pairwise(words) if word == "--config"), "") if Path(words[0]).name == "tune" else ""
    found = (folder / "recipes" / "configs" / f"{name}.yaml" for folder in packages_of(words[0])) if name else iter(())
    file = next((one for one in found if one.is_file()), None)
    return dict(_numbers(file)) if file is not None else {}


def _numbers(file: Path) -> Iterator[tuple[str, int]]:
    yield from ((f"{key}=", value) for key, value in configs.leaves(configs.held(str(file))) if isinstance(value, (bool, int)))


_UNREAD: Mapping[str, str] = {
    "nnUNetv2_train": "nnU-Net's batch stands in its plans (nnUNetPlans.json, configurations.*.batch_size), its loaders are no "
    "DataLoaders, and it has no accumulation, so that autofit can't keep the batch: plan it for the card's memory "
    "(nnUNetv2_plan_experiment -gpu_memory_target GB), or launch it without autofit",
}


def unread(words: Sequence[str]) -> str:
    """Why autofit can't keep the batch of a program that is known; nothing of others."""
    return _UNREAD.get(Path(words[0]).name, "")

"""A seed -> a case: a trainer, a task, its data, what is asked, its ladder, and how near to a rung's need the budget lies. Pure.

The same seed gives the same case everywhere and always; ``GENERATOR`` is raised when that changes. Ten seeds in a row hold every trainer
and every task. Seeds from ``SHORT`` on are trainings of one to eight optimizer steps on data of very different lengths: a trial can't see
more steps than its training has. Seeds from ``PLAYED`` on are those from 0 on, on a pretended card within 5 % of the need. Seeds from
``RANKS`` on have two ranks, within 5 % too: over gloo on a CPU, and Ultralytics, which trains on several cards only, on two pretended ones.
Seeds from ``BESIDE`` on have room on their device, and one of the machine's memories beside it is small (``survival.beside``).
Words in braces ({data}, {python}, {here}) are places that only the machine of a run knows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from autofit_launcher.machine.devices import DEFAULT

GENERATOR = 2
KINDS = ("detect", "script", "segment", "text", "pose", "command", "obb", "speech", "script", "any")
"""What seed % 10 stands for. ``command``: a ``yolo`` command line instead of a recipe; ``any``: any YOLO task."""
SHORT = 1000
"""The first seed of very short trainings."""
SHORT_KINDS = ("ragged", "text", "hf_ragged", "detect")
"""What (seed - SHORT) % 4 stands for."""
PLAYED = 2000
"""The first seed of those on a pretended card."""
RANKS = 3000
"""The first seed of those with two ranks."""
RANK_KINDS = ("text", "torchrun", "any", "speech", "torchrun", "any")
"""What (seed - RANKS) % 6 stands for. ``torchrun``: a script that starts its ranks itself, which share one budget."""
BESIDE = 4000
"""The first seed of those with too little of something beside the device; (seed - BESIDE) // 3 is their training."""
MEMORIES = ("host memory", "/dev/shm", "disk")
"""What (seed - BESIDE) % 3 stands for, as ``trial.judge`` names it."""
BESIDE_TRAINERS = ("yolo", "script", "text")
BESIDE_FACTORS = (0.95, 0.98, 1.0, 1.0, 1.01, 1.01, 1.02, 1.02, 1.03, 1.05, 1.08, 1.12)
"""What there is, less the headroom, over what a launch with ample room says is needed."""
ON_CARD = tuple(place for place, kind in enumerate(KINDS) if kind != "script")
"""Places in ``KINDS`` of what can train on a card: the scripts here are a processor's."""
NEAR = tuple(1 + part / 100 for part in range(-5, 6))
"""Their factors."""
FACTORS = (0.97, 1.0, 1.0, 1.02, 1.02, 1.05, 1.05, 1.12, 1.2, 1.5)
"""The budget's cap over the measured need of the rung it is aimed at."""
YOLO_TASKS = {"detect": "", "segment": "-seg", "pose": "-pose", "obb": "-obb"}

Args = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One full run to be launched after a fit."""

    seed: int
    trainer: str
    """yolo, speech, text or script."""
    task: str
    """detect, segment, pose, obb; transcribe; complete; a script's name."""
    data: Mapping[str, Any]
    """What ``data.make`` makes."""
    headroom: float
    factor: float
    """Cap over the need of the rung that the budget is aimed at."""
    aim: float
    """Which rung the budget is aimed at, as a part of those that can be reached in a few trials; 0 is the asked one."""
    recipe: Mapping[str, Any] | None = None
    """The recipe of a case that has one."""
    command: tuple[str, ...] = ()
    """The command line of a case that has one: what stands behind ``autofit run ... --``."""
    overrides: tuple[str, ...] = ()
    """What stands before it."""
    files: Mapping[str, Any] = field(default_factory=dict)
    """Configuration files of the case: name -> what is in it."""
    needs: str = ""
    """A package that isn't part of the pinned environment."""
    ranks: int = 1

    @property
    def device(self) -> str:
        return "cuda" if self.seed >= PLAYED and (self.ranks == 1 or self.trainer == "yolo") else "cpu"

    @property
    def allocator(self) -> dict[str, str]:
        """Environment variables: every other eight of the seeds on a card have segments that don't expand."""
        native = PLAYED <= self.seed < RANKS and (self.seed - PLAYED) // len(ON_CARD) % 2
        return {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"} if native else {}


def make(seed: int) -> Case:
    """The case of a seed."""
    if seed >= BESIDE:
        return _beside(seed)
    if seed >= RANKS:
        return _of_two(seed)
    if seed >= PLAYED:
        rng = random.Random(f"survival {GENERATOR} {seed}")
        turns, turn = divmod(seed - PLAYED, len(ON_CARD))
        return replace(make(turns * len(KINDS) + ON_CARD[turn]), seed=seed, headroom=rng.choice((0.05, 0.1)), factor=rng.choice(NEAR))
    rng = random.Random(f"survival {GENERATOR} {seed}")
    kind = KINDS[seed % len(KINDS)] if seed < SHORT else SHORT_KINDS[(seed - SHORT) % len(SHORT_KINDS)]
    common: Args = {
        "seed": seed,
        "headroom": DEFAULT["cpu"],
        "factor": rng.choice(FACTORS),
        "aim": round(max(0.0, rng.uniform(-0.6, 1)), 4),
    }
    makers: Mapping[str, Callable[[random.Random], Args]] = {
        "script": lambda rng: _script(rng, seed),
        "text": _text,
        "speech": _speech,
        "command": lambda rng: _yolo(rng, rng.choice(list(YOLO_TASKS)), as_command=True),
        "any": lambda rng: _yolo(rng, rng.choice(list(YOLO_TASKS))),
        **{task: partial(_yolo, task=task) for task in YOLO_TASKS},
    }
    return Case(**common, **(makers[kind](rng) if seed < SHORT else _short(rng, kind)))


def _of_two(seed: int) -> Case:
    """A case of two ranks, each of which has as many batches as one process of the other cases."""
    rng = random.Random(f"survival {GENERATOR} {seed}")
    makers: Mapping[str, Callable[[random.Random], Args]] = {
        "text": _text_of_ranks, "speech": _speech, "torchrun": _torchrun, "any": lambda rng: _yolo(rng, rng.choice(list(YOLO_TASKS))),
    }  # fmt: skip
    made = makers[RANK_KINDS[(seed - RANKS) % len(RANK_KINDS)]](rng)
    if "train" in made["data"]:
        made["data"]["train"] *= 2
    if made["trainer"] == "yolo":
        made["recipe"]["trainer"]["args"].pop("rect", None)  # refused on several cards
    aim = round(max(0.0, rng.uniform(-0.6, 1)), 4)
    headroom = rng.choice((0.05, 0.1)) if made["trainer"] == "yolo" else DEFAULT["cpu"]
    return Case(seed=seed, headroom=headroom, factor=rng.choice(NEAR), aim=aim, ranks=2, **made)


def _text_of_ranks(rng: random.Random) -> Args:
    made = _text(rng)
    made["data"]["shape"] |= {"hidden_size": 256, "intermediate_size": 768}
    return made


def _torchrun(rng: random.Random) -> Args:
    """Two ranks over gloo, started by the script's own launcher."""
    batch, accumulation = rng.choice((8, 16, 32)), rng.choice((1, 2))
    words = ("--batch-size", batch, "--accum", accumulation, "--longest", rng.choice((60, 120, 200)), "--width", rng.choice((64, 128)))
    more = ("--epochs", rng.choice((1, 2)), "--keep", rng.choice(("labels", "logits")))
    rows = ("--rows", 2 * batch * accumulation * rng.randint(6, 9) + 1)
    launcher = ("-m", "torch.distributed.run", "--local_addr=localhost", "--nproc_per_node", 2)
    made = _line(*launcher, "{here}/scripts/ragged_ranks.py", *words, *more, *rows)
    return {"trainer": "script", "task": "ragged_ranks", "data": {"kind": "none", "folder": "data"}, **made}


def _beside(seed: int) -> Case:
    """A training with workers. Three seeds in a row have the same one, but for the disk, which is filled by checkpoints of half a GiB."""
    number, memory = divmod(seed - BESIDE, len(MEMORIES))
    rng, large = random.Random(f"beside {GENERATOR} {number}"), MEMORIES[memory] == "disk"
    trainer = BESIDE_TRAINERS[number % len(BESIDE_TRAINERS)]
    workers = rng.choice((2, 3, 4))
    if trainer == "yolo" and MEMORIES[memory] == "/dev/shm":  # nothing of it is needed without workers
        trainer = "text"
    made = {"yolo": _yolo_beside, "script": _script_beside, "text": _text_beside}[trainer](rng, workers, large)
    made["recipe"]["ladder"] = {
        "order": ["workers", "micro_batch"],
        "wheels": {"workers": {"values": [one for one in (3, 1, 0) if one < workers]}},
    }
    made["recipe"] |= {"defaults": [*made["recipe"].pop("defaults", []), {"override /device": "cpu"}, "_self_"], "summary": "beside"}
    factor = random.Random(f"beside {GENERATOR} factor {seed}").choice(BESIDE_FACTORS)
    return Case(seed=seed, trainer=trainer, headroom=DEFAULT["cpu"], factor=factor, aim=0.0, **made)


def _yolo_beside(rng: random.Random, workers: int, large: bool) -> Args:
    """On a CPU Ultralytics takes no workers, whatever is asked."""
    batch = rng.choice((4, 8))
    args: Args = {"epochs": 2, "plots": rng.random() < 0.3, "warmup_epochs": 1.0, "optimizer": rng.choice(("SGD", "AdamW"))}
    args |= _sometimes(rng, 0.5, cache="ram") | _sometimes(rng, 0.3, mosaic=0.0) | _sometimes(rng, 0.3, close_mosaic=1)
    args |= {"epochs": 45, "save_period": 1, "plots": False, "optimizer": "AdamW", "val": False} if large else {}
    data: Args = {
        "kind": "yolo", "task": "detect", "folder": "data", "classes": 3, "train": 12 if large else batch * 6 + 1,
        "val": batch * 3 + 1, "dense": 40, "dense_in_val": True, "usual": 6, "unlabelled": 0.1, "train_shapes": "mixed",
        "val_shapes": "mixed", "largest": 640,
    }  # fmt: skip
    ask = {"model": "yolov8n.yaml", "micro_batch": batch, "image_size": 32 if large else rng.choice((64, 96, 160)), "workers": workers}
    recipe: Args = {"data": "{data}/data.yaml", "ask": {**ask, "checkpointing": False}, "trainer": {"args": args}}
    return {"task": "detect", "data": data, "recipe": recipe}


def _text_beside(rng: random.Random, workers: int, large: bool) -> Args:
    batch, saves = rng.choice((4, 8)), rng.choice((1, 2, 3))
    width = 512 if large else rng.choice((128, 256))
    shape = {
        "hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    data: Args = {
        "kind": "text", "folder": "data", "train": batch * 15 + 3, "val": batch * 3 + 1, "words": (1, 120), "length": 0, "shape": shape,
        "vocabulary": 16000 if large else 4000,
    }  # fmt: skip
    ask: Args = {"model": "{data}/model", "micro_batch": batch, "sequence_length": 128, "val_micro_batch": batch, "checkpointing": False}
    args: Args = {
        "num_train_epochs": rng.choice((1, 2)), "disable_tqdm": True, "logging_steps": 5, "eval_strategy": "steps", "eval_steps": 7,
        "save_strategy": "steps", "save_steps": 7, "save_total_limit": saves, "packing": False,
        "dataloader_prefetch_factor": rng.choice((2, 4, 16)),
    }  # fmt: skip
    args |= _sometimes(rng, 0.5, dataloader_persistent_workers=True) | _sometimes(rng, 0.4, load_best_model_at_end=True)
    recipe: Args = {
        "defaults": [{"override /trainer": "text"}], "data": "{data}", "ask": {**ask, "workers": workers}, "trainer": _flags(args),
    }  # fmt: skip
    return {"task": "complete", "data": data, "recipe": recipe}


def _script_beside(rng: random.Random, workers: int, large: bool) -> Args:
    words: list[Any] = ["--prefetch", rng.choice((1, 2, 6)), "--rows", rng.choice((150, 400)), "--size", rng.choice((64, 128, 224))]
    words += rng.choice(([], ["--persistent"])) + rng.choice(([], ["--ragged"])) + rng.choice(([], [], ["--cache"]))
    words += rng.choice(([], ["--many", 5])) + rng.choice(([], [], ["--context", "spawn"])) + ["--epochs", rng.choice((2, 4))]
    words += ["--weights", 120 if large else rng.choice((1, 20))]
    args = {
        "command": ["{python}", "{here}/scripts/beside.py", *map(str, words)],
        "spelled": {"micro_batch": "--batch-size", "workers": "--workers", "accumulation": "outside"},
        "set": {"--out": "{run}"},
        "resume": {"words": "--resume {checkpoint}", "newest": "{run}/epoch*.pt"},
    }
    recipe: Args = {"ask": {"micro_batch": rng.choice((8, 16)), "workers": workers}, "trainer": {"adapter": "script", "args": args}}
    return {"task": "beside", "data": {"kind": "none", "folder": "data"}, "recipe": recipe}


def _short(rng: random.Random, kind: str) -> Args:
    """A training of one to eight optimizer steps."""
    steps = rng.choice((1, 1, 2, 2, 3, 4, 6, 8))
    if kind == "text":
        made = _text(rng)
        made["recipe"]["trainer"]["args"]["set"] |= {"--max_steps": steps, "--packing": False}
        made["data"] |= {"length": 0, "vocabulary": 8000}
        made["data"]["shape"] |= {"hidden_size": 256, "intermediate_size": 768}
        return made
    if kind == "detect":
        made = _yolo(rng, kind)
        made["recipe"]["trainer"]["args"]["epochs"] = 1
        made["data"]["train"] = made["recipe"]["ask"]["micro_batch"] * steps
        return made
    batch, accumulation = rng.choice((8, 16, 32)), rng.choice((1, 2, 4))
    script = _short_ragged if kind == "ragged" else _short_hf
    return {
        "trainer": "script",
        "task": f"short {kind}",
        "data": {"kind": "none", "folder": "data"},
        **script(rng, batch, accumulation, steps),
    }


def _sometimes(rng: random.Random, part: float, **args: Any) -> Args:
    """The arguments, in ``part`` of all cases."""
    return args if rng.random() < part else {}


# -- YOLO ---------------------------------------------------------------------------------------------------------------


def _yolo(rng: random.Random, task: str, *, as_command: bool = False) -> Args:
    """A YOLO training from scratch: as a recipe, or as a ``yolo`` command line."""
    family, letter = rng.choice(("yolov8", "yolo11", "yolo26")), rng.choice("nnnnns")
    micro_batch = rng.choice((2, 4, 4, 6, 8, 8, 12, 16))
    image_size = rng.choice((64, 96, 128, 160, 192) if micro_batch < 12 and letter == "n" else (64, 96, 128))
    model = f"{family}{letter}{YOLO_TASKS[task]}.yaml"
    multi_scale = rng.choice((None, None, None, 0.25, 0.5))
    args = _yolo_arguments(rng, task)
    data = _yolo_data(rng, task, micro_batch)
    wheels, order = _yolo_wheels(rng, micro_batch, image_size, letter, multi_scale)
    if as_command:
        scale = {} if multi_scale is None else {"multi_scale": multi_scale}
        asked = {"model": model, "data": "{data}/data.yaml", "batch": micro_batch, "imgsz": image_size, **scale, **args}
        words = [f"ladder.wheels.{name}.{rule}={_hydra(value)}" for name, one in wheels.items() for rule, value in one.items()]
        command = ("yolo", task, "train", *(f"{key}={value}" for key, value in asked.items()))
        return {"trainer": "yolo", "task": task, "data": data, "command": command, "overrides": tuple(words)}
    ask: Args = {"model": model, "micro_batch": micro_batch, "image_size": image_size, "checkpointing": False}
    ask |= _sometimes(rng, 0.7, accumulation=rng.choice((1, 1, 2, 4)))
    ask |= {} if multi_scale is None else {"multi_scale": multi_scale}
    if rng.random() < 0.25:
        ask["val_micro_batch"] = rng.choice((2, 4, 8, 32))
        order.insert(rng.randrange(len(order) + 1), "val_micro_batch")
    recipe = {
        "defaults": [{"override /device": "cpu"}, "_self_"],
        "summary": f"survival: YOLO, {task}",
        "data": "{data}/data.yaml",
        "ask": ask,
        "trainer": {"task": task, "args": args},
        "ladder": {"order": order, "wheels": wheels},
    }
    return {"trainer": "yolo", "task": task, "data": data, "recipe": recipe}


def _yolo_wheels(
    rng: random.Random, micro_batch: int, image_size: int, letter: str, multi_scale: float | None
) -> tuple[dict[str, Args], list[str]]:
    """(rules by wheel, order): short ladders, so that the rung that barely fits is found in a few trials."""
    sizes = list(range(image_size - 32, 31, -32))[:: rng.choice((1, 2))][:2]
    wheels: dict[str, Args] = {"micro_batch": {"floor": max(1, micro_batch // rng.choice((2, 4)))}, "image_size": {"values": sizes}}
    wheels["checkpointing"] = {"values": rng.choice(([True], []))}
    order = ["micro_batch", "image_size", "checkpointing"]
    if multi_scale is not None:
        wheels["multi_scale"] = {"values": [0.0]}
        order.insert(rng.randrange(len(order) + 1), "multi_scale")
    if letter == "s":
        order.append("model")
    else:
        wheels["model"] = {"values": []}
    return wheels, order


def _yolo_arguments(rng: random.Random, task: str) -> Args:
    """Ultralytics' own arguments, drawn one by one."""
    args: Args = {"epochs": rng.choice((1, 1, 2, 2, 3)), "plots": rng.random() < 0.6, "workers": rng.choice((0, 0, 2, 8))}
    args |= _sometimes(rng, 0.25, rect=True)
    args |= _sometimes(rng, 0.4, cache=rng.choice(("ram", "disk")))
    args |= _sometimes(rng, 0.5, close_mosaic=rng.choice((0, 1, 2)))
    args |= _sometimes(rng, 0.4, mosaic=rng.choice((0.0, 0.5)))
    args |= _sometimes(rng, 0.3, mixup=rng.choice((0.3, 1.0)))
    args |= _sometimes(rng, 0.15, cutmix=0.5)
    args |= _sometimes(rng, 0.6, optimizer=rng.choice(("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSProp", "MuSGD")))
    args |= _sometimes(rng, 0.3, save_period=1)
    args |= _sometimes(rng, 0.06, val=False)
    args |= _sometimes(rng, 0.08, single_cls=True)
    args |= _sometimes(rng, 0.2, max_det=rng.choice((20, 1000)))
    args |= _sometimes(rng, 0.2, cos_lr=True)
    args |= _sometimes(rng, 0.15, freeze=rng.choice((2, 10)))
    args |= _sometimes(rng, 0.2, deterministic=False)
    args |= _sometimes(rng, 0.2, degrees=90.0, shear=5.0)
    args |= _sometimes(rng, 0.1, perspective=0.001)
    args |= _sometimes(rng, 0.1, save_json=True)
    args |= _sometimes(rng, 0.1, fraction=0.8)
    args |= _sometimes(rng, 0.1, warmup_epochs=0.0)
    if task in ("segment", "obb"):
        args |= _sometimes(rng, 0.4, copy_paste=0.6)
    if task == "segment":
        args |= _sometimes(rng, 0.3, overlap_mask=False) | _sometimes(rng, 0.4, mask_ratio=rng.choice((1, 2)))
    return args


def _yolo_data(rng: random.Random, task: str, micro_batch: int) -> Args:
    """A data set that nobody made: at least six training and three validation batches, the last of each not full."""
    batches = rng.choice((6, 6, 7))
    val_batch = micro_batch * (1 if task == "obb" else 2)
    return {
        "kind": "yolo",
        "task": task,
        "folder": rng.choice(("data", "data", "données d'été (1)", "my data set")),
        "classes": rng.choice((1, 1, 2, 3, 5, 20, 80)),
        "train": min(micro_batch * batches, 100) + rng.randint(1, max(1, micro_batch - 1)),
        "val": min(val_batch * 3, 96) + rng.randint(1, val_batch),
        "dense": rng.choice((40, 150, 300, 300)),
        "dense_in_val": rng.random() < 0.5,
        "usual": rng.choice((2, 6, 25)),
        "unlabelled": rng.choice((0.0, 0.1, 0.3)),
        "train_shapes": rng.choice(("mixed", "mixed", "portrait", "landscape", "square")),
        "val_shapes": rng.choice(("mixed", "portrait", "panorama", "tiny")),
        "largest": rng.choice((320, 640, 1600)),
        "points": rng.choice((4, 60, 600)),
        "keypoints": (rng.choice((1, 4, 17)), rng.choice((2, 3))),
    }


# -- speech and text ------------------------------------------------------------------------------------------------------


def _hf_arguments(rng: random.Random, steps: int) -> Args:
    """Arguments of transformers' trainers, drawn one by one; about ``steps`` optimizer steps an epoch."""
    every = rng.choice(("epoch", "steps"))
    args: Args = {"num_train_epochs": rng.choice((1, 1, 2)), "disable_tqdm": True, "logging_steps": rng.choice((1, 10))}
    args |= {"eval_strategy": every, "save_strategy": every} if rng.random() < 0.8 else {"eval_strategy": "no", "save_strategy": "no"}
    if every == "steps" and args["eval_strategy"] == "steps":
        args |= {"eval_steps": max(2, steps // 2), "save_steps": max(2, steps // 2)}
    if args["eval_strategy"] != "no":
        args |= _sometimes(rng, 0.4, load_best_model_at_end=True) | _sometimes(rng, 0.3, save_total_limit=1)
    args |= _sometimes(rng, 0.3, dataloader_num_workers=rng.choice((1, 2)))
    args |= _sometimes(rng, 0.2, eval_on_start=True)
    args |= _sometimes(rng, 0.2, eval_accumulation_steps=rng.choice((1, 4)))
    args |= _sometimes(rng, 0.2, max_grad_norm=0.0)
    return args


def _flags(args: Args) -> Args:
    """A recipe's ``trainer``, with ``args`` as flags of the example's script."""
    return {"args": {"set": {f"--{name}": value for name, value in args.items()}}}


def _hf(rng: random.Random, task: str, *, ask: Args, args: Args, wheels: dict[str, Args], extra: Args) -> Args:
    """The recipe of examples/text or examples/speech, LoRA in some."""
    lora = rng.random() < 0.15
    ask = {"model": "{data}/model", "checkpointing": False, **ask, **_sometimes(rng, 0.3, optimizer=rng.choice(("adafactor", "sgd")))}
    ask |= {"lora": 8} if lora else {}
    rules: dict[str, Args] = {"model": {"values": []}, **wheels, **({"lora": {"values": []}} if lora else {})}
    recipe = {
        "defaults": [
            {"override /trainer": task}, {"override /ladder": f"{task}_lora" if lora else task}, {"override /device": "cpu"}, "_self_",
        ],
        "summary": f"survival: {task}",
        "data": "{data}",
        "ask": ask,
        "trainer": _flags({"learning_rate": 0.001, **args}),
        "ladder": {"wheels": rules},
    }  # fmt: skip
    return {"trainer": task, "data": extra, "recipe": recipe, "needs": "peft" if lora else ""}


def _speech(rng: random.Random) -> Args:
    micro_batch, val_micro_batch = rng.choice((2, 4, 6, 8, 16)), rng.choice((2, 4, 8, 16))
    accumulation = rng.choice((1, 1, 2))
    window, positions = rng.choice((2, 4, 8)), rng.choice((32, 64, 128))
    generation = rng.choice((8, 16, 32))
    ask = {
        "micro_batch": micro_batch, "accumulation": accumulation, "val_micro_batch": val_micro_batch, "generation_length": generation,
    }  # fmt: skip
    wheels: dict[str, Args] = {
        "micro_batch": {"floor": max(1, micro_batch // 4)},
        "generation_length": {"values": [generation // 2] if generation > 8 and rng.random() < 0.5 else []},
        "val_micro_batch": {"values": rng.choice(([], [max(1, val_micro_batch // 2)]))},
    }
    wheels["val_micro_batch"]["values"] = [one for one in wheels["val_micro_batch"]["values"] if one < val_micro_batch]
    train = micro_batch * accumulation * rng.randint(6, 9) + rng.randint(0, micro_batch - 1)
    data: Args = {
        "kind": "speech",
        "folder": rng.choice(("data", "données d'été (1)")),
        "train": train,
        "val": val_micro_batch * 3 + rng.randint(1, val_micro_batch),
        "window": window,
        "shape": {
            "d_model": (width := rng.choice((64, 128, 192))), "encoder_layers": rng.choice((1, 3)), "decoder_layers": rng.choice((1, 3)),
            "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
            "max_source_positions": 50 * window, "max_target_positions": positions,
        },
        "vocabulary": rng.choice((0, 0, 8000)),
        "rates": rng.choice(((16000,), (16000,), (8000, 16000, 44100))),
    }  # fmt: skip
    args = {"language": "en", **_hf_arguments(rng, train // (micro_batch * accumulation))}
    args |= {"resample": True} if len(data["rates"]) > 1 else {}
    args |= _sometimes(rng, 0.2, freeze_encoder=True) | _sometimes(rng, 0.8, predict_with_generate=True)
    return {"task": "transcribe", **_hf(rng, "speech", ask=ask, args=args, wheels=wheels, extra=data)}


def _text(rng: random.Random) -> Args:
    micro_batch, val_micro_batch = rng.choice((2, 4, 6, 8, 16)), rng.choice((2, 4, 8, 16))
    accumulation, length = rng.choice((1, 1, 2, 4)), rng.choice((64, 128, 256))
    keeps = rng.choice(("logits", "logits", "tokens", "sums"))
    ask = {
        "micro_batch": micro_batch, "accumulation": accumulation, "sequence_length": length, "val_micro_batch": val_micro_batch,
        "val_keeps": keeps,
    }  # fmt: skip
    wheels: dict[str, Args] = {
        "micro_batch": {"floor": max(1, micro_batch // 4)},
        "sequence_length": {"values": rng.choice(([], [length // 2] if length > 64 else []))},
        "val_keeps": {"values": ["tokens"] if keeps == "logits" else []},
        "val_micro_batch": {"values": []},
    }
    packing = rng.random() < 0.5
    train = micro_batch * accumulation * rng.randint(6, 9) + rng.randint(0, micro_batch - 1)
    data = {
        "kind": "text",
        "folder": rng.choice(("data", "données d'été (1)")),
        "train": train,
        "val": val_micro_batch * rng.choice((3, 6)) + rng.randint(1, val_micro_batch),
        "words": (rng.choice((1, 5)), rng.choice((40, 200))),
        "length": length if packing else 0,
        "shape": {
            "hidden_size": (width := rng.choice((64, 128, 192))), "intermediate_size": 3 * width, "num_hidden_layers": rng.choice((2, 4)),
            "num_attention_heads": 4, "num_key_value_heads": rng.choice((2, 4)),
        },
        "vocabulary": rng.choice((0, 2000, 8000)),
    }  # fmt: skip
    args = {"packing": packing, **_hf_arguments(rng, train // (micro_batch * accumulation))}
    args |= _sometimes(rng, 0.3, train_sampling_strategy="group_by_length")  # refused for speech: every clip is a full window
    return {"task": "complete", **_hf(rng, "text", ask=ask, args=args, wheels=wheels, extra=data)}


# -- scripts ----------------------------------------------------------------------------------------------------------------


def _script(rng: random.Random, seed: int) -> Args:
    """A training script as a person has it, launched as a person would: ``autofit run -- python train.py ...``. One after the other."""
    tens, ones = divmod(seed, len(KINDS))
    turn = tens * KINDS.count("script") + KINDS[:ones].count("script")
    name, made = list(SCRIPTS.items())[turn % len(SCRIPTS)]
    batch, accumulation = rng.choice((4, 8, 16, 32)), rng.choice((1, 2))
    return {"trainer": "script", "task": name, "data": {"kind": "none", "folder": "data"}, **made(rng, batch, accumulation)}


def _line(script: str, *pairs: Any, **more: Any) -> Args:
    return {"command": ("{python}", script, *map(str, pairs)), **more}


def _sizes(asked: int) -> tuple[str, ...]:
    """Smaller sizes on the wheel's grid of 32 pixels."""
    return (f"ladder.wheels.image_size.values={_hydra(list(range(asked - 32, 31, -32)))}",)


def _ragged(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--longest", rng.choice((60, 200, 400)), "--width", rng.choice((64, 128, 256)), "--epochs", rng.choice((1, 2)))
    keep = ("--keep", rng.choice(("labels", "logits")), "--workers", rng.choice((0, 0, 1)), "--rows", batch * rng.randint(6, 12) + 1)
    return _line("{here}/scripts/ragged.py", "--batch-size", batch, "--accum", accumulation, *words, *keep)


def _short_ragged(rng: random.Random, batch: int, accumulation: int, steps: int) -> Args:
    """``--virtual``: it accumulates without a setting that autofit could know."""
    virtual = rng.choice((1, 1, 2, 3))
    words = ("--longest", rng.choice((60, 200)), "--width", rng.choice((64, 128, 256)), "--epochs", 1, "--virtual", virtual)
    rows = ("--rows", batch * accumulation * virtual * steps)
    return _line("{here}/scripts/ragged.py", "--batch-size", batch, "--accum", accumulation, *words, *rows)


def _short_hf(rng: random.Random, batch: int, accumulation: int, steps: int) -> Args:
    words = ("--per_device_train_batch_size", batch, "--gradient_accumulation_steps", accumulation, "--max_steps", steps)
    model = ("--longest", rng.choice((64, 256)), "--width", rng.choice((64, 128, 256)), "--rows", batch * accumulation * 8)
    every = ("--eval_strategy", rng.choice(("no", "no", "epoch")), "--save_strategy", rng.choice(("no", "epoch")), "--disable_tqdm", "True")
    where = ("--output_dir", "out", "--use_cpu", "True", "--report_to", "none")
    return _line("{here}/scripts/hf_ragged.py", *words, *model, *every, *where)


def _crops(rng: random.Random, batch: int, accumulation: int) -> Args:
    crop, batch = rng.choice((64, 64, 96)), min(batch, 16)
    words = ("--width", rng.choice((8, 16, 24)), "--largest", rng.choice((160, 320, 512)), "--epochs", rng.choice((1, 2)))
    more = ("--pictures", batch * rng.randint(6, 9), "--keep", rng.choice((0, 1)))
    return _line(
        "{here}/scripts/crops.py",
        "--batch-size",
        batch,
        "--accum",
        accumulation,
        "--crop-size",
        crop,
        *words,
        *more,
        overrides=_sizes(crop),
    )


def _pairs(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--width", rng.choice((128, 512)), "--gallery", rng.choice((500, 2000, 4000)), "--epochs", rng.choice((1, 2)))
    return _line("{here}/scripts/pairs.py", "--batch-size", batch * 8, "--accum", accumulation, *words, "--rows", batch * 8 * 7 + 3)


def _best(rng: random.Random, batch: int, accumulation: int) -> Args:
    config = {
        "data": {"rows": batch * rng.randint(6, 10) + 1, "features": rng.choice((256, 1024)), "test_rows": rng.choice((500, 4000))},
        "model": {"width": rng.choice((512, 1024, 2048)), "layers": rng.choice((2, 4))},
        "training": {
            "batch_size": batch, "accumulation_steps": accumulation, "epochs": rng.choice((1, 2, 3)), "ema": rng.random() < 0.5,
            "keep_best": rng.choice(("memory", "file")), "optimizer": rng.choice(("adamw", "sgd")),
        },
        "evaluation": {"batch_size": batch * rng.choice((1, 4))},
    }  # fmt: skip
    return _line("{here}/scripts/best.py", "--config", "config.yaml", files={"config.yaml": config})


def _gan(rng: random.Random, batch: int, accumulation: int) -> Args:
    size = rng.choice((32, 64))
    words = ("--image-size", size, "--width", rng.choice((16, 32)), "--epochs", rng.choice((1, 2)), "--pictures", batch * 7 + 1)
    more = ("--samples", rng.choice((16, 64, 256)))
    return _line("{here}/scripts/gan.py", "--batch-size", batch, "--accum", accumulation, *words, *more, overrides=_sizes(size))


def _classifier(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--width", rng.choice((32, 64, 128)), "--epochs", 1, "--workers", rng.choice((0, 1)))
    return _line("{root}/examples/classifier/train.py", "--batch-size", batch * 4, "--accum", accumulation, *words)


def _hf_trainer(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--per_device_train_batch_size", batch, "--gradient_accumulation_steps", accumulation, "--block_size", rng.choice((64, 256)))
    length = (
        "--samples",
        batch * accumulation * 8,
        "--num_train_epochs",
        rng.choice((1, 2)),
        "--output_dir",
        "out",
        "--disable_tqdm",
        "True",
    )
    every = ("--eval_strategy", rng.choice(("no", "epoch")), "--save_strategy", "epoch", "--use_cpu", "True", "--report_to", "none")
    return _line("{root}/examples/hf_trainer/train.py", *words, *length, *every)


def _accelerate(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--gradient_accumulation_steps", accumulation, "--width", rng.choice((256, 1024)), "--epochs", 2)
    return _line("{root}/examples/accelerate/train.py", "--batch_size", batch * 32, *words)


def _lightning(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--accumulate_grad_batches", accumulation, "--width", rng.choice((32, 64)), "--epochs", 2)
    return _line("{root}/examples/lightning/train.py", "--batch_size", batch * 8, *words, needs="lightning")


def _nanogpt(rng: random.Random, batch: int, accumulation: int) -> Args:
    names = {
        "batch_size": batch, "block_size": rng.choice((64, 256)), "gradient_accumulation_steps": accumulation,
        "eval_interval": rng.choice((10, 20)), "eval_iters": rng.choice((4, 10)), "max_iters": 30, "n_embd": rng.choice((64, 256)),
    }  # fmt: skip
    return _line("{root}/tests/data/scripts/nanogpt_like.py", *(f"--{name}={value}" for name, value in names.items()))


def _kept(rng: random.Random, batch: int, accumulation: int) -> Args:
    words = ("--accum", accumulation, "--width", rng.choice((256, 1024)))
    return _line("{root}/tests/data/scripts/keeps_predictions.py", "--batch-size", batch * 2, *words)


def _separator(rng: random.Random, batch: int, accumulation: int) -> Args:
    batch = min(batch, 16)
    config = {
        "data": {"root": "{data}", "sample_rate": 8000, "segment": rng.choice((8064, 16000)), "n_fft": 512, "hop": 128},
        "model": {"bands": 12, "layers": rng.choice((1, 2)), "width": 32, "heads": 4, "ffn": [64]},
        "training": {
            "batch_size": batch, "accumulation": accumulation, "checkpointing": False, "samples_per_epoch": batch * 7, "epochs": 2,
            "lr": 0.002, "workers": 0, "seed": 0,
        },
        "run": {"out": "out"},
    }  # fmt: skip
    songs = {"kind": "songs", "folder": "data", "train": 3, "valid": rng.choice((3, 6)), "seconds": (1, rng.choice((4, 12)))}
    return _line("{root}/examples/separator/training/train.py", "--config", "config.yaml", files={"config.yaml": config}, data=songs)


def _yolo_api(rng: random.Random, batch: int, accumulation: int) -> Args:
    task, batch = rng.choice(list(YOLO_TASKS)), min(batch, 8)
    words = ("--task", task, "--data", "{data}/data.yaml", "--batch", batch, "--imgsz", rng.choice((64, 96, 128)), "--epochs", 1)
    fixed = ("ladder.order=[image_size]", "ladder.wheels={image_size:{values:[64,32]}}")  # it has no word for accumulation
    return _line("{here}/scripts/yolo_api.py", *words, data=_yolo_data(rng, task, batch), overrides=fixed)


SCRIPTS: Mapping[str, Callable[[random.Random, int, int], Args]] = {
    "ragged": _ragged, "crops": _crops, "pairs": _pairs, "best": _best, "gan": _gan, "classifier": _classifier, "hf_trainer": _hf_trainer,
    "accelerate": _accelerate, "lightning": _lightning, "nanogpt": _nanogpt, "keeps_predictions": _kept, "separator": _separator,
    "yolo_api": _yolo_api,
}  # fmt: skip


def _hydra(value: Any) -> str:
    """A value as Hydra's command line reads it."""
    if isinstance(value, list):
        return f"[{','.join(map(_hydra, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)

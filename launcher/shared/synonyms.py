"""Names of settings that mean the same: ``lr`` is ``lr0`` to one trainer and ``learning_rate`` to another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_GROUPS: tuple[tuple[str, ...], ...] = (
    ("lr", "lr0", "learning_rate", "learningrate", "base_lr", "initial_lr", "init_lr", "lr_init"),
    ("epochs", "epoch", "num_train_epochs", "num_epochs", "n_epochs", "max_epochs", "train_epochs"),
    ("max_steps", "steps", "num_steps", "train_steps", "total_steps", "max_iters", "iterations"),
    ("weight_decay", "wd", "l2"),
    ("workers", "worker", "num_workers", "num_worker", "n_workers", "nw", "dataloader_num_workers"),
    ("optimizer", "optimiser", "optim", "opt"),
    ("seed", "random_seed", "manual_seed"),
    ("momentum", "mom"),
    ("warmup_steps", "warmup", "num_warmup_steps"),
    ("lr_scheduler_type", "scheduler", "lr_scheduler", "lr_schedule"),
    ("max_grad_norm", "grad_clip", "clip_grad", "clip_grad_norm", "gradient_clip", "gradient_clip_val", "clip"),
    ("patience", "early_stopping", "early_stopping_patience"),
    ("dropout", "drop"),
    ("logging_steps", "log_every", "log_interval", "log_steps"),
    ("eval_steps", "eval_every", "val_every", "eval_interval"),
    ("save_steps", "save_every", "save_interval", "save_period"),
)


def of(name: str) -> Iterator[str]:
    """The other names of what ``name`` means; none where it isn't known to have any."""
    plain = _plain(name)
    for group in _GROUPS:
        if plain in group:
            yield from (other for other in group if other != plain)


def among(name: str, known: Iterable[str]) -> str | None:
    """The name that ``known`` has for what ``name`` means."""
    spelled = {_plain(one): one for one in known}
    return next((spelled[other] for other in of(name) if other in spelled), None)


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()

"""Settings in a script's own words: spelling and value -> the command line, the environment and the config file's changes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

FORMS = (
    "--flag, --flag=, switch:--flag, switch:--on/--off, config:dotted.key, config+:key, key= or ++key= (Hydra), SECTION.KEY (yacs), "
    "env:NAME, "
    "outside (accumulation, and with it a micro_batch that stands in the source), itself, nominal:64 (accumulation)"
)

OUTSIDE = "outside"
"""Spelling of accumulation where the script has no word for it: its optimizer steps are held back from outside. Of the micro-batch where
that stands in the source (``DataLoader(data, batch_size=64, shuffle=True)``): the loader is made with a smaller one."""

YACS = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z][A-Z0-9_]*)+")
"""A key of yacs', whose value is the word behind it: ``SOLVER.IMS_PER_BATCH 16``."""

ITSELF = "itself"
"""Spelling of accumulation where the script takes as many micro-batches as its whole batch needs, by itself."""

NOMINAL = "nominal"
"""``nominal:64``: the script accumulates by itself up to a batch of 64, and not above; what is beyond that is done from outside."""


@dataclass(slots=True)
class Line:
    """A command line being changed."""

    words: list[str]
    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    """Dotted key -> value, for the copy of the configuration file."""
    outside: int = 1
    """Micro-batches per optimizer step that the script isn't told of (``outside.placed``)."""
    split: tuple[int, int] | None = None
    """The batch that stands in the script's source, and the micro-batch that its loader gives instead."""

    def set(self, spelling: str, value: Any) -> None:
        """Says ``value`` in the words of ``spelling``; in place where the command says it already, else at its end."""
        form, name = kind(spelling)
        if form == "env":
            self.env[name] = _text(value)
        elif form == "config":
            self.config[name] = value
        elif form in (OUTSIDE, NOMINAL):
            self.outside = int(value)
        elif form == ITSELF:
            pass
        elif form == "switch":
            self._switch(name, bool(value))
        elif form == "word":
            self._word(name, _text(value))
        elif form == "joined":
            self._joined(name, f"{name}={_text(value)}")
        else:
            self._flag(name, _text(value))

    def _flag(self, flag: str, value: str) -> None:
        for at, word in enumerate(self.words):
            if word == flag and at + 1 < len(self.words):
                self.words[at + 1] = value
                return
            if word.startswith(f"{flag}="):
                self.words[at] = f"{flag}={value}"
                return
            if len(flag) == 2 and re.fullmatch(rf"{re.escape(flag)}\d[\d.]*", word):  # -b64
                self.words[at] = f"{flag}{value}"
                return
        self.words += [flag, value]

    def _joined(self, name: str, said: str, prefixes: tuple[str, ...] = ("",)) -> None:
        for at, word in enumerate(self.words):
            for prefix in prefixes:
                if word.startswith(f"{prefix}{name}="):
                    self.words[at] = f"{prefix}{said}"
                    return
        if name in self.words and (at := self.words.index(name)) + 1 < len(self.words):
            self.words[at : at + 2] = [said]
            return
        self.words.append(said)

    def _word(self, name: str, value: str) -> None:
        """Hydra's ``key=value``; a plus before the key stands only where the command doesn't say the key already."""
        key = name.lstrip("+")
        if any(word.lstrip("+").startswith(f"{key}=") for word in self.words):
            self._joined(key, f"{key}={value}", prefixes=("", "+", "++"))
        else:
            self.words.append(f"{name}={value}")

    def _switch(self, name: str, on: bool) -> None:
        yes, _, no = name.partition("/")
        self.words = [word for word in self.words if word not in (yes, no or yes)]
        if on:
            self.words.append(yes)
        elif no:
            self.words.append(no)


def kind(spelling: str) -> tuple[str, str]:
    """(form, name) of a spelling: flag, joined (--flag=), switch, config, env, word (key=), outside, itself or nominal.

    Raises ValueError for anything else.
    """
    if spelling in (OUTSIDE, ITSELF):
        return spelling, ""
    if nominal := re.fullmatch(rf"{NOMINAL}:([1-9]\d*)", spelling):
        return NOMINAL, nominal[1]
    for prefix in ("switch", "config", "config+", "env"):
        if spelling.startswith(f"{prefix}:") and len(spelling) > len(prefix) + 1:
            return prefix.rstrip("+"), spelling.split(":", 1)[1]
    if re.fullmatch(r"-[\w.-]+=", spelling):
        return "joined", spelling[:-1]
    if re.fullmatch(r"-[\w.-]+", spelling) or YACS.fullmatch(spelling):
        return "flag", spelling
    if re.fullmatch(r"\+{0,2}\w[\w./@-]*=", spelling):
        return "word", spelling[:-1]
    raise ValueError(f"{spelling!r} is no spelling; these are: {FORMS}")


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text, value))}]"
    return str(value)

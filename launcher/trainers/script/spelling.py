"""Writes settings in a script's own spelling: into its command line, its environment and changes of its configuration files. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMS = (
    "--flag, --flag=, switch:--flag, switch:--on/--off, config:dotted.key, config+:key, key= or ++key= (Hydra), SECTION.KEY (yacs), "
    "env:NAME, --option key= (key=value behind an option), not:SPELLING, call:field (of transformers' TrainingArguments or of "
    "Lightning's Trainer), value:train.py:CONFIG['batch'], loader:train.py:31, "
    "all:SPELLING (of all processes together), outside (accumulation, and with it a micro_batch that stands in the source; checkpointing), "
    "itself, nominal:64 (accumulation)"
)

OUTSIDE = "outside"
"""Spelling of accumulation where the script has no word for it: its optimizer steps are held back from outside. Of the micro-batch where
that stands in the source (``DataLoader(data, batch_size=64, shuffle=True)``): the loader is made with a smaller one. Of checkpointing: the
model's repeated modules are computed again."""

YACS = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z][A-Z0-9_]*)+")
"""A key of yacs', whose value is the word behind it: ``SOLVER.IMS_PER_BATCH 16``."""

ITSELF = "itself"
"""Spelling of accumulation where the script takes as many micro-batches as its whole batch needs, by itself."""

LOADER = "loader"
"""``loader:train.py:31``: the micro-batch of the DataLoader that is made in that line, which is made with a smaller one."""

CALL = "call:"
"""Spelling of a field of transformers' TrainingArguments that the script's source gives: it is set as the Trainer takes it."""

NOT = "not:"
"""Before a spelling that says the contrary: ``not:config:disable_gradient_checkpointing``."""

BEHIND = "behind"
"""Form of ``-u train.batch_size=``: a key and its value behind an option that takes several of them (``--cfg-options a=1 b=2``)."""

LIGHTNING = f"{CALL}accumulate_grad_batches"
"""Accumulation that Lightning's Trainer is made with in the source: it is set as it arrives there."""

VALUE = "value"
"""``value:train.py:CONFIG['batch']``: a plain value of the script's own, set as the script binds it."""

ALL = "all"
"""``all:--global-batch-size``: the word that says the micro-batches of all processes together."""

NOMINAL = "nominal"
"""``nominal:64``: the script accumulates by itself up to a batch of 64, and not above; what is beyond that is done from outside."""


@dataclass(slots=True)
class Line:
    """A command line being changed."""

    words: list[str]
    begin: int = 0
    """Where the script's own words begin. Those before are its launcher's (torchrun, accelerate, uv) and stay as they are."""
    processes: int = 1
    """How many train together."""
    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    """Dotted key -> value, for the copy of the configuration file."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Field of transformers' TrainingArguments -> value that it is set to where it arrives."""
    values: dict[str, Any] = field(default_factory=dict)
    """File and name of a value of the script's own -> value that it is bound with."""
    outside: int = 1
    """Micro-batches per optimizer step that the script isn't told of (``outside.placed``)."""
    split: tuple[int, int, str] | None = None
    """The batch in the script's source, the micro-batch that its loader gives instead, and that loader's place (``train.py:31``);
    no place: every loader of that batch that shuffles."""
    checkpointing: float = 0.0
    """Part of each stack of repeated modules that is checkpointed from outside (``outside.checkpointed``)."""
    files: dict[Path, str] = field(default_factory=dict)
    """Files that it needs: path -> text."""

    def take(self, placed: tuple[Mapping[str, str], Mapping[Path, str]]) -> None:
        """Takes the (variables, files) of something that acts in the script's processes (``outside``)."""
        variables, files = placed
        self.env |= variables
        self.files |= files

    def set(self, spelling: str, value: Any) -> None:
        """Says ``value`` in the words of ``spelling``; where the command says it already, in its last word of that name, which is the one
        that parsers take; else at its end."""
        form, name = kind(spelling)
        if form == "env":
            self.env[name] = _text(value)
        elif form == "config":
            self.config[name] = value
        elif form == "call":
            self.fields[name] = value
        elif form == VALUE:
            self.values[name] = value
        elif form in (OUTSIDE, NOMINAL):
            self.outside = int(value)
        elif form == ITSELF:
            pass
        elif form == "switch":
            self._switch(name, bool(value))
        elif form == "not":
            self.set(name, not value)
        elif form == ALL:
            self.set(name, value * self.processes)
        elif form == BEHIND:
            option, _, key = name.partition(" ")
            self._behind(option, key, _text(value))
        elif form == "word":
            self._word(name, _text(value))
        elif form == "joined":
            self._joined(name, f"{name}={_text(value)}")
        else:
            self._flag(name, _text(value))

    def says(self, spelling: str) -> bool:
        """Whether the script's own words, or their configuration file, say this setting, whatever its value."""
        form, name = kind(spelling)
        if form in ("flag", "joined"):
            return self._last(name) is not None
        if form == "word":
            return self._last(name.lstrip("+"), prefixes=_PLUSES) is not None
        return self.says(name) if form in ("not", ALL) else form in ("config", "switch", "env", BEHIND, VALUE)

    def value(self, spelling: str) -> str:
        """What the script's own words say of this setting; empty where they don't, or it isn't said by words."""
        form, name = kind(spelling)
        at = self._last(name.lstrip("+"), prefixes=_PLUSES) if form in ("flag", "joined", "word") else None
        if at is None:
            return ""
        word = self.words[at]
        return self.words[at + 1] if word == name else word.partition("=")[2] or word.removeprefix(name)

    def _last(self, name: str, *, prefixes: tuple[str, ...] = ("",)) -> int | None:
        """Where the last of the script's own words stands that is this one: alone, joined (--flag=8) or glued (-b8)."""
        for at in range(len(self.words) - 1, self.begin - 1, -1):
            word = self.words[at]
            alone = word == name and at + 1 < len(self.words)
            glued = len(name) == 2 and re.fullmatch(rf"{re.escape(name)}\d[\d.]*", word) is not None
            if alone or glued or any(word.startswith(f"{prefix}{name}=") for prefix in prefixes):
                return at
        return None

    def _flag(self, flag: str, value: str) -> None:
        at = self._last(flag)
        if at is None:
            self.words += [flag, value]
        elif self.words[at] == flag:
            self.words[at + 1] = value
        else:  # --flag=8 or -b8
            self.words[at] = f"{flag}={value}" if "=" in self.words[at] else f"{flag}{value}"

    def _joined(self, name: str, said: str, prefixes: tuple[str, ...] = ("",)) -> None:
        at = self._last(name, prefixes=prefixes)
        if at is None:
            self.words.append(said)
        elif self.words[at] == name:
            self.words[at : at + 2] = [said]
        else:
            prefix = next((one for one in prefixes if self.words[at].startswith(f"{one}{name}=")), "")
            self.words[at] = f"{prefix}{said}"

    def _word(self, name: str, value: str) -> None:
        """Hydra's ``key=value``; a plus before the key stands only where the command doesn't say the key already."""
        key = name.lstrip("+")
        if self._last(key, prefixes=_PLUSES) is not None:
            self._joined(key, f"{key}={value}", prefixes=_PLUSES)
        else:
            self.words.append(f"{name}={value}")

    def _behind(self, option: str, key: str, value: str) -> None:
        """In the word that says the key already, else as the first behind the option, which is added where it isn't there."""
        at = self._last(key)
        if at is not None:
            self.words[at] = f"{key}={value}"
        elif option in self.words[self.begin :]:
            self.words.insert(self.words.index(option, self.begin) + 1, f"{key}={value}")
        else:
            self.words += [option, f"{key}={value}"]

    def _switch(self, name: str, on: bool) -> None:
        yes, _, no = name.partition("/")
        own = [word for word in self.words[self.begin :] if word not in (yes, no or yes)]
        self.words = [*self.words[: self.begin], *own]
        if on:
            self.words.append(yes)
        elif no:
            self.words.append(no)


_PLUSES = ("", "+", "++")
"""What may stand before a key of Hydra's."""


def kind(spelling: str) -> tuple[str, str]:
    """(form, name) of a spelling: flag, joined (--flag=), switch, config, env, call, loader, value, word (key=), behind (--option key=),
    not, all, outside, itself or nominal.

    Raises ValueError for anything else.
    """
    if spelling in (OUTSIDE, ITSELF):
        return spelling, ""
    if nominal := re.fullmatch(rf"{NOMINAL}:([1-9]\d*)", spelling):
        return NOMINAL, nominal[1]
    if spelling.startswith(NOT):
        kind(spelling.removeprefix(NOT))
        return "not", spelling.removeprefix(NOT)
    if spelling.startswith(f"{ALL}:"):
        kind(spelling.removeprefix(f"{ALL}:"))
        return ALL, spelling.removeprefix(f"{ALL}:")
    if re.fullmatch(r"-[\w-]+ \w[\w./@-]*=", spelling):
        return BEHIND, spelling[:-1]
    for prefix in ("switch", "config", "config+", "env", "call", LOADER, VALUE):
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

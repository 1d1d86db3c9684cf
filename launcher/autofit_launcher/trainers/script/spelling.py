"""Writes settings in a script's own spelling: into its command line, its environment and changes of its configuration files. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMS = (
    "--flag, --flag=, switch:--flag, switch:--on/--off, key= or ++key= (Hydra), config:dotted.key, "
    "call:field (of a known trainer's call), loader:train.py:31, value:CONFIG['batch'], outside (accumulation and "
    "checkpointing), itself (accumulation)"
)

OUTSIDE = "outside"
"""Spelling of accumulation where the script has no word for it: its optimizer steps are held back from outside. Of checkpointing: the
model's repeated modules are computed again."""

ITSELF = "itself"
"""Spelling of accumulation where the script takes as many micro-batches as its whole batch needs, by itself."""

LOADER = "loader:"
"""``loader:train.py:31``: the micro-batch of the DataLoader that is made in that line, which is made with a smaller one."""

CALL = "call:"
"""A field with which the script's source calls a known trainer (``native.fields``): it is set as it arrives there."""

VALUE = "value:"
"""``value:CONFIG['batch']``: a plain value of the script's own, set as the script binds it."""


def name(spelling: str) -> str:
    """The bare last name of a spelling: ``config:train.batch_size`` and ``--train.batch_size=`` have the same."""
    if spelling.startswith(VALUE):
        return next(iter(reversed(re.findall(r"\w+", spelling))), "")
    bare = re.sub(r"^(switch|config|call):", "", spelling).split("/")[0].rstrip("=")
    return bare.rpartition(".")[2]


@dataclass(slots=True)
class Line:
    """A command line being changed."""

    words: list[str]
    begin: int = 0
    """Index at which the script's own words begin. Those before are its launcher's (torchrun, accelerate, uv) and stay as they are."""
    env: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, dict[str, Any]] = field(default_factory=lambda: {"config": {}, "call": {}, "value": {}})
    """Form -> name -> value, of what isn't said in the line: in the copy of its configuration file, where a trainer is called, as it is
    bound."""
    acts: dict[str, str] = field(default_factory=dict)
    """Variables that tell what acts in the script's processes (``outside``)."""
    files: dict[Path, str] = field(default_factory=dict)
    """Files that it needs: path -> text."""

    def set(self, spelling: str, value: Any) -> None:
        """Says ``value`` in the words of ``spelling``; where the command says it already, in its last word of that name, which is the one
        that parsers take; else at its end."""
        form, name = kind(spelling)
        if form in self.elsewhere:
            self.elsewhere[form][name] = value
        elif form == "switch":
            self._switch(name, bool(value))
        elif form in ("flag", "joined"):
            self._write(name, _text(value), joined=form != "flag")

    def says(self, spelling: str) -> bool:
        """Tells whether the script's own words, or their configuration file, say this setting, whatever its value."""
        form, name = kind(spelling)
        if form in ("flag", "joined"):
            return self._last(name) is not None
        return form in ("config", "switch", "value")

    def _last(self, name: str) -> int | None:
        """Finds the last of the script's own words that is this one: alone, or joined (--flag=8, ++key=8)."""
        for at in range(len(self.words) - 1, self.begin - 1, -1):
            head, equals, _ = self.words[at].partition("=")
            if (head == name and not equals and at + 1 < len(self.words)) or (equals and head.lstrip("+") == name.lstrip("+")):
                return at
        return None

    def _write(self, name: str, value: str, *, joined: bool) -> None:
        """Writes ``--flag 8``, ``--flag=8`` or Hydra's ``key=8``; if it is said already, with what stands before its sign there."""
        at, said = self._last(name), [f"{name}={value}"] if joined else [name, value]
        if at is None:
            self.words += said
        elif self.words[at] == name:
            self.words[at : at + 2] = said
        else:
            self.words[at] = f"{self.words[at].partition('=')[0]}={value}"

    def _switch(self, name: str, on: bool) -> None:
        yes, _, no = name.partition("/")
        own = [word for word in self.words[self.begin :] if word not in (yes, no or yes)]
        self.words[self.begin :] = [*own, *filter(None, [yes if on else no])]


def kind(spelling: str) -> tuple[str, str]:
    """Splits a spelling into (form, name): flag, joined (--flag= and key=), switch, config, call, loader, value, outside or itself.

    Raises ValueError for anything else.
    """
    if spelling in (OUTSIDE, ITSELF):
        return spelling, ""
    form, colon, name = spelling.partition(":")
    if colon and name and form in ("switch", "config", "call", "loader", "value"):
        return form, name
    if re.fullmatch(r"(-|\+{0,2}\w)[\w./@-]*=", spelling):
        return "joined", spelling[:-1]
    if re.fullmatch(r"-[\w.-]+", spelling):
        return "flag", spelling
    raise ValueError(f"{spelling!r} is no spelling; these are: {FORMS}")


def in_config(spelled: str) -> str:
    """Returns the spelling; a bare dotted key, as presets have it, means the configuration file."""
    try:
        kind(spelled)
    except ValueError:
        return f"config:{spelled}"
    return spelled


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text, value))}]"
    return str(value)

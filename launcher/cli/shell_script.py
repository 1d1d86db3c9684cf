"""Finds the one command that a shell script starts, so that it is fitted: ``bash train.sh``. The script is read, never run."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher.errors import PLACE, BadInput, Fault

_SHELLS = ("bash", "sh", "dash", "zsh")
_QUIET = frozenset(("set", "shopt", "echo", "printf", "pwd", "date", "true", ":", "wait", "nvidia-smi", "hostname", "which"))
"""Commands that change nothing for the one that trains."""
_NOT_READ = re.compile(r"\$\(|`|\\\$|'[^']*\$[^']*'|\$\{\w+[^}\w:]|\$\{\w+:[^-]|[\"'][();<>|&\s]*[();<>|&][();<>|&\s]*[\"']")
"""What only a shell works out."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+|[@*])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The command, in words of its own."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    told: str
    """For people: where it stands."""


@dataclass(slots=True)
class _Script:
    """What was read so far."""

    name: str
    variables: dict[str, str]
    env: dict[str, str] = field(default_factory=dict)
    bin: Path | None = None
    """Of the environment that it activates."""
    unknown: set[str] = field(default_factory=set)
    """Variables whose values only a shell works out."""
    found: list[tuple[int, list[str], dict[str, str]]] = field(default_factory=list)

    def refuse(self, line: int, why: str) -> BadInput:
        cure = "Give the command that trains: autofit run -- python train.py ...."
        return BadInput([Fault(key=PLACE, found=f"{self.name} line {line}: {why}, which autofit doesn't follow", cure=cure)])


def started(words: Sequence[str]) -> Started | None:
    """The command that a shell would start; None where the words start none. Raises BadInput where that isn't one command, or takes a shell
    to tell."""
    shell = Path(words[0]).name in _SHELLS
    rest = list(words[1:] if shell else words)
    while shell and rest and rest[0].startswith("-") and rest[0] != "-c":
        rest.pop(0)
    if shell and rest[:1] == ["-c"] and len(rest) > 1:
        name, text, given = f"{words[0]} -c", rest[1], rest[2:]
    elif rest and rest[0].endswith(".sh") and Path(rest[0]).is_file():
        name, text, given = rest[0], Path(rest[0]).read_text(encoding="utf-8", errors="replace"), rest
    else:
        return None
    positional = {str(at): word for at, word in enumerate(given)} | {"@": shlex.join(given[1:]), "*": shlex.join(given[1:])}
    script = _Script(name=name, variables={**os.environ, **positional})
    for number, line in _lines(text):
        _read(script, number, line)
    return _only(script)


def _only(script: _Script) -> Started:
    if len(script.found) != 1:
        several = " and ".join(f"{' '.join(words[:4])} (line {line})" for line, words, _ in script.found[:3])
        found = f"{script.name} starts {several or 'no command that could train'}"
        cure = "Give the one that trains: autofit run -- python train.py .... What has to run before it, start first."
        raise BadInput([Fault(key=PLACE, found=found, cure=cure)])
    line, words, own = script.found[0]
    if script.bin is not None and (script.bin / words[0]).is_file():
        words = [str(script.bin / words[0]), *words[1:]]
    return Started(words=tuple(words), env={**script.env, **own}, told=f"{script.name} line {line} starts: {shlex.join(words)}")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, those that a backslash continues as one."""
    held, began = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        began = began or number
        if line.endswith("\\"):
            held += f"{line[:-1]} "
            continue
        if (whole := f"{held}{line}".strip()) and not whole.startswith("#"):
            yield began, whole
        held, began = "", 0


def _read(script: _Script, number: int, line: str) -> None:
    """One command: what it sets is kept, and what it starts."""
    if assigned := re.fullmatch(r"(\w+)=(.*)", line):
        if _NOT_READ.search(line):
            script.unknown.add(assigned[1])  # where it is used, that is told
            return
    elif _NOT_READ.search(line) and line.split()[0] not in _QUIET:
        raise script.refuse(number, f"what it says only a shell works out ({line[:60]})")
    words, operator = _words(script, number, line)
    own: dict[str, str] = {}
    while words and (said := re.fullmatch(r"(\w+)=(.*)", words[0], re.DOTALL)):
        own[said[1]] = said[2]
        words.pop(0)
    if not words:
        script.variables |= own
        script.env |= {name: value for name, value in own.items() if name in script.env}
    elif not _is_setting(script, number, words) and words[0] not in _QUIET:
        if operator not in ("", ">", ">>", "&>", ">&", "|"):
            raise script.refuse(number, f"a command with {operator}")
        script.found.append((number, words[1:] if words[0] == "exec" else words, own))


def _words(script: _Script, number: int, line: str) -> tuple[list[str], str]:
    """The words of a line with its variables, up to an operator: where its output goes is left off."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        untold = name in script.unknown or (name.isdecimal() and name not in script.variables and match[2] is None)
        if untold and line.split()[0] not in _QUIET:
            raise script.refuse(number, f"${name} isn't known")
        return script.variables.get(name) or match[2] or ""

    line = _without_comment(line)
    try:
        lexer = shlex.shlex(_VARIABLE.sub(value, line.replace('"$@"', "$@")), posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        raise script.refuse(number, f"quotes that end elsewhere ({line[:60]})") from None
    if named := next((word for word in words if glob.has_magic(word) and glob.glob(word)), None):
        raise script.refuse(number, f"{named} stands for several files")
    at = next((at for at, word in enumerate(words) if word and set(word) <= set("();<>|&")), len(words))
    begins = at - 1 if at < len(words) and at and words[at][0] in ">&" and words[at - 1] in ("1", "2") else at
    after = words[at : at + 2]
    operator = "".join(after[:1]) if after[:1] != ["|"] or after[1:] == ["tee"] else "".join(after)
    return words[:begins], operator


def _without_comment(line: str) -> str:
    """The line up to a ``#`` that begins a word outside of quotes."""
    for begin in (match.end() - 1 for match in re.finditer(r"(^|\s)#", line)):
        before = re.sub(r"\\.", "", line[:begin])
        if not before.count('"') % 2 and not before.count("'") % 2:
            return line[:begin]
    return line


_CONTROL = frozenset((
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "{", "}", "[", "[[", "eval",
    "select", "trap", "read", "local", "unset", "declare",
))  # fmt: skip


def _is_setting(script: _Script, number: int, words: list[str]) -> bool:
    """Whether a command only sets something for the one that trains; what of that isn't followed is refused."""
    if words[0] in _CONTROL or words[0].endswith("()"):
        raise script.refuse(number, f"{words[0]!r}")
    if words[0] == "export":
        said = dict(word.partition("=")[::2] for word in words[1:] if re.match(r"\w+=", word))
        script.variables |= said
        script.env |= said | {word: script.variables[word] for word in words[1:] if word in script.variables}
        return True
    if words[0] == "cd":
        if not Path(words[-1]).resolve() == Path.cwd():
            raise script.refuse(number, f"it goes to {words[-1]}: start autofit there")
        return True
    if words[0] == "mkdir":
        return all(Path(word).is_dir() for word in words[1:] if not word.startswith("-"))
    if words[0] in ("source", "."):
        if not (len(words) > 1 and words[1].endswith("/activate")):
            raise script.refuse(number, " ".join(words))
        script.bin = Path(words[1]).parent
        return True
    return False

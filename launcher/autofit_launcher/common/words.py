"""Makes words that others wrote fit to be shown: what steers a terminal is made visible, and what is secret is left out."""

from __future__ import annotations

import codecs
import os
import re

_STEERS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udc9f]"
_CONTROLS = re.compile(rf"{_STEERS}|[\ud800-\udfff]")
_UNUSUAL = re.compile(rf"\x1b(?!\[[\d;]{{0,20}}[mK])|(?![\r\x1b]){_STEERS}")
SECRET = ("TOKEN", "SECRET", "PASSW", "API_KEY", "CREDENTIAL", "PRIVATE")
"""Parts of names of variables whose value is nobody else's business."""
_NAME = r"[\w.-]{0,60}(?:(?:passw|passphrase|secret|credential)[\w-]{0,20}|token|pwd|(?-i:(?<![a-zA-Z])key|Key|KEY))"
_VALUE = r"""(?!\$\{|VALUE\b|\.\.\.)(?:'[^']*'(?:"'"'[^']*')*|"[^"]*"|[^\s'"`]+)"""
_SAID = re.compile(
    rf"(?i:(?P<whole>'--?(?:{_NAME})=)[^']*(?=')"
    rf"|(?<![\w.-])(?P<flag>--?(?:{_NAME})(?:=|[\x22']?,?\s+(?!-))|(?!key=)(?:{_NAME})=){_VALUE})"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AKIA)[\w-]{16,}"
)
_SHORTEST = 6
"""Letters of a secret of the environment at least: shorter ones are words that occur elsewhere, too."""


def visible(text: str) -> str:
    """The text with its controls as ``\\x1b``; lines stay lines."""
    return _CONTROLS.sub(_as_letters, text)


def page(said: bytes) -> tuple[bytes, int]:
    """Returns (a trainer's output for a terminal, where its colours and bars stay; how much of it that is: up to a letter's middle)."""
    text, read = codecs.utf_8_decode(said, "surrogateescape")
    return _UNUSUAL.sub(_as_letters, text).encode(errors="surrogateescape"), read


def _as_letters(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def is_secret(name: str) -> bool:
    """Tells by a variable's name whether its value is one."""
    said, short = _SAID.match(f"--{name}=x"), re.search("(_|^|PG)(PASS|PAT|CREDS?)$", name.upper())
    return any(part in name.upper() for part in SECRET) or said is not None or short is not None


def masked(text: str) -> str:
    """The text without the values behind --password, --hf-token, --api_key and their like, and without secrets of the environment."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and value in text and value[0] != "/" and is_secret(name):
            text = text.replace(value, "****")
    return _SAID.sub(lambda found: f"{found['whole'] or found['flag'] or ''}****", text)

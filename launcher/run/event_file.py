"""Makes a file for TensorBoard with a run's parameters: its HPARAMS page has them by name, its TEXT page as a table.

Written here, since the library for it may be missing in autofit's own environment and, where TensorFlow is installed, loads that. The
format is TFRecord (tensorflow.org/tutorials/load_data/tfrecord) with Event messages (tensorboard/compat/proto: event, summary, tensor; the
page of parameters: plugins/hparams/plugin_data.proto). The tests read it back with the library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

PREFIX = "events.out.tfevents."
_PARAMETERS = "_hparams_/session_start_info"
_FLOAT, _STRING = 1, 7
_POLYNOMIAL = 0x82F63B78


def content(numbers: Mapping[str, int | str], words: Mapping[str, str], *, at: float) -> bytes:
    """The whole file. ``numbers``: parameters as they are compared; ``words``: the same for people; ``at``: seconds since 1970."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in words.items())
    table = _text(f"| autofit | |\n|---|---|\n{rows}".encode())
    events = (
        _bytes(3, b"brain.Event:2"),
        _bytes(5, _bytes(1, _value(_PARAMETERS, "hparams", _started(numbers), _FLOATS))),
        _bytes(5, _bytes(1, table)),
    )
    return b"".join(_record(_double(1, at) + event) for event in events)


# -- messages


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def _bytes(number: int, value: bytes) -> bytes:
    """A field that is text or a message."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


_FLOATS = _integer(1, _FLOAT) + _bytes(2, _bytes(2, b""))
"""A tensor without values, as that page has it."""


def _started(numbers: Mapping[str, int | str]) -> bytes:
    """HParamsPluginData with the start of a session: a map of names and ``google.protobuf.Value``."""
    told = {name: _double(2, value) if isinstance(value, int) else _bytes(3, value.encode()) for name, value in numbers.items()}
    entries = (_bytes(1, _bytes(1, f"autofit.{name}".encode()) + _bytes(2, value)) for name, value in told.items())
    return _bytes(3, b"".join(entries))


def _text(words: bytes) -> bytes:
    tensor = _integer(1, _STRING) + _bytes(2, _bytes(2, _integer(1, 1))) + _bytes(8, words)
    return _value("autofit/text_summary", "text", b"", tensor)


def _value(tag: str, plugin: str, told: bytes, tensor: bytes) -> bytes:
    """A value of a Summary: its tag, its tensor, and which page shows it."""
    return _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, _bytes(1, _bytes(1, plugin.encode()) + _bytes(2, told)))


# -- records


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, masked as TFRecord has it."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (_POLYNOMIAL if found & 1 else 0)
    found ^= 0xFFFFFFFF
    return struct.pack("<I", ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF)

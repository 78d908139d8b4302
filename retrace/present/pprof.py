"""A profile of equations for the `pprof` program, like JAX's own `eqn_count_pprof` dump.

The format is a gzipped protocol buffer, `profile.proto` of google/pprof; the few messages used
here are written by hand.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping

from retrace.compare.size import Amount, Sample
from retrace.model import Frame


def encode(samples: Mapping[Sample, Amount], comment: str) -> bytes:
    """The profile: for each stack and primitive, its equations and how many run."""
    strings: dict[str, int] = {"": 0}
    frames: dict[Frame, int] = {}
    functions: dict[tuple[str, str, int], int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    def location(frame: Frame) -> int:
        return frames.setdefault(frame, len(frames) + 1)

    out = bytearray()
    for kind, unit in (("equations", "count"), ("equations_run", "count")):
        out += _message(1, _number(1, text(kind)) + _number(2, text(unit)))
    for sample, amount in samples.items():
        label = _number(1, text("primitive")) + _number(2, text(sample.primitive))
        out += _message(
            2,
            _packed(1, [location(frame) for frame in sample.stack])
            + _packed(2, amount)
            + _message(3, label),
        )
    for frame, number in frames.items():
        key = (frame.function, frame.file, frame.first_line)
        function = functions.setdefault(key, len(functions) + 1)
        line = _number(1, function) + _number(2, frame.line)
        out += _message(4, _number(1, number) + _message(4, line))
    for (name, file, first), number in functions.items():
        out += _message(
            5,
            _number(1, number)
            + _number(2, text(name))
            + _number(3, text(name))
            + _number(4, text(file))
            + _number(5, first),
        )
    phrase = text(comment)
    for string in strings:
        out += _message(6, string.encode(errors="backslashreplace"))
    out += _number(13, phrase)
    return gzip.compress(bytes(out), mtime=0)


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))

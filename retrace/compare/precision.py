"""Numbers as a program has them: rounded to the dtype in which it computes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

_Rounding: TypeAlias = Callable[[float], float]


def rounded(value: float, types: Collection[str]) -> float:
    """A number as a constant of these types (`f32`), or as it is if they do not round it.

    If there are several, the coarsest decides: a number is then the same in all of them.
    """
    if not types or not _ROUNDED.keys() >= {*types}:
        return value
    how = next(how for name, how in _ROUNDED.items() if name in types)
    try:
        return how(value)
    except OverflowError:
        return value


def _single(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _half(value: float) -> float:
    return struct.unpack("<e", struct.pack("<e", value))[0]


def _brain(value: float) -> float:
    """Rounded to the upper 16 bits of a float32, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    upper = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return struct.unpack("<f", struct.pack("<I", (upper & 0xFFFF) << 16))[0]


_ROUNDED: Mapping[str, _Rounding] = {"bf16": _brain, "f16": _half, "f32": _single}
"""The coarsest first."""

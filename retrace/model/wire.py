"""The fields of a message of protocol buffers, as XLA's profiles are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = int | memoryview
_SIZES = {1: 8, 5: 4}
"""Bytes of the numbers that have a fixed size, by how they are written."""
_MAX_SHIFT = 63
"""Bits that the last part of a number may be shifted by."""


def fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Each field's number, and its value: a number, or the bytes of all else.

    Raises:
        ValueError: it is no message.
        IndexError: it ends early.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _number(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(message, at)
            yield key >> 3, value
            continue
        size = _SIZES.get(kind)
        if kind == 2:
            size, at = _number(message, at)
        if size is None or at + size > end:
            raise ValueError("no message of protocol buffers")
        yield key >> 3, message[at : at + size]
        at += size


def _number(message: memoryview, at: int) -> tuple[int, int]:
    value = message[at]
    at += 1
    if value < 128:  # nearly all are
        return value, at
    value, shift = value & 127, 7
    while shift <= _MAX_SHIFT:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("no number")

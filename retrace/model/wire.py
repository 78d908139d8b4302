"""Reads the fields of protocol buffer messages, the format of XLA's profiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = int | memoryview
_SIZES = {1: 8, 5: 4}
"""The number of bytes of fixed-size numbers, by wire type."""
_MAX_SHIFT = 63
"""Maximum shift of the last part of a number, in bits."""


def fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """The number and value of each field: a number, or bytes for anything else.

    Raises:
        ValueError: it is not a message.
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
            raise ValueError("not a protocol buffer message")
        yield key >> 3, message[at : at + size]
        at += size


def _number(message: memoryview, at: int) -> tuple[int, int]:
    value = message[at]
    at += 1
    if value < 128:  # nearly always
        return value, at
    value, shift = value & 127, 7
    while shift <= _MAX_SHIFT:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("not a number")

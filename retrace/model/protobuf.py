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
        key = message[at]
        at += 1
        if key >= 128:
            key, at = _longer(key, message, at)
        kind = key & 7
        if kind in _SIZES:
            size = _SIZES[kind]
        elif kind in (0, 2):
            size = message[at]
            at += 1
            if size >= 128:
                size, at = _longer(size, message, at)
            if kind == 0:
                yield key >> 3, size
                continue
        else:
            raise ValueError("not a protocol buffer message")
        if at + size > end:
            raise ValueError("not a protocol buffer message")
        yield key >> 3, message[at : at + size]
        at += size


def _longer(first: int, message: memoryview, at: int) -> tuple[int, int]:
    """A number of several bytes, given its first one, and where it ends.

    Nearly all numbers have one byte and are read without a call: a profile has 100,000s of them.
    """
    value, shift = first & 127, 7
    while shift <= _MAX_SHIFT:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("not a number")

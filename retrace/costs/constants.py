"""Arrays that a program captured; they are part of it and compiled with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from retrace.compare.source_lines import place
from retrace.model import Frame, Listing

_TYPE = re.compile(r"~?([a-z]+)(\d*)[a-z0-9_]*\[([\d,]*)\]")
_MAX_BYTES = 1 << 62
MIN_BYTES = 1024
"""Smaller constants, in bytes, are not reported."""


class Constant(NamedTuple):
    """An array that a program captured."""

    type: str
    """`f32[300,500]`"""
    bytes: int
    frame: Frame | None
    """The user's first line that uses it, or None if no source lines were recorded."""
    on_device: bool


def constants(listing: Listing, listings: Mapping[str, Listing]) -> list[Constant]:
    """The arrays captured by a program and its sub-programs, largest first."""
    found = [
        one
        for program in each(listing, listings)
        for one in _own(program)
        if one.bytes >= MIN_BYTES
    ]
    return sorted(found, key=lambda one: -one.bytes)


def captured(listing: Listing, listings: Mapping[str, Listing]) -> int:
    """Total bytes of the arrays captured by a program and its sub-programs."""
    return sum(
        size(type_.removeprefix("~"))
        for one in each(listing, listings)
        for type_ in one.inputs[: len(one.constants)]
    )


def each(listing: Listing, listings: Mapping[str, Listing]) -> Iterator[Listing]:
    """A program and its sub-programs, without duplicates."""
    seen: set[str] = set()
    waiting = [listing]
    while waiting:
        one = waiting.pop()
        if one.id in seen:
            continue
        seen.add(one.id)
        yield one
        waiting += [sub for id_ in one.inner.values() if (sub := listings.get(id_)) is not None]


def _own(listing: Listing) -> Iterator[Constant]:
    if not listing.constants:
        return
    users = _first_users(listing, len(listing.constants))
    for index, written in enumerate(listing.constants):
        if index >= len(listing.inputs):
            return
        type_ = listing.inputs[index].removeprefix("~")
        user = users.get(index)
        frame = None if user is None else place(listing, user)
        yield Constant(type_, size(type_), frame, written.startswith("<array>"))


def _first_users(listing: Listing, limit: int) -> dict[int, int]:
    """The first equation that uses each of the first variables."""
    found: dict[int, int] = {}
    at = 0
    for index, text in enumerate(listing.equations):
        arguments = text.split("\t", 2)[1] if "\t" in text else ""
        for argument in arguments.split(" "):
            if argument != "$":
                continue
            if at >= len(listing.wires):
                return found
            variable = listing.wires[at]
            at += 1
            if variable < limit:
                found.setdefault(variable, index)
    return found


def size(type_: str) -> int:
    """The bytes of an array of a type such as `bf16[8,128]`, or 0 if unknown."""
    match = _TYPE.match(type_)
    if match is None:
        return 0
    kind, bits, shape = match.groups()
    number = 1
    for dim in filter(None, shape.split(",")):
        number = min(number * int(dim[:18]), _MAX_BYTES)
    width = 8 if kind == "bool" else int(bits[:4] or 0)
    if kind == "key":
        width = 64
    return (number * width + 7) // 8

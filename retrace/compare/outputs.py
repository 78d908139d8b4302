"""The results of a program: their types, and the line that made each."""

from __future__ import annotations

import re
from typing import NamedTuple

from retrace.compare.lines import place
from retrace.model import Frame, Listing

_VARIABLE = re.compile(r"\$[0-9]{1,18}")


class Output(NamedTuple):
    """One result of a program."""

    type: str
    """`f32[3]`, with `~` in front where it is weakly typed."""
    place: Frame | None
    """The line that made it; None where it is an input, a literal, or not known."""

    @property
    def is_weak(self) -> bool:
        """Whether JAX took its type from a Python number."""
        return self.type.startswith("~")


def outputs(listing: Listing) -> tuple[Output, ...]:
    """The results of a program, in order."""
    made: list[tuple[str, int | None]] = [(type_, None) for type_ in listing.inputs]
    for index, text in enumerate(listing.equations):
        parts = text.split("\t", 3)
        types = parts[2].split(" ") if len(parts) > 2 else []
        made += [(type_, index) for type_ in types]
    found: list[Output] = []
    for text in listing.outputs:
        if _VARIABLE.fullmatch(text) and int(text[1:]) < len(made):
            type_, index = made[int(text[1:])]
            found.append(Output(type_, None if index is None else place(listing, index)))
        else:  # a literal: `2.0:f32[]`
            found.append(Output(text.rpartition(":")[2], None))
    return tuple(found)


def unused_inputs(listing: Listing) -> frozenset[int]:
    """The positions of the inputs that no equation takes and no result is."""
    used = set(listing.wires)
    used.update(int(text[1:]) for text in listing.outputs if _VARIABLE.fullmatch(text))
    return frozenset(index for index in range(len(listing.inputs)) if index not in used)

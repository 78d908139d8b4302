"""A patch that turns one program into another; applying it proves that it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retrace.compare.alignment import Alignment, Block, align, hunks
from retrace.model import Listing


class Content(NamedTuple):
    """The content of a program: no source lines, name or id."""

    inputs: tuple[str, ...]
    constants: tuple[str, ...]
    equations: tuple[str, ...]
    wires: tuple[tuple[int, ...], ...]
    """The variables that each equation takes."""
    outputs: tuple[str, ...]


class Edit(NamedTuple):
    """Lines at a position of the old program, and what replaces them in the new one."""

    at: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


class Patch(NamedTuple):
    """The complete difference between two programs."""

    inputs: tuple[Edit, ...]
    equations: tuple[Edit, ...]
    wires: tuple[tuple[int, tuple[int, ...]], ...]
    """The variables of those equations of the new program whose variables changed."""
    constants: tuple[str, ...]
    outputs: tuple[str, ...]


def content(listing: Listing) -> Content:
    """Return the content of a program."""
    position = 0
    wires: list[tuple[int, ...]] = []
    for text in listing.equations:
        taken = _taken(text)
        wires.append(tuple(listing.wires[position : position + taken]))
        position += taken
    return Content(
        listing.inputs,
        listing.constants,
        tuple(listing.equations),
        tuple(wires),
        listing.outputs,
    )


def patch(old: Content, new: Content) -> Patch:
    """Return the patch that turns `old` into `new`."""
    inputs = align(old.inputs, new.inputs)
    equations = align(old.equations, new.equations)
    kept = _carried(old, new.inputs, new.equations, inputs, equations)
    return Patch(
        _edits(old.inputs, new.inputs, inputs),
        _edits(old.equations, new.equations, equations),
        tuple((i, wires) for i, wires in enumerate(new.wires) if kept.get(i) != wires),
        new.constants,
        new.outputs,
    )


def apply(patch: Patch, old: Content) -> Content:
    """Return the new program, given the old one.

    Raises:
        ValueError: the patch was made for another program.
    """
    inputs, input_blocks = _edited(old.inputs, patch.inputs)
    equations, blocks = _edited(old.equations, patch.equations)
    kept = _carried(old, inputs, equations, input_blocks, blocks)
    given = dict(patch.wires)
    wires = tuple(given[i] if i in given else kept[i] for i in range(len(equations)))
    return Content(inputs, patch.constants, equations, wires, patch.outputs)


def _edits(old: Sequence[str], new: Sequence[str], alignment: Alignment) -> tuple[Edit, ...]:
    return tuple(
        Edit(hunk.old, tuple(old[hunk.old : hunk.old_end]), tuple(new[hunk.new : hunk.new_end]))
        for hunk in hunks(alignment, len(old), len(new))
    )


def _edited(old: tuple[str, ...], edits: tuple[Edit, ...]) -> tuple[tuple[str, ...], Alignment]:
    out: list[str] = []
    blocks: list[Block] = []
    x = 0
    for edit in (*edits, Edit(len(old), (), ())):
        if edit.at > x:
            blocks.append(Block(x, len(out), edit.at - x))
            out += old[x : edit.at]
        x = edit.at + len(edit.removed)
        if old[edit.at : x] != edit.removed:
            raise ValueError("this patch is for another program")
        out += edit.added
    return tuple(out), Alignment(tuple(blocks), True)


def _carried(
    old: Content,
    inputs: tuple[str, ...],
    equations: tuple[str, ...],
    input_blocks: Alignment,
    blocks: Alignment,
) -> dict[int, tuple[int, ...]]:
    """The variables of the equations that were kept, numbered as in the new program."""
    numbers = {
        block.old + i: block.new + i for block in input_blocks.blocks for i in range(block.length)
    }
    before = _starts(len(old.inputs), old.equations)
    after = _starts(len(inputs), equations)
    found: dict[int, tuple[int, ...]] = {}
    for block in blocks.blocks:
        for i in range(block.length):
            x, y = block.old + i, block.new + i
            # A variable that no longer exists becomes -1.
            found[y] = tuple(numbers.get(wire, -1) for wire in old.wires[x])
            for result in range(_results(equations[y])):
                numbers[before[x] + result] = after[y] + result
    return found


def _starts(made: int, equations: tuple[str, ...]) -> list[int]:
    found: list[int] = []
    for text in equations:
        found.append(made)
        made += _results(text)
    return found


def _taken(text: str) -> int:
    return text.split("\t", 2)[1].split(" ").count("$")


def _results(text: str) -> int:
    types = text.split("\t", 3)[2]
    return types.count(" ") + 1 if types else 0

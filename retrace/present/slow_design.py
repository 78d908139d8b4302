"""What makes a slow miss expensive because of how its program is written, in words."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.costs.account import Account
from retrace.present.program import at
from retrace.present.slow_advice import size
from retrace.present.view import View
from retrace.present.words import clean, count, listed

_MAX_CONSTANTS = 3
_MAX_HEAVY = 4
_HUGE = 1 << 24
"""Bytes of an array whose type is worth showing, such as that of a `vmap` over many."""


def constants(view: View, one: Account) -> Iterator[str]:
    """Arrays that it captured."""
    if not one.constants:
        return
    total = sum(constant.bytes for constant in one.constants)
    shown = one.constants[:_MAX_CONSTANTS]
    each = [
        f"{clean(constant.type, 32)} at {at(view, constant.frame)} ({size(constant.bytes)})"
        for constant in shown
    ]
    more = len(one.constants) - len(shown)
    each += [count(more, "smaller one")] if more else []
    yield f"{size(total)} captured in the program: {listed(each, 4)}"


def unrolled(view: View, one: Account) -> Iterator[str]:
    """Loops that Python unrolled."""
    equations = one.miss.program.equations if one.miss.program is not None else 0
    for block in one.unrolled[:2]:
        what = listed([clean(name, 24) for name in block.primitives], 4)
        yield (
            f"{at(view, block.place)} runs {what} {block.times:,} times in a row, "
            f"{block.times * block.equations:,} of {equations:,} equations"
        )


def repeated(view: View, one: Account) -> Iterator[str]:
    """Functions that it traced several times with equal results."""
    equations = one.miss.program.equations if one.miss.program is not None else 0
    for calls in one.repeated[:1]:
        if calls.saved >= equations / 10:
            yield (
                f"{at(view, calls.frame)} `{clean(calls.frame.function, 32)}` is traced "
                f"{calls.times:,} times alike, {calls.times * calls.equations:,} of "
                f"{equations:,} equations: it is not jitted"
            )


def nested(view: View, one: Account) -> Iterator[str]:
    """Nested branches and loops."""
    equations = one.miss.program.equations if one.miss.program is not None else 0
    if one.nest is not None and one.nest.equations >= equations / 10:
        yield (
            f"`{clean(one.nest.primitive, 24)}` and the like are nested {one.nest.depth} deep "
            f"from {at(view, one.nest.frame)} on, with {one.nest.equations:,} equations inside: "
            "each branch and body is traced and compiled wherever it occurs"
        )


def heavy(view: View, one: Account) -> Iterator[str]:
    """Operations that are slow to compile, for programs without seconds by line.

    With seconds, the lines show their operations. Operations on huge arrays are always shown with
    their size, which no other line has.
    """
    known = any(kernel.seconds for kernel in one.kernels)
    found = [row for row in one.heavy if not known or row.bytes >= _HUGE]
    if not found:
        return
    rows = [
        f"{clean(row.primitive, 32)} ({row.number:,}"
        + (f", of {row.arrays} arrays" if row.arrays > 1 else "")
        + (f", up to {clean(row.largest, 32)}, {size(row.bytes)}" if row.bytes >= _HUGE else "")
        + f") at {at(view, row.frame)}"
        for row in found[:_MAX_HEAVY]
    ]
    text = "on huge arrays" if known else "inherently slow to compile"
    yield f"{text}: {listed(rows, _MAX_HEAVY)}"

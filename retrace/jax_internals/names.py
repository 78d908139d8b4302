"""All private JAX names that retrace relies on, in one table.

Each row is one name: an attribute of a module or class, a function whose frame is searched on
the stack, a local variable in such a frame, an event. The rows are in the modules `names_...`,
grouped by purpose, and other code accesses JAX through them. A name that this JAX lacks is
reported as a loss and what needs it is switched off; everything else keeps working.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import cast

from retrace.jax_internals import (
    losses,
    names_audit,
    names_frames,
    names_hooks,
    names_slow,
    names_values,
)
from retrace.jax_internals.row import Loss, Row, at_once, forget

__all__ = [
    "TABLE",
    "Loss",
    "Row",
    "absent",
    "check",
    "gone",
    "lose",
    "shows",
    "unseen",
]


def _rows(module: ModuleType) -> Iterator[Row]:
    for value in vars(module).values():
        if isinstance(value, Row):
            yield value
        elif isinstance(value, dict):
            held = cast(dict[object, object], value).values()
            yield from (one for one in held if isinstance(one, Row))


TABLE: tuple[Row, ...] = tuple(
    dict.fromkeys(
        row
        for module in (names_hooks, names_frames, names_values, names_audit, names_slow)
        for row in _rows(module)
    )
)


def absent() -> tuple[Row, ...]:
    """The rows that this JAX lacks, although its version should have them."""
    with at_once():
        return tuple([row for row in TABLE if row.expected and not row.there()])


def check() -> None:
    """Check again what this JAX lacks; done each time recording is switched on."""
    global gone, _absent
    forget()
    _absent = tuple([row.loss for row in absent() if row.loss is not None])
    gone = _found_gone | set(_absent)


def shows(loss: Loss) -> bool:
    """Whether this JAX has every name that this loss depends on, as far as is known."""
    return loss not in gone


def lose(loss: Loss) -> bool:
    """Report a loss found only at run time; False if it was already known."""
    global gone
    if loss in gone:
        return False
    _found_gone.add(loss)
    gone = gone | {loss}
    return True


def losses_counted() -> Counter[str]:
    """The losses of a recording, with the number of names missing when it was switched on."""
    if _absent is None:
        check()
    counted = Counter(_absent)
    counted.update(_found_gone - counted.keys())
    return Counter({loss.name: number for loss, number in counted.items()})


def unseen() -> tuple[str, ...]:
    """The parts of every miss that this JAX does not show."""
    return tuple([loss.unseen for loss in _LOST_FROM_EVERY_MISS if loss in gone and loss.unseen])


_LOST_FROM_EVERY_MISS = (
    losses.CALLS,
    losses.TRACES,
    losses.OPTIONS,
    losses.ARGUMENTS,
    losses.TREES,
    losses.PLACEMENT,
    losses.CONFIG,
    losses.CLEARS,
    losses.PROGRAMS,
    losses.COMPILATIONS,
)
"""Losses that affect every miss; the others affect only some."""

_found_gone: set[Loss] = set()
gone: set[Loss] = set()
"""The losses of this JAX, usually none. Code run at each miss reads this without a call."""
_absent: tuple[Loss, ...] | None = None
"""What the last `check` found, cached because every guard of every test needs it."""

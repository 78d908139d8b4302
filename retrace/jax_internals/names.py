"""Everything private to JAX that retrace relies on, in one table.

Each row is one name: a module's attribute, a class's, a function whose frame is looked for on
the stack, a local variable in it, an event. The rows stand in the modules `names_...`, by what
they are used for, and the code gets what they name through them. A JAX that lacks one is told
as a loss, and what needs it is switched off; the rest goes on.
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

__all__ = ["TABLE", "Loss", "Row", "absent", "check", "lose", "shows", "shows_all", "unseen"]


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
    """The rows that this JAX should have, going by its version, and lacks."""
    with at_once():
        return tuple([row for row in TABLE if row.expected and not row.there()])


def check() -> None:
    """Look again at what this JAX lacks: done each time that recording is switched on."""
    global _gone, _absent
    forget()
    _absent = tuple([row.loss for row in absent() if row.loss is not None])
    _gone = _found_gone | set(_absent)


def shows(loss: Loss) -> bool:
    """Whether this JAX has every name that is needed for something, as far as is known."""
    return loss not in _gone


def shows_all() -> bool:
    """Whether it has all of them."""
    return not _gone


def lose(loss: Loss) -> bool:
    """Something turned out to be missing only while it ran; False where that was known."""
    global _gone
    if loss in _gone:
        return False
    _found_gone.add(loss)
    _gone = _gone | {loss}
    return True


def losses_told() -> Counter[str]:
    """What a recording lacks, each as often as names were missing when it was switched on."""
    if _absent is None:
        check()
    told = Counter(_absent)
    told.update(_found_gone - told.keys())
    return Counter({loss.name: number for loss, number in told.items()})


def unseen() -> tuple[str, ...]:
    """The parts of every miss that this JAX does not show."""
    return tuple([loss.unseen for loss in _EVERYWHERE if loss in _gone and loss.unseen])


_EVERYWHERE = (
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
"""What every miss lacks then; of the other losses only some."""

_found_gone: set[Loss] = set()
_gone: set[Loss] = set()
_absent: tuple[Loss, ...] | None = None
"""What the last `check` found: every guard of every test asks for it."""

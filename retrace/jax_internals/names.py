"""Everything private to JAX that retrace relies on, in one table.

Each row is one name: a module's attribute, a class's, a function whose frame is looked for on
the stack, a local variable in it, an event. The rows stand in the modules `names_...`, by what
they are used for, and the code gets what they name through them. A JAX that lacks one is told
as a loss, and what needs it is switched off; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import cast

from retrace.jax_internals import names_frames, names_hooks, names_values
from retrace.jax_internals.row import Loss, Row

__all__ = ["TABLE", "Loss", "Row", "absent", "lacks"]


def _rows(module: ModuleType) -> Iterator[Row]:
    for value in vars(module).values():
        if isinstance(value, Row):
            yield value
        elif isinstance(value, dict):
            held = cast(dict[object, object], value).values()
            yield from (one for one in held if isinstance(one, Row))


TABLE: tuple[Row, ...] = (
    *_rows(names_hooks),
    *_rows(names_frames),
    *_rows(names_values),
)


def absent() -> tuple[Row, ...]:
    """The rows that this JAX should have, going by its version, and lacks."""
    return tuple([row for row in TABLE if row.expected and not row.there()])


def lacks(loss: Loss) -> bool:
    """Whether a name is missing for want of which this is lost."""
    return any(row.loss is loss and row.expected and not row.there() for row in TABLE)

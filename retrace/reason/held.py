"""What a function that was created again holds, by how it could be passed instead."""

from __future__ import annotations

from retrace.model import Change, Component
from retrace.reason.evidence import (
    innermost,
    is_another_function,
    is_arrays,
    is_function,
    paths,
    types_of,
)
from retrace.reason.fields import field_changes
from retrace.reason.traits import looks_equal
from retrace.reason.values import is_amount, is_plain


class Held:
    """The changed values that a recreated function captures or reads, by how to pass them."""

    def __init__(self, changes: tuple[Change, ...]) -> None:
        captured = paths(changes, Component.CLOSURE)
        parts = [
            part
            for change in changes
            if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
            # The parts that the code reads are reported separately.
            if not any(
                str(other).startswith((f"{change.path}.", f"{change.path}["))
                for other in captured
            )
            for part in (field_changes(change) or (change,))
        ]
        names = innermost(list(dict.fromkeys(str(part.path) for part in parts)))
        self.parts = {str(part.path): part for part in parts if part.path in names}
        kept = self.parts
        self.arrays = [name for name, part in kept.items() if is_arrays(part)]
        self.numbers = [name for name, part in kept.items() if is_amount(part)]
        self.plain = [
            name
            for name, part in kept.items()
            if is_plain(part) and name not in (*self.arrays, *self.numbers)
        ]
        self.optimizers = [
            str(change.path)
            for change in changes
            if change.component in (Component.CLOSURE, Component.DEFAULTS)
            and all(type_.startswith("optax.") for type_ in types_of(change))
            and any(is_below(name, (str(change.path),)) for name in self.numbers)
        ]
        """Optax optimizers created with other numbers, whose contents cannot be passed."""
        self.found = bool(kept)
        self.names = tuple(kept)
        known = {*self.arrays, *self.numbers, *self.plain}
        self.alike = [name for name, part in kept.items() if looks_equal(part)]
        # A captured function that looks the same is recreated for the same reason.
        self.objects = [
            name
            for name, part in kept.items()
            if name not in known and (not is_function(part) or is_another_function(part))
        ]
        self.functions = [name for name in kept if name not in (*known, *self.objects)]
        """Functions that were created again as well, from the same code."""


def is_below(name: str, holders: tuple[str, ...]) -> bool:
    """Whether the name is a part of one of these."""
    return any(name.startswith((f"{holder}.", f"{holder}[")) for holder in holders)

"""The parts of a key that hold values by name, for code that treats them all alike.

Each room decides for itself how to treat a particular part. There, the key is unpacked into all
of its parts at once, so that the type checker finds every room that does not know a new one.
"""

from __future__ import annotations

from typing import TypeAlias

from retrace.model.change import Component
from retrace.model.key import Key, Value

Named: TypeAlias = tuple[tuple[str, Value], ...]


def named(key: Key) -> tuple[tuple[Component, Named], ...]:
    """The named values of a key, with the component of their changes."""
    _leaves, _tree, static, _signature, options, config = key
    return (
        (Component.STATIC, static),
        (Component.OPTIONS, options),
        (Component.CONFIG, config),
    )


NAMED = tuple([component for component, _ in named(Key())])
"""The components of those parts."""

"""The values that the calls of one history passed for static arguments, or held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from retrace.model import HeldChange, NamedChange, Value, Verdict
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.evidence import is_array_type, types_of
from retrace.reason.fields import with_fields
from retrace.reason.values import kind_of

Values: TypeAlias = dict[str, set[tuple[str, str]]]
"""By path, the type and text of each value."""


def values_of_calls(history: Sequence[Verdict]) -> Values:
    """All values passed for static arguments or held, with their types, by path."""
    found: Values = {}
    for verdict in history:
        for change in verdict.changes:
            if isinstance(change, HeldChange) or (
                isinstance(change, NamedChange) and change.component in OF_ARGUMENTS
            ):
                for part in with_fields(change):
                    assert isinstance(part, HeldChange | NamedChange)
                    sides = [side for side in (part.old, part.new) if side is not None]
                    own = found.setdefault(str(part.path), set())
                    own |= {(_type(side), side.text) for side in sides}
    return found


def _type(side: Value) -> str:
    """Its type; an array inside a function is written as a text, as `float32[3]`."""
    return "array" if is_array_type(side.text) else kind_of(side)


def has_several_types(values: Values, path: str) -> bool:
    """Whether calls passed the value in several types; as arguments they need one type."""
    return len({type_ for type_, _ in values.get(path, ()) if type_ != "NoneType"}) > 1


def always_new(values: Values, calls: int, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some values that no two of at least three calls have in common."""
    return tuple(one for one in names if len(values.get(one, ())) == calls >= _MANY)


_MANY = 3
"""Among fewer calls it means nothing that each has another value."""


def lists_of_calls(history: Sequence[Verdict]) -> set[str]:
    """What was a list when it changed."""
    changes = (one for verdict in history for one in (*verdict.changes, *verdict.reads))
    return {str(one.path) for one in changes if "list" in types_of(one)}

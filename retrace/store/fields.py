"""The fields of a recording's lines: how each is read, written and redacted.

One row a field. Whoever writes a line, reads one or hides what stands in one goes by these
rows, so that a new field is an attribute of the model and a row: of a process in `header`, of a
function in `parts`, of all else in `schema`. What its row does not hide is told:
`tests/store/test_redacted_fields.py` wants a reason for each text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from retrace.model import JSON

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One field of what a line tells."""

    attribute: str
    """Of the model; empty for what goes into another attribute by `put`."""
    read: Callable[[Any], Any]
    """Makes of JSON what the model holds; raises one of `decoded.NONSENSE`."""
    hide: Callable[[Redaction, str, Any], Any] | None = None
    """Makes its redacted value; None if redaction leaves it as it is. Takes the definition site
    that it belongs to, or "", and the value as the model holds it."""
    write: Callable[[Any], JSON] | None = None
    """Makes JSON of it, where the writer's encoder cannot (`store/writer`)."""
    put: Callable[[T, Any], None] | None = None
    """Takes it into an instance; None where it replaces what is there."""


def take(one: T, line: Mapping[str, Any], fields: Mapping[str, Field[T]]) -> None:
    """Take into `one` what a line says of it; raises one of `decoded.NONSENSE`."""
    for name, told in line.items():
        field = fields.get(name)
        if field is None or told is None:
            continue
        if field.put is None:
            setattr(one, field.attribute, field.read(told))
        else:
            field.put(one, field.read(told))


def told_of(one: Any, fields: Mapping[str, Field[Any]]) -> dict[str, JSON]:
    """The fields of a named tuple, without those that hold their defaults."""
    defaults: dict[str, Any] = one._field_defaults
    held = {name: getattr(one, field.attribute) for name, field in fields.items()}
    return {
        name: told
        for name, told in held.items()
        if fields[name].attribute not in defaults or told != defaults[fields[name].attribute]
    }


def shown(
    told: Mapping[str, Any], fields: Mapping[str, Field[Any]], hide: Redaction | None
) -> dict[str, JSON]:
    """What a line says of fields that are given as the model holds them."""
    line: dict[str, JSON] = {}
    for name, held in told.items():
        field = fields.get(name)
        if field is not None and held is not None:
            if hide is not None and field.hide is not None:
                held = field.hide(hide, "", held)
            if field.write is not None:
                held = field.write(held)
        line[name] = held
    return line


def hidden(
    one: object, fields: Mapping[str, Field[Any]], hide: Redaction, site: str = ""
) -> Iterator[tuple[str, Any]]:
    """The attributes that redaction changes, each with its redacted value."""
    for field in fields.values():
        held = getattr(one, field.attribute, None)
        if field.hide is not None and held is not None:
            yield field.attribute, field.hide(hide, site, held)

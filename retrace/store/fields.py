"""The fields of a recording's lines: how each is read, written and redacted.

There is one row for each field, used to write, read and redact it, so a new field needs an
attribute of the model and a row: in `header` for a process, in `parts` for a function, otherwise
in `schema`. A field is published unless its row hides it:
`tests/store/test_redacted_fields.py` requires a reason for each string that is.
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
    """One field of a line."""

    attribute: str
    """The attribute of the model; empty if `put` stores the value elsewhere."""
    read: Callable[[Any], Any]
    """Converts JSON to the model's value; raises one of `decoded.NONSENSE`."""
    hide: Callable[[Redaction, str, Any], Any] | None = None
    """Redacts the value; None if redaction leaves it unchanged. Takes the definition site that it
    belongs to (or "") and the model's value."""
    write: Callable[[Any], JSON] | None = None
    """Converts the value to JSON if the encoder of `store/writer` cannot."""
    put: Callable[[T, Any], None] | None = None
    """Stores the value in an instance; None if it simply replaces the attribute."""


def read_into(one: T, line: Mapping[str, Any], fields: Mapping[str, Field[T]]) -> None:
    """Store the fields of a line in `one`; raises one of `decoded.NONSENSE`."""
    for name, given in line.items():
        field = fields.get(name)
        if field is None or given is None:
            continue
        if field.put is None:
            setattr(one, field.attribute, field.read(given))
        else:
            field.put(one, field.read(given))


def non_defaults(one: Any, fields: Mapping[str, Field[Any]]) -> dict[str, JSON]:
    """The fields of a named tuple that differ from their defaults."""
    defaults: dict[str, Any] = one._field_defaults
    held = {name: getattr(one, field.attribute) for name, field in fields.items()}
    return {
        name: value
        for name, value in held.items()
        if fields[name].attribute not in defaults or value != defaults[fields[name].attribute]
    }


def encode_fields(
    values: Mapping[str, Any], fields: Mapping[str, Field[Any]], hide: Redaction | None
) -> dict[str, JSON]:
    """Encode the model's values for a line, redacted if `hide` is given."""
    line: dict[str, JSON] = {}
    for name, held in values.items():
        field = fields.get(name)
        if field is not None and held is not None:
            if hide is not None and field.hide is not None:
                held = field.hide(hide, "", held)
            if field.write is not None:
                held = field.write(held)
        line[name] = held
    return line


def redacted(
    one: object, fields: Mapping[str, Field[Any]], hide: Redaction, site: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that redaction changes, with their redacted values."""
    for field in fields.values():
        held = getattr(one, field.attribute, None)
        if field.hide is not None and held is not None:
            yield field.attribute, field.hide(hide, site, held)

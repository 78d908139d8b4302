"""The parts of a recording: what many misses share is written once and referred to by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from retrace.model import JSON, CallSite, Function, Key, Kind, Node, Receiver, Value
from retrace.model import parts as model
from retrace.store.decoded import (
    class_,
    named_values,
    number,
    number_or_none,
    text,
    text_or_none,
    texts,
    value,
)
from retrace.store.fields import Field, non_defaults
from retrace.store.leaves import decode_leaves

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

PARTS = ("function", *Key._fields, "call_site", "callers")
"""The kinds of parts; a miss refers to one of each kind by number, or has null."""


Parts: TypeAlias = Mapping[tuple[str, int], Any]
"""Decoded parts by kind and number."""


# `json.dumps` writes named tuples and string enums as arrays and strings; only dataclasses
# need to be encoded.


def call_site(row: Any) -> CallSite:
    """Decode a call site."""
    file, line, function, source, library, *later = row
    return CallSite(
        text(file),
        number(line),
        text(function),
        text_or_none(source),
        bool(library),
        bool(later and later[0]),
        number(later[1]) if len(later) > 1 else 0,
    )


def encode_call_site(site: CallSite) -> list[JSON]:
    """Encode a call site."""
    if site.loop:
        return [*site]
    return [*site[:6]] if site.untraceable else [*site[:5]]


def _node(row: Any) -> Node:
    path, type_, children, meta, *later = row
    made = class_(later[0]) if later and later[0] is not None else None
    return Node(text(path), text(type_), tuple(map(text, children)), named_values(meta), made)


def _receiver(row: Any) -> Receiver:
    type_, index, equal, held = row
    return Receiver(
        text(type_),
        number_or_none(index),
        text_or_none(equal),
        None if held is None else value(held),
    )


def _hide_values(
    hide: Redaction, site: str, values: tuple[tuple[str, Value], ...]
) -> tuple[tuple[str, Value], ...]:
    return hide.values(site, values)


FUNCTION: Mapping[str, Field[Function]] = {
    "name": Field("name", text),
    "jax_name": Field("jax_name", text),
    "qualname": Field("qualname", text),
    "kind": Field("kind", Kind),
    "file": Field("file", text_or_none, lambda hide, _, file: hide.path(file)),
    "line": Field("line", number_or_none),
    "site": Field("site", text),
    "object": Field("object", number),
    "code": Field("code", text, lambda hide, _, code: hide.code(code)),
    "closure": Field("closure", named_values, _hide_values),
    "defaults": Field("defaults", named_values, _hide_values),
    "bound": Field("bound", named_values, _hide_values),
    "wrappers": Field("wrappers", texts),
    "reads": Field("reads", named_values, lambda hide, site, held: hide.reads(site, held)),
    "base": Field("base", number),
    "decorators": Field("decorators", texts),
    "around": Field("around", texts),
    "receiver": Field("receiver", _receiver, lambda hide, site, held: hide.receiver(site, held)),
    "source": Field("source", text, lambda _hide, _site, _held: None),
    "library": Field("in_library", bool),
}
_REQUIRED = ("name", "jax_name", "qualname", "kind", "file", "line", "site", "object")


def encode_function(function: Function) -> dict[str, JSON]:
    """Encode a function, without fields that have their defaults."""
    return non_defaults(function, FUNCTION)


def decode_function(fields: Any) -> Function:
    """Decode a function; raises one of `decoded.NONSENSE`."""
    given = {name: fields[name] for name in _REQUIRED}
    given |= {name: row for name, row in fields.items() if name in FUNCTION and row is not None}
    return Function(
        **{FUNCTION[name].attribute: FUNCTION[name].read(given[name]) for name in given}
    )


def _reader(part: model.Part) -> Callable[[Any], Any]:
    match part:
        case model.Arrays():
            return decode_leaves
        case model.Containers():
            return lambda rows: tuple(map(_node, rows))
        case model.Values():
            return named_values
        case model.Words():
            return lambda rows: tuple((text(name), text(word)) for name, word in rows)
        case _:
            assert_never(part)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "function": decode_function,
    **{part.name: _reader(part) for part in model.PARTS},
    "call_site": call_site,
    "callers": lambda rows: tuple(map(call_site, rows)),
}


def decode_part(kind: str, part: Any) -> Any:
    """Decode a part of a kind; raises one of `decoded.NONSENSE`."""
    return _READERS[kind](part)

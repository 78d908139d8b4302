"""The static data that the results of a function carry, such as fields of a dataclass.

JAX keeps it with the program and gives it back at each hit. It is no part of the jaxpr.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, cast

from retrace.capture.objects import derives, kind_of, tuple_fields
from retrace.capture.snapshot import snapshot
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.returned_trees import of_trace
from retrace.jax_internals.traces import Trace
from retrace.model import JSON
from retrace.model.miss_fields import MissFields

_MAX_NODES = 500
_PLAIN = frozenset((tuple, list, dict, type(None)))
"""Nodes that carry none: the keys of a dict are in the paths of its results."""


def carried(trace: Trace) -> MissFields:
    """A digest of the static data in what a trace returned that has just ended, if there is any.

    Of objects it holds what they contain: another one with the same contents is carried alike.
    """
    found = [text for tree in of_trace(trace) for text in _static_data(tree)]
    if not found:
        return {}
    text = "\0".join(found)
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return {"carried": digest}


def _static_data(tree: Any) -> Iterator[str]:
    waiting = [tree]
    for _ in range(_MAX_NODES):
        if not waiting:
            break
        if (data := waiting[-1].node_data()) is None:
            waiting.pop()
            continue
        kind, metadata = data
        waiting += waiting.pop().children()
        if is_listed(kind, _PLAIN) or metadata is None or derives(kind_of(metadata), type):
            continue
        if tuple_fields(kind) is None:
            value = snapshot(metadata, _no_token)
            content = value.text if value.data is None else _plain(value.data)
            yield f"{value.type} {content}"


def _plain(data: JSON) -> JSON:
    """Data without what its functions hold: a state carries its own, of which one is kept."""
    if isinstance(data, list):
        return list(map(_plain, cast(list[JSON], data)))
    if not isinstance(data, dict):
        return data
    parts = cast(dict[str, JSON], data)
    type_ = parts.get("$type")
    if isinstance(type_, str) and type_.startswith("<"):
        return type_
    return {name: _plain(one) for name, one in parts.items()}


def _no_token(_: object) -> str | None:
    return None

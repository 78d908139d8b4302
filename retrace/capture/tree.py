"""The pytree of an argument: its leaves and containers, with paths that the user knows."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from retrace.capture.classes import CLASSES
from retrace.capture.graphs import Graphs
from retrace.capture.objects import attributes_of, derives, own, tuple_fields
from retrace.capture.snapshot import snapshot
from retrace.capture.tokens import Tokens
from retrace.jax_internals import losses, names
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.names_values import BY_POSITION, FLATTEN, LABELS, REGISTRY
from retrace.jax_internals.shardings import ARRAYS, leaf
from retrace.model import Leaf, Node, Value

_LEAVES = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


class Tree:
    """The leaves and nodes flattened so far, in tree order."""

    def __init__(self, tokens: Tokens, is_array: Callable[[Any], bool] | None = None) -> None:
        self.leaves: list[Leaf] = []
        self.nodes: list[Node] = []
        self.static: list[tuple[str, Value]] = []
        """Leaves that a wrapper keeps out of the dynamic arguments, by path."""
        self._tokens = tokens
        self._is_array = is_array
        self._graphs: Graphs | None = None

    def add(self, path: str, value: Any) -> None:
        """Append the leaves and nodes of `value`."""
        kind = type(value)
        if is_listed(kind, ARRAYS) and self._is_array is None:
            self.leaves.append(leaf(value, path))
        elif kind is dict:
            self._add_dict(path, value)
        elif kind is tuple or kind is list:
            labels = tuple([f"[{index}]" for index in range(len(value))])
            self.nodes.append(Node(path, kind.__name__, labels))
            for label, child in zip(labels, value, strict=True):
                self.add(path + label, child)
        elif value is None:
            self.nodes.append(Node(path, "None", ()))
        elif not names.shows(losses.TREES):
            self.leaves.append(leaf(value, path))
        elif isinstance(value, _LEAVES) or (row := FLATTEN.of(REGISTRY.get())(value)) is None:
            self._add_leaf(path, value)
        elif (split := self._split(path, value)) is not None:
            self.nodes += split[0]
            self.leaves += split[1]
        else:
            self._add_custom(path, value, list(row[0]), row[1])

    def _split(self, path: str, value: Any) -> tuple[list[Node], list[Leaf]] | None:
        if self._graphs is None:
            self._graphs = Graphs(self._tokens)
        return self._graphs.split(path, value)

    def _add_leaf(self, path: str, value: Any) -> None:
        if self._is_array is not None and not self._is_array(value):
            self.static.append((path, snapshot(value, self._tokens.metadata)))
        else:
            self.leaves.append(leaf(value, path))

    def _add_dict(self, path: str, value: dict[Any, Any]) -> None:
        try:
            keys = sorted(value)
        except TypeError:
            # JAX also refuses such a dict, with its own error.
            keys = list(value)
        labels = tuple([f"[{key!r}]" for key in keys])
        self.nodes.append(Node(path, "dict", labels))
        for label, key in zip(labels, keys, strict=True):
            self.add(path + label, value[key])

    def _add_custom(self, path: str, value: Any, children: list[Any], aux: Any) -> None:
        # The metadata of a named tuple is its type, unless it was registered with something else.
        named = aux is type(value) and derives(aux, tuple) and hasattr(aux, "_fields")
        labels = _fields(value) if named else _labels(value, children)
        metadata = [] if named else self._metadata(value, aux, labels)
        kind = type(value)
        made = CLASSES.of(kind)
        name = str(own(kind, "__name__"))
        self.nodes.append(Node(path, name, labels, tuple(metadata), made))
        for label, child in zip(labels, children, strict=True):
            self.add(path + label, child)

    def _metadata(self, value: Any, aux: Any, labels: tuple[str, ...]) -> list[tuple[str, Value]]:
        """The static metadata of a node, by field if the fields are known."""
        # No `==` here: it may be the user's or an array's, which would run and may raise.
        # Nor `isinstance`, which asks a property `__class__`, as lazy objects have one.
        if aux is None or (derives(type(aux), tuple) and not tuple.__len__(aux)):
            return []
        dynamic = {label.removeprefix(".") for label in labels}
        fields = {
            name: content for name, content in attributes(value).items() if name not in dynamic
        }
        if derives(type(value), defaultdict):
            fields["default_factory"] = value.default_factory
        elif derives(type(value), functools.partial):
            fields["func"] = value.func
        if dataclasses.is_dataclass(value):
            order = [field.name for field in dataclasses.fields(value)]
            fields = {name: fields[name] for name in order if name in fields}
        items = _items(aux, frozenset(map(id, fields.values())))
        named = {
            name: content
            for name, content in fields.items()
            if any(content is item for item in items)
        }
        # What is in no field is kept as it is, except for names of fields.
        rest = tuple(
            item
            for item in items
            if not any(item is content for content in named.values())
            and not (type(item) is str and (item in fields or item in dynamic))
        )
        if not named:
            return [("", snapshot(aux, self._tokens.metadata))]
        rows = [*named.items(), *([("", rest)] if rest else [])]
        return [(name, snapshot(content, self._tokens.metadata)) for name, content in rows]


def _fields(value: Any) -> tuple[str, ...]:
    return tuple([f".{field}" for field in type(value)._fields])


def _labels(value: Any, children: list[Any]) -> tuple[str, ...]:
    with_keys = LABELS.of(REGISTRY.get())
    row = with_keys(value) if with_keys is not None else None
    if row is not None:
        keys = [key for key, _ in row[0]]
        if len(keys) == len(children) and not any(map(_is_position, keys)):
            return tuple([str(key) for key in keys])
    # Registered without keys: JAX numbers the children, but attribute names say more.
    names = {id(content): name for name, content in attributes(value).items()}
    return tuple(
        [
            f".{names[id(child)]}" if id(child) in names else f"[<flat index {index}>]"
            for index, child in enumerate(children)
        ]
    )


def _is_position(key: object) -> bool:
    return key is None or type(key).__name__ == BY_POSITION.name


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, read without running code of its class."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                try:
                    found[name] = object.__getattribute__(value, name)
                except AttributeError:
                    continue
    if derives(type(value), tuple):
        found |= zip(getattr(type(value), "_fields", ()), value, strict=False)
    return found | attributes_of(value)


def _items(aux: Any, fields: frozenset[int], depth: int = 3) -> list[Any]:
    """What metadata consists of; `fields` are the contents of fields, by `id`."""
    kind = type(aux)
    if (
        depth
        and id(aux) not in fields
        and derives(kind, tuple, list)
        and tuple_fields(kind) is None
    ):
        elements: Any = (tuple if derives(kind, tuple) else list).__iter__(aux)
        return [item for element in elements for item in _items(element, fields, depth - 1)]
    return [aux]

"""`flax.nnx` modules among the arguments, described by the fields that the user gave them.

`nnx.jit` splits each module into a graph definition, which is static, and the states
of its variables. A definition lists the nodes depth first, with their attributes:

    nodes       [MLP of 2 attributes, Linear of 1, kernel]
    attributes  [(fc, node), (kernel, node), (training, static True)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import jax

from retrace.capture.classes import CLASSES
from retrace.capture.objects import own
from retrace.capture.snapshot import snapshot
from retrace.capture.tokens import Tokens
from retrace.jax_internals.shardings import leaf
from retrace.model import Leaf, Node, Value

_BOOKKEEPING = "_pytree__"
"""Prefix of the module's internal attributes, which follow from the others."""


class UnknownGraphError(Exception):
    """The structure of the graph definition is not known here."""


class Graphs:
    """Reads the modules of one call, which may share parts."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._shared: dict[Any, str] = {}

    def split(self, path: str, value: Any) -> tuple[list[Node], list[Leaf]] | None:
        """The nodes and leaves of a module split by `nnx`; None for anything else."""
        name = str(own(type(value), "__name__"))
        if name not in ("NodeStates", "GraphDef") or not _is_nnx(value):
            return None
        try:
            if name == "GraphDef":
                return _Reading(value, self._shared, self._tokens).nodes(path, ()), []
            if len(value.states) != 1 or value.metadata is not None:
                return None
            reading = _Reading(value._graphdef, self._shared, self._tokens)  # noqa: SLF001
            nodes = reading.nodes(path, ("",))
            return nodes, list(_leaves(path, value.states[0], reading.slots))
        except (AttributeError, TypeError, UnknownGraphError, ValueError):
            return None


class _Reading:
    """Walks one graph definition, node by node."""

    def __init__(self, graph: Any, shared: dict[Any, str], tokens: Tokens) -> None:
        self._nodes: Iterator[Any] = iter(graph.nodes)
        self._attributes: Iterator[Any] = iter(graph.attributes)
        self._shared = shared
        self._tokens = tokens
        self.slots: list[str] = []
        """The paths of the visited variables and arrays, in order."""

    def nodes(self, path: str, of_variable: tuple[str, ...]) -> list[Node]:
        """The node at `path` and all nodes below it; `of_variable` are a variable's children."""
        definition = next(self._nodes, None)
        kind = type(definition).__name__
        if kind == "NodeRef":
            return [self._reference(path, definition)]
        if definition is None or kind not in ("NodeDef", "VariableDef"):
            raise UnknownGraphError
        if definition.index is not None:
            self._shared[definition.index] = path
        meta: list[tuple[str, Value]] = []
        if definition.outer_index is not None:
            meta.append(("outer_index", self._value(definition.outer_index)))
        if (own := _own_metadata(definition)) is not None:
            meta.append(("", self._value(own)))
        name = getattr(definition.type, "__name__", str(definition.type))
        made = CLASSES.of(definition.type) if isinstance(definition.type, type) else None
        if kind == "VariableDef":
            self.slots.append(path)
            return [Node(path, name, of_variable, tuple(meta), made)]
        labels: list[str] = []
        below: list[Node] = []
        for _ in range(definition.num_attributes):
            row: tuple[Any, Any] = next(self._attributes, (None, None))
            key, attribute = row
            label = _label(key)
            own_key = str(key).startswith(_BOOKKEEPING)
            match type(attribute).__name__:
                case "Static" if own_key:
                    pass
                case "Static":
                    meta.append((label.removeprefix("."), self._value(attribute.value)))
                case "NodeAttr" if own_key:
                    self.nodes(path + label, of_variable)
                case "NodeAttr":
                    labels.append(label)
                    below += self.nodes(path + label, of_variable)
                case "ArrayAttr" | "MutableArrayAttr":
                    labels.append(label)
                    self.slots.append(path + label)
                case "NodeRef":
                    labels.append(label)
                    below.append(self._reference(path + label, attribute))
                case _:
                    raise UnknownGraphError
        return [Node(path, name, tuple(labels), tuple(meta), made), *below]

    def _reference(self, path: str, reference: Any) -> Node:
        return Node(path, f"the same as {self._shared.get(reference.index, '?')}", ())

    def _value(self, value: object) -> Value:
        return snapshot(value, self._tokens.metadata)


def _is_nnx(value: object) -> bool:
    return type(value).__module__.startswith("flax.nnx")


def _own_metadata(definition: Any) -> Any:
    """The metadata of a definition besides its type and its attributes."""
    metadata: Any = definition.metadata
    if metadata is None or metadata is definition.type:
        return None
    if isinstance(metadata, tuple) and len(metadata) == 2:
        return metadata[1]  # a pytree from another library: its keys are the attributes
    entries: Any = getattr(metadata, "mapping", getattr(metadata, "_mapping", metadata))
    return dict(entries) if hasattr(entries, "items") else entries


def _label(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _leaves(path: str, state: Any, slots: list[str]) -> Iterator[Leaf]:
    """The arrays of a state, under the user's paths: `model.fc.kernel`."""
    if type(state) is list:
        values = zip(slots, cast(list[Any], state), strict=True)
    elif type(state).__name__ == "FlatState":
        paths = [path + "".join(map(_label, keys)) for keys in state.paths]
        values = zip(paths, state.leaves, strict=True)
    else:
        values = iter([(path, state)])
    for place, value in values:
        for keys, array in jax.tree_util.tree_flatten_with_path(value)[0]:
            names = [_name(key) for key in keys]
            if names and names[-1] in ("value", "raw_value"):
                names.pop()
            yield leaf(array, place + "".join(map(_label, names)))


def _name(key: Any) -> object:
    return next(
        (getattr(key, name) for name in ("key", "name", "idx") if hasattr(key, name)), key
    )

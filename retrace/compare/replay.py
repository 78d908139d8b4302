"""Turn an old key into the new one by the changes that were listed: the proof of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from retrace.compare.equality import class_of, value_of
from retrace.compare.tree import Arguments, field_path
from retrace.model import Change, Component, Key, Leaf, Miss, Node, Passing, Program, Value
from retrace.model.parts import named


def apply(changes: tuple[Change, ...], old: Miss) -> Miss:
    """The old miss with every change made to it; its key is then that of the new miss."""
    _, _, _, passing, _, _ = old.key
    values = {component: dict(own) for component, own in named(old.key)}
    signature = dict(passing)
    cells = {name: dict(getattr(old.function, name)) for name in ("closure", "bound", "defaults")}
    function, program = old.function, old.program
    arguments = _Arguments(old.key)
    for change in changes:
        path, new = change.path or "", cast(Any, change.new)
        match change.component:
            case Component.STATIC | Component.OPTIONS | Component.CONFIG:
                _put(values[change.component], path, new)
            case Component.CLOSURE:
                bound = "bound" in (new or cast(Any, change.old))
                _put(cells["bound" if bound else "closure"], path, new)
            case Component.DEFAULTS:
                _put(cells["defaults"], path, new)
            case Component.SIGNATURE:
                signature[path] = new
            case Component.FUNCTION:
                function = function._replace(object=new["object"])
            case Component.CODE:
                function = function._replace(code=new)
            case Component.PROGRAM:
                program = Program(new["hash"], new["equations"])
            case Component.TREE if _is_value(new) or _is_value(change.old):
                arguments.put_field(path, new)
            case Component.TREE:
                arguments.put(path, new)
            case Component.SHAPE:
                arguments.edit(path, shape=tuple(new))
            case Component.DTYPE | Component.WEAK_TYPE:
                arguments.edit(path, **{change.component.value: new})
            case Component.SHARDING:
                arguments.edit(path, **new)
    passed = {name: how for name, how in signature.items() if how != Passing.OMITTED}
    key = Key(
        leaves=tuple(arguments.leaves.values()),
        tree=tuple(arguments.nodes.values()),
        static=tuple(values[Component.STATIC].items()),
        signature=tuple(passed.items()),
        options=tuple(values[Component.OPTIONS].items()),
        config=tuple(values[Component.CONFIG].items()),
    )
    frozen = {name: tuple(values.items()) for name, values in cells.items()}
    return replace(old, key=key, function=function._replace(**frozen), program=program)


def _is_value(side: Any) -> bool:
    # A static field is written as a value, which has a text; a subtree has none.
    return isinstance(side, dict) and "text" in side


def _value(content: Any) -> Value:
    found = value_of(content)
    assert found is not None
    return found


def _put(values: dict[str, Value], name: str, new: Any) -> None:
    if new is None:
        values.pop(name, None)
    else:
        values[name] = _value(new)


class _Arguments(Arguments):
    def edit(self, path: str, **changed: Any) -> None:
        self.leaves[path] = self.leaves[path]._replace(**changed)

    def put(self, path: str, new: Any) -> None:
        for gone in self.below(path):
            self.nodes.pop(gone, None)
            self.leaves.pop(gone, None)
        self._insert(path, new)

    def put_field(self, path: str, new: Any) -> None:
        node, name = self._holder(path)
        meta = dict(node.meta)
        _put(meta, name, new)
        self.nodes[node.path] = node._replace(meta=tuple(meta.items()))

    def _holder(self, path: str) -> tuple[Node, str]:
        for node in self.nodes.values():
            for name, _ in node.meta:
                if field_path(node, name) == path:
                    return node, name
        if path in self.nodes:
            return self.nodes[path], ""
        node = max(
            (node for node in self.nodes.values() if path.startswith(f"{node.path}.")),
            key=lambda node: len(node.path),
        )
        return node, path[len(node.path) + 1 :]

    def _insert(self, path: str, content: Any) -> None:
        if content is None:
            return
        if "dtype" in content:
            self.leaves[path] = Leaf(path=path, **content | {"shape": tuple(content["shape"])})
            return
        meta = tuple((name, _value(value)) for name, value in content.get("meta", {}).items())
        made = class_of(content["class"]) if "class" in content else None
        node = Node(path, content["type"], tuple(content["children"]), meta, made)
        self.nodes[path] = node
        for label, child in content["children"].items():
            self._insert(path + label, child)

"""Apply the listed changes to the old key: if that gives the new key, they are complete."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from retrace.compare.equality import placement
from retrace.compare.tree import Arguments, field_path
from retrace.model import (
    Change,
    CodeChange,
    Component,
    DtypeChange,
    FieldChange,
    HeldChange,
    Key,
    Leaf,
    Miss,
    NamedChange,
    Node,
    ObjectChange,
    Passing,
    PassingChange,
    ProgramChange,
    SettingChange,
    ShapeChange,
    ShardingChange,
    Subtree,
    TreeChange,
    Value,
    WeakTypeChange,
)
from retrace.model.parts import by_kind, named


def apply(changes: tuple[Change, ...], old: Miss) -> Miss:
    """Apply every change to the old miss; the result must have the key of the new miss."""
    values = {component: dict(own) for component, own in named(old.key)}
    words = dict(old.key.signature)
    cells = {name: dict(getattr(old.function, name)) for name in ("closure", "bound", "defaults")}
    function, program = old.function, old.program
    arguments = _Arguments(old.key)
    for change in changes:
        match change:
            case NamedChange():
                _put(values[change.component], change.path, change.new)
            case HeldChange():
                held = "defaults" if change.component is Component.DEFAULTS else "closure"
                _put(cells["bound" if change.is_bound else held], change.path, change.new)
            case PassingChange():
                words[change.path] = change.new
            case ObjectChange():
                function = function._replace(object=change.new.object)
            case CodeChange():
                function = function._replace(code=change.new)
            case ProgramChange():
                program = change.new
            case FieldChange():
                arguments.put_field(change.path, change.new)
            case TreeChange():
                arguments.put(change.path, change.new)
            case ShapeChange() | DtypeChange() | WeakTypeChange() | ShardingChange():
                arguments.edit(change)
            case SettingChange():
                pass  # belongs to the process, not to the key
            case _:
                assert_never(change)
    passed = {name: how for name, how in words.items() if how != Passing.OMITTED}
    key = by_kind(
        old.key,
        arrays=lambda _: tuple(arguments.leaves.values()),
        containers=lambda _: tuple(arguments.nodes.values()),
        values=lambda row, _: tuple(values[row.component].items()),
        words=lambda _: tuple(passed.items()),
    )
    frozen = {name: tuple(values.items()) for name, values in cells.items()}
    return replace(old, key=Key(**key), function=function._replace(**frozen), program=program)


def _put(values: dict[str, Value], name: str, new: Value | None) -> None:
    if new is None:
        values.pop(name, None)
    else:
        values[name] = new


class _Arguments(Arguments):
    def edit(self, change: ShapeChange | DtypeChange | WeakTypeChange | ShardingChange) -> None:
        leaf = self.leaves[change.path]
        match change:
            case ShapeChange():
                leaf = leaf._replace(shape=change.new)
            case DtypeChange():
                leaf = leaf._replace(dtype=change.new)
            case WeakTypeChange():
                leaf = leaf._replace(weak_type=change.new)
            case ShardingChange():
                leaf = Leaf(*leaf[:4], *placement(change.new))
        self.leaves[change.path] = leaf

    def put(self, path: str, new: Subtree) -> None:
        for gone in self.below(path):
            self.nodes.pop(gone, None)
            self.leaves.pop(gone, None)
        for part in new:
            if isinstance(part, Node):
                self.nodes[part.path] = part
            else:
                self.leaves[part.path] = part

    def put_field(self, path: str, new: Value | None) -> None:
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

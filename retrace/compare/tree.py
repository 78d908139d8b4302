"""Walk the pytrees of two calls side by side, down to the first differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from retrace.compare.equality import identity
from retrace.model import Key, Leaf, Node, Subtree, Value
from retrace.model.row import Row

Part: TypeAlias = Node | Leaf | None
"""What is at a path: a container, an array, or nothing."""


class Arguments:
    """The dynamic arguments of a call, by path."""

    __slots__ = ("leaves", "nodes", "roots")

    def __init__(self, key: Key) -> None:
        self.nodes = {node.path: node for node in key.tree}
        self.leaves = {leaf.path: leaf for leaf in key.leaves}
        inner = {node.path + label for node in key.tree for label in node.children}
        outermost = [path for path in (*self.nodes, *self.leaves) if path not in inner]
        self.roots: tuple[str, ...] = tuple(dict.fromkeys(outermost))

    def at(self, path: str) -> Part:
        return self.nodes.get(path) or self.leaves.get(path)

    def below(self, path: str) -> set[str]:
        """All paths of the subtree at `path`, including `path`."""
        found: set[str] = set()
        waiting = [path]
        while waiting:
            path = waiting.pop()
            # In a recording that was tampered with, a node can be its own child.
            if path in found:
                continue
            found.add(path)
            if (node := self.nodes.get(path)) is not None:
                waiting += [path + label for label in node.children]
        return found

    def subtree(self, path: str) -> Subtree:
        """Everything at and below a path; empty if nothing is there."""
        found: dict[tuple[str, type], Node | Leaf] = {}
        waiting = [path]
        while waiting:
            path = waiting.pop()
            # The only child of a custom node may be unnamed and have the path of its parent. In
            # a recording that was tampered with, a node can be its own child.
            if (node := self.nodes.get(path)) is not None and (path, Node) not in found:
                found[path, Node] = node
                waiting += [path + label for label in reversed(node.children)]
            elif (leaf := self.leaves.get(path)) is not None:
                found[path, Leaf] = leaf
        return tuple(found.values())


class FieldDifference(Row):
    """A static field of a node whose values differ; None if the field is absent."""

    path: str
    name: str
    old: Value | None
    new: Value | None


class Differences:
    """What a walk over two trees found."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        """The paths of the topmost nodes that differ."""
        self.meta: list[FieldDifference] = []
        """Static fields that differ on nodes that are otherwise alike."""
        self.pairs: list[tuple[Leaf, Leaf]] = []
        """The leaves that both trees have, outside the differing nodes."""


def field_path(node: Node, name: str) -> str:
    """The path of a static field of a node."""
    return f"{node.path}.{name}" if name else node.path


def meta_differences(old: Node, new: Node) -> Iterable[FieldDifference]:
    """The static fields in which two nodes differ."""
    if old.meta is new.meta:
        return
    before, after = dict(old.meta), dict(new.meta)
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None or identity(a) != identity(b):
            yield FieldDifference(field_path(new, name), name, a, b)


def same_skeleton(old: Node, new: Node) -> bool:
    """Whether two nodes have the same class and children, ignoring static fields."""
    return old.type == new.type and old.children == new.children and old.made == new.made


def walk(old: Arguments, new: Arguments) -> Differences:
    """Compare two trees from their roots. A differing node stands for everything below it."""
    found = Differences()
    seen: set[str] = set()
    waiting = list(reversed(dict.fromkeys((*new.roots, *old.roots))))
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        before, after = old.at(path), new.at(path)
        if isinstance(before, Leaf) and isinstance(after, Leaf):
            found.pairs.append((before, after))
        elif (
            isinstance(before, Node) and isinstance(after, Node) and same_skeleton(before, after)
        ):
            found.meta += meta_differences(before, after)
            # The only child of a custom node may be unnamed and have the path of its parent.
            if path in old.leaves and path in new.leaves:
                found.pairs.append((old.leaves[path], new.leaves[path]))
            waiting += [path + label for label in reversed(after.children)]
        elif before is not None or after is not None:
            found.parts.append(path)
    return found

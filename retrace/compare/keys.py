"""All differences between two misses of one site, dimension by dimension.

A dimension is a function that takes two misses and returns their changes; `DIMENSIONS` lists
them in order. Changes outside JAX's cache key (closure, code, program) are listed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

from retrace.compare.equality import identity, placement, same_content
from retrace.compare.tree import Arguments, field_path, walk
from retrace.model import (
    Change,
    CodeChange,
    Component,
    DtypeChange,
    FieldChange,
    Function,
    HeldChange,
    Leaf,
    Leaves,
    Miss,
    NamedChange,
    Node,
    ObjectChange,
    Passing,
    PassingChange,
    ProgramChange,
    ShapeChange,
    ShardingChange,
    TreeChange,
    Value,
    ValueChange,
    WeakTypeChange,
    by_column,
)
from retrace.model.change import Changes
from retrace.model.parts import PASSED, SETTINGS, Named, named


def function_changes(
    a: Function, b: Function
) -> Iterator[ObjectChange | CodeChange | HeldChange]:
    """What differs between two function objects of one site, including their code."""
    if a is b:
        return
    if a.object != b.object:
        yield ObjectChange(a, b)
    if a.code != b.code:
        yield CodeChange(a.code, b.code)
    for name, old, new in _differing(a.closure, b.closure):
        yield HeldChange(Component.CLOSURE, name, old, new, _exact(old, new))
    for name, old, new in _differing(a.bound, b.bound):
        yield HeldChange(Component.CLOSURE, name, old, new, _exact(old, new), is_bound=True)
    for name, old, new in _differing(a.defaults, b.defaults):
        yield HeldChange(Component.DEFAULTS, name, old, new, _exact(old, new))


def read_changes(old: Function, new: Function) -> tuple[HeldChange, ...]:
    """The outside values that a function reads and that differ between two traces of it."""
    if old.reads == new.reads or old.code != new.code:
        return ()
    before, cells = dict(old.reads), {*dict(old.closure), *dict(new.closure)}
    # A value on one side only was beyond a limit, or not defined yet.
    known = tuple([(name, value) for name, value in new.reads if name in before])
    return tuple(
        [
            HeldChange(Component.CLOSURE, name, a, b, _exact(a, b), is_read=True)
            for name, a, b in _differing(old.reads, known)
            if b is not None and name not in cells
        ]
    )


def _function(old: Miss, new: Miss) -> Iterator[Change]:
    yield from function_changes(old.function, new.function)


def _named(old: Miss, new: Miss) -> Iterator[Change]:
    if old.key[2:] == new.key[2:]:  # all but arrays and containers: the case for most misses
        return
    for row in (*SETTINGS, *PASSED):
        for name, a, b in _differing(row.of(old.key), row.of(new.key)):
            change = NamedChange(row.component, name, a, b, _exact(a, b))
            yield _set_at(change, old, new) if row.of_jax else _passed(change, old, new)


def _set_at(change: NamedChange, old: Miss, new: Miss) -> NamedChange:
    sides = ((old, change.old), (new, change.new))
    before, after = [side and dict(miss.settings).get(change.path) for miss, side in sides]
    return change._replace(set_at=(before, after))


def _passed(change: NamedChange, old: Miss, new: Miss) -> NamedChange:
    # If the value passed is not the default, the value has changed as well.
    default = dict(new.function.defaults).get(change.path)
    other = new if change.new is None else old
    as_array = (change.old is None or change.new is None) and any(
        leaf.path == change.path for leaf in other.key.leaves
    )
    return change._replace(default=default and default.text, as_array=as_array)


def _signature(old: Miss, new: Miss) -> Iterator[Change]:
    if old.key.signature == new.key.signature:
        return
    before, after = dict(old.key.signature), dict(new.key.signature)
    for name in dict.fromkeys((*after, *before)):
        a = str(before.get(name, Passing.OMITTED))
        b = str(after.get(name, Passing.OMITTED))
        if a != b:
            yield PassingChange(name, a, b)


def _arguments(old: Miss, new: Miss) -> list[Change]:
    placed = not (old.nested or new.nested)
    if same_structure(old, new):
        return _leaves(by_column(old.key.leaves), by_column(new.key.leaves), placed)
    before, after = Arguments(old.key), Arguments(new.key)
    walked = walk(before, after)
    found: list[Change] = [
        TreeChange(path, before.subtree(path), after.subtree(path)) for path in walked.parts
    ]
    found += [FieldChange(path, a, b, _exact(a, b), name) for path, name, a, b in walked.meta]
    if old.key.leaves is not new.key.leaves:
        pairs = walked.pairs
        found += _leaves(Leaves([a for a, _ in pairs]), Leaves([b for _, b in pairs]), placed)
    return found


def _leaves(old: Leaves, new: Leaves, placed: bool) -> list[Change]:
    """What differs between leaves, one by one."""
    if old is new:
        return []
    sides = zip(new.paths, old.shapes, new.shapes, strict=True)
    found: list[Change] = [_shape_change(side) for side in sides if side[1] != side[2]]
    # Most leaves that differ at all differ only in shape.
    if old.others != new.others:
        pairs = [(a, b) for a, b in zip(old, new, strict=True) if a[2:] != b[2:]]
        changed = [change for a, b in pairs for change in _but_shape(a, b, placed)]
        found += sorted(changed, key=lambda change: _LEAF_ORDER[change.component])
    return found


_shape_change: Callable[[Iterable[object]], ShapeChange] = partial(
    cast(Any, tuple).__new__, ShapeChange
)
"""Same as calling the class, in a third of the time."""
_LEAF_ORDER = {Component.DTYPE: 1, Component.WEAK_TYPE: 2, Component.SHARDING: 3}


def _but_shape(
    old: Leaf, new: Leaf, placed: bool
) -> Iterator[DtypeChange | WeakTypeChange | ShardingChange]:
    path = new.path
    if old.dtype != new.dtype:
        yield DtypeChange(path, old.dtype, new.dtype)
    if old.weak_type != new.weak_type:
        yield WeakTypeChange(path, old.weak_type, new.weak_type)
    if placed and placement(old) != placement(new):
        yield ShardingChange(path, old, new)


def _program(old: Miss, new: Miss) -> Iterator[Change]:
    a, b = old.program, new.program
    if a is not None and b is not None and a.hash != b.hash:
        yield ProgramChange(a, b)


def _differing(old: Named, new: Named) -> Iterator[tuple[str, Value | None, Value | None]]:
    """The values that differ, by name; None if a side has no such value."""
    if old is new:
        return
    before, after = dict(old), dict(new)
    for name in dict.fromkeys((*after, *before)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None or identity(a) != identity(b):
            yield name, a, b


def _exact(old: Value | None, new: Value | None) -> bool:
    if old is None or new is None:
        return all(side.exact for side in (old, new) if side is not None)
    return old.exact and new.exact and not same_content(old, new)


Dimension: TypeAlias = Callable[[Miss, Miss], Iterable[Change]]

DIMENSIONS: tuple[Dimension, ...] = (
    _function,
    _named,
    _signature,
    _arguments,
    _program,
)

NOT_IN_KEY = frozenset(
    {
        Component.FUNCTION,
        Component.CODE,
        Component.CLOSURE,
        Component.DEFAULTS,
        Component.PROGRAM,
    }
)
"""Components that are listed but not part of the key (except the function object itself)."""


def changes(old: Miss, new: Miss) -> Changes:
    """Everything in which two misses of one site differ, most informative first."""
    found = Changes(chain.from_iterable([dimension(old, new) for dimension in DIMENSIONS]))
    replaced = [one.path for one in found if type(one) is TreeChange]
    if not replaced or all(one.component is not Component.STATIC for one in found):
        return found
    # An object of another class has other fields: that is no change of each of them.
    return Changes(
        one
        for one in found
        if type(one) is not NamedChange
        or one.component is not Component.STATIC
        or (one.old is not None and one.new is not None)
        or not any(_is_below(one.path, path) for path in replaced)
    )


def _is_below(path: str, other: str) -> bool:
    return path.startswith((f"{other}.", f"{other}["))


def same_structure(old: Miss, new: Miss) -> bool:
    """Whether the pytrees are the same down to the paths of their leaves."""
    a, b = old.key, new.key
    if a.tree is not b.tree and a.tree != b.tree and not _same_nodes(a.tree, b.tree):
        return False
    return a.leaves is b.leaves or by_column(a.leaves).paths == by_column(b.leaves).paths


def of_same_paths(old: Miss, new: Miss) -> set[Component]:
    """In what arrays of the same paths differ, also below nodes that differ themselves."""
    before = {leaf.path: leaf for leaf in old.key.leaves}
    pairs = [(before[leaf.path], leaf) for leaf in new.key.leaves if leaf.path in before]
    shapes = {Component.SHAPE} if any(a.shape != b.shape for a, b in pairs) else set[Component]()
    return shapes | ({Component.DTYPE} if any(a.dtype != b.dtype for a, b in pairs) else set())


def _same_nodes(old: tuple[Node, ...], new: tuple[Node, ...]) -> bool:
    # Equal tokens mean equal values, even if the text has changed since.
    return len(old) == len(new) and all(
        a.path == b.path
        and a.type == b.type
        and a.children == b.children
        and a.made == b.made
        and len(a.meta) == len(b.meta)
        and all(
            m == n and identity(v) == identity(w)
            for (m, v), (n, w) in zip(a.meta, b.meta, strict=True)
        )
        for a, b in zip(old, new, strict=True)
    )


def doubts(old: Miss, new: Miss) -> tuple[ValueChange, ...]:
    """Values that look the same on both sides but may have been unequal to JAX.

    They are not changes, but the last possible explanation of a miss whose key otherwise equals
    an earlier one.
    """
    found: list[ValueChange] = []
    for (component, a), (_, b) in zip(named(old.key), named(new.key), strict=True):
        before = dict(a)
        found += [
            NamedChange(component, name, before[name], v, False)
            for name, v in b
            if _unsure(before, name, v)
        ]
    metas = {field_path(node, name): v for node in old.key.tree for name, v in node.meta}
    for node in new.key.tree:
        for name, v in node.meta:
            if _unsure(metas, path := field_path(node, name), v):
                found.append(FieldChange(path, metas[path], v, False))
    return tuple(found)


def _unsure(before: dict[str, Value], name: str, new: Value) -> bool:
    return new.token is None and name in before and identity(before[name]) == identity(new)

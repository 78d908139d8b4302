"""All differences between two misses of one site, dimension by dimension.

A dimension is a function from two misses to its changes; `DIMENSIONS` is their
order. What JAX's cache key does not hold (closure, code, program) is listed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeAlias, cast

from retrace.compare import detail
from retrace.compare.equality import PLACEMENT, described, identity, placement, same_content
from retrace.compare.tree import Arguments, field_path, walk
from retrace.model import JSON, Change, Component, Dim, Function, Leaf, Miss, Node, Passing, Value
from retrace.model.parts import Named, named


def function_changes(a: Function, b: Function) -> Iterator[Change]:
    """What differs between two function objects of one site, their code included."""
    if a is b:
        return
    if a.object != b.object:
        text = f"a new {b.kind.value} object"
        if a.wrappers != b.wrappers:
            text += f", made by {' of '.join(b.wrappers) or 'nothing'}"
        yield Change(Component.FUNCTION, None, text, _object(a), _object(b), False)
    if a.code != b.code:
        known = a.code is not None and b.code is not None
        text = "the source was edited" if known else "the code object is not known on one side"
        yield Change(Component.CODE, None, text, a.code, b.code, known)
    yield from _held(Component.CLOSURE, a.closure, b.closure)
    for change in _held(Component.CLOSURE, a.bound, b.bound):
        yield change._replace(old=_marked(change.old), new=_marked(change.new))
    yield from _held(Component.DEFAULTS, a.defaults, b.defaults)


def read_changes(old: Function, new: Function) -> tuple[Change, ...]:
    """What a function reads from outside that differs between two traces of it."""
    if old.reads == new.reads or old.code != new.code:
        return ()
    before, cells = dict(old.reads), {*dict(old.closure), *dict(new.closure)}
    # What only one side has was beyond a bound, or was not defined yet.
    return tuple(
        [
            change
            for change in _values(
                Component.CLOSURE,
                old.reads,
                tuple([(name, value) for name, value in new.reads if name in before]),
            )
            if change.new is not None and change.path not in cells
        ]
    )


def _function(old: Miss, new: Miss) -> Iterator[Change]:
    yield from function_changes(old.function, new.function)


def _held(component: Component, old: Named, new: Named) -> Iterator[Change]:
    # Nobody asked `==` of them: JAX does not.
    return _values(component, old, new, unequal="another object")


def _object(function: Function) -> JSON:
    return {"name": function.qualname, "kind": function.kind.value, "object": function.object}


def _marked(side: JSON) -> JSON:
    # A bound value and a closure cell may have one name; the mark tells them apart.
    return None if side is None else {**cast(dict[str, JSON], side), "bound": True}


def _options(old: Miss, new: Miss) -> Iterator[Change]:
    yield from _values(Component.OPTIONS, old.key.options, new.key.options, "not given")


def _config(old: Miss, new: Miss) -> Iterator[Change]:
    for change in _values(Component.CONFIG, old.key.config, new.key.config, "not set"):
        sides = ((change.old, old), (change.new, new))
        a, b = (_with_place(side, miss, change.path) for side, miss in sides)
        yield change._replace(old=a, new=b)


def _with_place(side: JSON, miss: Miss, option: str | None) -> JSON:
    """What an option was, with the place that set it where that was seen."""
    site = dict(miss.settings).get(option or "")
    if side is None or site is None:
        return side
    return {**cast(dict[str, JSON], side), "set_at": {"file": site.file, "line": site.line}}


def _static(old: Miss, new: Miss) -> Iterator[Change]:
    # Of another value than the default, the value has changed as well.
    defaults = {
        name: f"omitted ({detail.short(value.text)})" for name, value in new.function.defaults
    }
    yield from _values(
        Component.STATIC,
        old.key.static,
        new.key.static,
        lambda name: defaults.get(name, "omitted"),
    )


def _signature(old: Miss, new: Miss) -> Iterator[Change]:
    if old.key.signature == new.key.signature:
        return
    before, after = dict(old.key.signature), dict(new.key.signature)
    for name in dict.fromkeys((*after, *before)):
        a = str(before.get(name, Passing.OMITTED))
        b = str(after.get(name, Passing.OMITTED))
        if a != b:
            yield Change(Component.SIGNATURE, name, f"{a} -> {b}", a, b, True)


def _arguments(old: Miss, new: Miss) -> list[Change]:
    placed = not (old.nested or new.nested)
    told: list[Change] = []
    if same_structure(old, new):
        pairs = list(zip(old.key.leaves, new.key.leaves, strict=True))
    else:
        before, after = Arguments(old.key), Arguments(new.key)
        found = walk(before, after)
        for path, a, b in found.parts:
            said = detail.structure(a, b)
            sides = before.content(path), after.content(path)
            whole = _known_whole(a) and _known_whole(b)
            told.append(Change(Component.TREE, path, said, *sides, whole))
        for path, name, a, b in found.meta:
            said = detail.value(a, b)
            if name:
                # `info['step']: 1 -> 2`, and `rate: 0.1 -> 0.2`
                said = f"static field {name}{'' if said.startswith(('.', '[')) else ': '}{said}"
            held = described(a), described(b)
            told.append(Change(Component.TREE, path, said, *held, _exact(a, b)))
        pairs = found.pairs
    if old.key.leaves is not new.key.leaves:
        # Most leaves of a site differ in their shape alone, where they differ at all.
        told += [
            _new_change((Component.SHAPE, b.path, *_shape_sides(a.shape, b.shape), True))
            for a, b in pairs
            if a.shape != b.shape
        ]
        rest = [(a, b) for a, b in pairs if a[2:] != b[2:]]
        changed = [change for a, b in rest for change in _but_shape(a, b, placed)]
        told += sorted(changed, key=lambda change: _LEAF_ORDER[change.component])
    return told


_new_change: Callable[[Iterable[object]], Change] = partial(cast(Any, tuple).__new__, Change)


@lru_cache(maxsize=4096)  # the leaves of a batch change together
def _shape_sides(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[str, JSON, JSON]:
    return detail.shape(old, new), list(old), list(new)


_LEAF_ORDER = {Component.DTYPE: 1, Component.WEAK_TYPE: 2, Component.SHARDING: 3}


def _but_shape(old: Leaf, new: Leaf, placed: bool) -> Iterator[Change]:
    path = new.path
    if old.dtype != new.dtype:
        said = f"{old.dtype} -> {new.dtype}"
        yield Change(Component.DTYPE, path, said, old.dtype, new.dtype, True)
    if old.weak_type != new.weak_type:
        said = "weak -> strong" if old.weak_type else "strong -> weak"
        yield Change(Component.WEAK_TYPE, path, said, old.weak_type, new.weak_type, True)
    if placed and placement(old) != placement(new):
        differing = [name for name in PLACEMENT if getattr(old, name) != getattr(new, name)]
        yield Change(
            Component.SHARDING,
            path,
            detail.placed(old, new),
            {name: getattr(old, name) for name in differing},
            {name: getattr(new, name) for name in differing},
            True,
        )


def _program(old: Miss, new: Miss) -> Iterator[Change]:
    a, b = old.program, new.program
    if a is not None and b is not None and a.hash != b.hash:
        said = f"{a.equations:,} -> {b.equations:,} equations"
        if a.equations == b.equations:
            said = f"another program of {b.equations:,} equations"
        before, after = ({"hash": side.hash, "equations": side.equations} for side in (a, b))
        yield Change(Component.PROGRAM, None, said, before, after, True)


def _values(
    component: Component,
    old: Named,
    new: Named,
    absent: str | Callable[[str], str] = "absent",
    unequal: str = detail.UNEQUAL,
) -> Iterator[Change]:
    if old is new:
        return
    before, after = dict(old), dict(new)
    for name in dict.fromkeys((*after, *before)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None or identity(a) != identity(b):
            word = absent if isinstance(absent, str) else absent(name)
            said = detail.value(a, b, word, unequal)
            yield Change(component, name, said, described(a), described(b), _exact(a, b))


def _exact(old: Value | None, new: Value | None) -> bool:
    if old is None or new is None:
        return all(side.exact for side in (old, new) if side is not None)
    return old.exact and new.exact and not same_content(old, new)


def _known_whole(part: Node | Leaf | None) -> bool:
    return not isinstance(part, Node) or all(value.exact for _, value in part.meta)


Dimension: TypeAlias = Callable[[Miss, Miss], Iterable[Change]]

DIMENSIONS: tuple[Dimension, ...] = (
    _function,
    _options,
    _config,
    _static,
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
"""What is listed but is no part of the key apart from the function object itself."""


def changes(old: Miss, new: Miss) -> tuple[Change, ...]:
    """Everything in which two misses of one site differ, the most telling first."""
    return tuple(chain.from_iterable(dimension(old, new) for dimension in DIMENSIONS))


def same_structure(old: Miss, new: Miss) -> bool:
    """Whether the pytrees are the same down to the paths of their leaves."""
    a, b = old.key, new.key
    if a.tree is not b.tree and a.tree != b.tree and not _same_nodes(a.tree, b.tree):
        return False
    return a.leaves is b.leaves or [x.path for x in a.leaves] == [x.path for x in b.leaves]


def _same_nodes(old: tuple[Node, ...], new: tuple[Node, ...]) -> bool:
    # Equal tokens make equal values even where the text has changed since.
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


def doubts(old: Miss, new: Miss) -> tuple[Change, ...]:
    """What looks the same on both sides but may have been unequal to JAX.

    These are no changes: they are the last explanation for a miss whose key is
    otherwise equal to an earlier one.
    """
    found: list[Change] = []
    for (component, a), (_, b) in zip(named(old.key), named(new.key), strict=True):
        before = dict(a)
        found += [
            _doubt(component, name, before[name], v) for name, v in b if _unsure(before, name, v)
        ]
    metas = {field_path(node, name): v for node in old.key.tree for name, v in node.meta}
    for node in new.key.tree:
        for name, v in node.meta:
            if _unsure(metas, path := field_path(node, name), v):
                found.append(_doubt(Component.TREE, path, metas[path], v))
    return tuple(found)


def _unsure(before: dict[str, Value], name: str, new: Value) -> bool:
    return new.token is None and name in before and identity(before[name]) == identity(new)


def _doubt(component: Component, path: str, old: Value, new: Value) -> Change:
    said = detail.value(old, new)
    return Change(component, path, said, described(old), described(new), False)

"""Words changes with the user's own names, and gives them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from retrace.compare.equality import PLACEMENT
from retrace.model import (
    JSON,
    CallSite,
    Change,
    Class,
    CodeChange,
    Component,
    DtypeChange,
    FieldChange,
    Function,
    HeldChange,
    Leaf,
    Miss,
    NamedChange,
    Node,
    ObjectChange,
    PassingChange,
    Program,
    ProgramChange,
    SettingChange,
    ShapeChange,
    ShardingChange,
    Subtree,
    TreeChange,
    Value,
    Verdict,
    WeakTypeChange,
)
from retrace.present.detail import detail
from retrace.present.view import View
from retrace.present.words import clean, count, listed, place, turned


def in_words(change: Change) -> str:
    """One change in words: `lr`: 0.1 -> 0.2."""
    text = turned(detail(change), 120)
    if change.path is None:
        return text
    return f"`{clean(change.path)}` ({text})" if text else f"`{clean(change.path)}`"


def change_fields(change: Change) -> dict[str, Any]:
    """One change as JSON."""
    old, new = json_sides(change)
    return {
        "component": change.component.value,
        "path": change.path,
        "detail": detail(change),
        "old": old,
        "new": new,
        "exact": change.exact,
    }


def json_sides(change: Change) -> tuple[JSON, JSON]:
    """Both sides of a change as JSON, complete enough to compare again; None if absent."""
    match change:
        case ShapeChange():
            return list(change.old), list(change.new)
        case ShardingChange():
            return _placements(change.old, change.new)
        case TreeChange():
            return _subtree(change.old), _subtree(change.new)
        case NamedChange():
            sides = zip((change.old, change.new), change.set_at, strict=True)
            old, new = [_setting(value, site) for value, site in sides]
            return old, new
        case HeldChange():
            old, new = _value(change.old), _value(change.new)
            if change.is_bound:
                # A bound value and a closure cell may have the same name; this separates them.
                old, new = [
                    None if side is None else side | {"bound": True} for side in (old, new)
                ]
            return old, new
        case FieldChange():
            return _value(change.old), _value(change.new)
        case ObjectChange():
            return _object(change.old), _object(change.new)
        case ProgramChange():
            return _program(change.old), _program(change.new)
        case DtypeChange() | WeakTypeChange() | PassingChange() | CodeChange() | SettingChange():
            return change.old, change.new
        case _:
            assert_never(change)


def _value(value: Value | None) -> dict[str, JSON] | None:
    if value is None:
        return None
    content: dict[str, JSON] = {
        "type": value.type,
        "text": value.text,
        "token": value.token,
        "exact": value.exact,
    }
    if value.data is not None:
        content["data"] = value.data
    if value.classes:
        content["classes"] = list(map(_class, value.classes))
    return content


def _setting(value: Value | None, site: CallSite | None) -> dict[str, JSON] | None:
    content = _value(value)
    if content is not None and site is not None:
        content["set_at"] = {"file": site.file, "line": site.line}
    return content


def _class(known: Class) -> dict[str, JSON]:
    content: dict[str, JSON] = {"name": known.name, "number": known.number}
    if known.file is not None or known.line is not None:
        content |= {"file": known.file, "line": known.line}
    return content


def _object(function: Function) -> dict[str, JSON]:
    return {"name": function.qualname, "kind": function.kind.value, "object": function.object}


def _program(program: Program) -> dict[str, JSON]:
    return {"hash": program.hash, "equations": program.equations}


def _placements(old: Leaf, new: Leaf) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The parts of two placements that differ."""
    differing = [name for name in PLACEMENT if getattr(old, name) != getattr(new, name)]
    before, after = ({name: getattr(leaf, name) for name in differing} for leaf in (old, new))
    return before, after


def _subtree(parts: Subtree) -> dict[str, JSON] | None:
    """A container with everything below it, or an array."""
    if not parts:
        return None
    nodes = {part.path: part for part in parts if isinstance(part, Node)}
    leaves = {part.path: part for part in parts if isinstance(part, Leaf)}
    return _part(parts[0].path, nodes, leaves, frozenset())


def _part(
    path: str, nodes: Mapping[str, Node], leaves: Mapping[str, Leaf], above: frozenset[str]
) -> dict[str, JSON] | None:
    node = nodes.get(path)
    if node is None or path in above:
        leaf = leaves.get(path)
        return None if leaf is None else _leaf(leaf)
    above |= {path}
    children = {label: _part(path + label, nodes, leaves, above) for label in node.children}
    content: dict[str, JSON] = {"type": node.type, "children": children}
    if node.made is not None:
        content["class"] = _class(node.made)
    if node.meta:
        content["meta"] = {name: _value(value) for name, value in node.meta}
    return content


def _leaf(leaf: Leaf) -> dict[str, JSON]:
    content: dict[str, JSON] = {
        "shape": list(leaf.shape),
        "dtype": leaf.dtype,
        "weak_type": leaf.weak_type,
    }
    return content | {name: getattr(leaf, name) for name in PLACEMENT}


def set_at(view: View, change: Change) -> tuple[str, ...]:
    """Where an option of the configuration was set, if known for either side."""
    if isinstance(change, NamedChange):
        old, new = change.set_at
        for site, text in ((new, "set at"), (old, "it was set at")):
            if site is not None:
                return (f"{text} {place(site.file, site.line, view.bases)}",)
    return ()


def all_of(verdict: Verdict) -> str:
    """The first two changes and the number of others, or an empty string."""
    return listed([in_words(change) for change in verdict.changes], 2, "more change")


def of_arrays(verdict: Verdict, component: Component) -> str:
    """The arrays in which one thing changed: "`x` is int32[3] (was int32[2])"."""
    own = [change for change in verdict.changes if change.component is component]
    texts: list[str] = []
    for change in own[:2]:
        old, new = sides(verdict, change)
        texts.append(f"`{clean(change.path or 'an argument')}` is {new} (was {old})")
    if len(own) > 2:
        texts.append(count(len(own) - 2, "more array"))
    return listed(texts) or "they differ"


def sides(verdict: Verdict, change: Change) -> tuple[str, str]:
    """Both sides of an array's change, as JAX writes its type."""
    old = None if verdict.nearest is None else leaf(verdict.nearest, change.path)
    new = leaf(verdict.miss, change.path)
    if old is None or new is None:
        before, after = json_sides(change)
        return clean(before), clean(after)
    return array(old), array(new)


def array(leaf: Leaf) -> str:
    """`weak int32[]`, `float32[3,4]`."""
    axes = ",".join(map(str, leaf.shape))
    return clean(f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}[{axes}]")


def leaf(miss: Miss, path: str | None) -> Leaf | None:
    """The array at a path of a miss."""
    return next((leaf for leaf in miss.key.leaves if leaf.path == path), None)

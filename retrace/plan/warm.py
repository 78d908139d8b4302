"""The calls that compile everything a run needed, and what a warm-up missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from retrace.causes import Cause
from retrace.model import Kind, Leaf, Miss, Node, ShapeChange, Verdict
from retrace.model.parts import passed


class Call(NamedTuple):
    """A call that compiles one program."""

    function: str
    file: str | None
    line: int | None
    arguments: str
    """Python source using `jax.ShapeDtypeStruct`; static values as recorded."""
    whole: bool
    """Whether it can be written as source: no containers of unknown classes, no objects."""
    misses: tuple[str, ...]


class Escape(NamedTuple):
    """A shape that was compiled after a warm-up of the function that did not include it."""

    miss: str
    function: str
    shapes: str
    nearest: str
    """The closest shape compiled before."""


class Warmth(NamedTuple):
    """What a warm-up has to call, and what it missed."""

    calls: tuple[Call, ...]
    escaped: tuple[Escape, ...]


def warmth(verdicts: Sequence[Verdict]) -> Warmth:
    """The calls for the outermost compiled programs, without duplicates."""
    calls: dict[tuple[object, ...], Call] = {}
    escaped: list[Escape] = []
    # For each function, how many programs each line compiled.
    lines: dict[str, Counter[object]] = {}
    for verdict in sorted(verdicts, key=lambda v: (v.miss.time, v.miss.number)):
        miss = verdict.miss
        if miss.parent is not None or miss.function.kind is Kind.OP or miss.raised is not None:
            continue
        arguments, whole = _arguments(miss)
        function = miss.function
        key = (function.site, arguments)
        if (known := calls.get(key)) is not None:
            calls[key] = known._replace(misses=(*known.misses, miss.id))
        else:
            calls[key] = Call(
                function.name, function.file, function.line, arguments, whole, (miss.id,)
            )
        compiled = lines.setdefault(function.site, Counter())
        if (one := _escape(verdict, compiled)) is not None:
            escaped.append(one)
        compiled[_line(miss)] += 1
    return Warmth(tuple(calls.values()), tuple(escaped))


_MIN_PROGRAMS = 3
"""Minimum number of programs of one function for a line to look like its warm-up."""


def _escape(verdict: Verdict, lines: Counter[object]) -> Escape | None:
    """The shape that another line compiled after a warm-up of the function, if any."""
    near = verdict.nearest
    if verdict.cause is not Cause.SHAPE_CHANGED or near is None:
        return None
    if not any(n >= _MIN_PROGRAMS for line, n in lines.items() if line != _line(verdict.miss)):
        return None
    changes = [c for c in verdict.changes if isinstance(c, ShapeChange)]
    if not changes:
        return None
    return Escape(
        verdict.miss.id,
        verdict.miss.function.name,
        ", ".join(f"{change.path} {list(change.new)}" for change in changes[:3]),
        ", ".join(str(list(change.old)) for change in changes[:3]),
    )


def _line(miss: Miss) -> object:
    site = miss.call_site
    return None if site is None else (site.file, site.line)


def _arguments(miss: Miss) -> tuple[str, bool]:
    key = miss.key
    nodes = {node.path: node for node in key.tree}
    leaves = {leaf.path: leaf for leaf in key.leaves}
    static = dict(passed(key))
    said: list[str] = []
    whole = True
    named = {**dict(key.signature), **dict.fromkeys(static, "keyword")}
    for name, passing in named.items():
        if passing == "omitted":
            continue
        if name in static:
            value = static[name]
            text, known = value.text, value.type in _PLAIN
        else:
            text, known = _tree(name, nodes, leaves)
        whole = whole and known
        said.append(text if passing == "positional" and name not in static else f"{name}={text}")
    if not named:
        parts = [_leaf(leaf) for leaf in key.leaves]
        return ", ".join(parts), True
    return ", ".join(said), whole


_PLAIN = ("int", "float", "bool", "str", "NoneType", "tuple")


def _tree(path: str, nodes: dict[str, Node], leaves: dict[str, Leaf]) -> tuple[str, bool]:
    if (leaf := leaves.get(path)) is not None:
        return _leaf(leaf), True
    node = nodes.get(path)
    if node is None:
        return "...", False
    parts = [_tree(path + label, nodes, leaves) for label in node.children]
    texts = [text for text, _ in parts]
    whole = all(known for _, known in parts)
    match node.type:
        case "dict":
            pairs = zip(node.children, texts, strict=True)
            return "{" + ", ".join(f"{label[1:-1]}: {text}" for label, text in pairs) + "}", whole
        case "list":
            return f"[{', '.join(texts)}]", whole
        case "tuple":
            return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})", whole
        case "NoneType":
            return "None", True
        case _:
            return f"<{node.type}>", False


def _leaf(leaf: Leaf) -> str:
    weak = ", weak_type=True" if leaf.weak_type else ""
    shape = f"({', '.join(map(str, leaf.shape))}{',' if len(leaf.shape) == 1 else ''})"
    return f"jax.ShapeDtypeStruct({shape}, {leaf.dtype!r}{weak})"

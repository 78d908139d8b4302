"""What to do about Python values in the key: static arguments, and the static data of trees."""

from __future__ import annotations

from retrace.compare.detail import type_name
from retrace.model import Change, Component, Fix
from retrace.reason.avoidable import looks_equal
from retrace.reason.evidence import (
    Evidence,
    is_function,
    is_number,
    is_numeric,
    listed,
    package_of,
    part,
    paths,
)
from retrace.reason.fields import field_changes


def static_argument(evidence: Evidence) -> Fix:
    """What to do where a static argument has another value."""
    own = [change for change in evidence.changes if change.component is Component.STATIC]
    advised = _static_argument(evidence, own)
    named = [change for change in own if f"`{change.path}`" in advised.text]
    rest = tuple(change for change in own if change not in named)
    others = listed(paths(rest, Component.STATIC))
    return (
        advised._replace(text=f"{advised.text[:-1]}; {others} changed too.")
        if others
        else advised
    )


def _static_argument(evidence: Evidence, own: list[Change]) -> Fix:
    name = listed([own[0].path] if own else [])
    types = [str(part(side, "type")) for change in own[:1] for side in (change.old, change.new)]
    if own and "nan" in (part(own[0].new, "text"), part(own[0].old, "text")):
        text = f"pass one NaN object as {name} (`math.nan`), or None where it stands for nothing."
        return Fix("compare-by-value", text)
    if own and is_function(own[0]):
        text = f"make {name} once, outside the loop, and pass that same object at every call."
        if evidence.miss.function.in_library:
            where = package_of(evidence.miss.function.file)
            text = f"{text[:-1]}; where {where} makes it, report it there."
        return Fix("reuse-object", text)
    if own and looks_equal(own[0]):
        type_ = type_name(part(own[0].new, "type"))
        text = (
            f"pass one and the same `{type_}` as {name}, or give the class an `__eq__` and a "
            "`__hash__` by value, as a frozen dataclass has."
        )
        return Fix("compare-by-value", text)
    if len(set(types)) > 1 and all(map(is_number, types)):
        kind = "a Python int" if "int" in types else "one type"
        return Fix("one-static-type", f"pass {name} as {kind} at every call.")
    if not any(map(is_number, types)):
        if (unused := _unused_fields(evidence, own)) is not None:
            return unused
        text = f"keep {name} to a few values: JAX compiles a program for each."
        return Fix("few-values", text)
    numbers = [change.path for change in own if is_number(str(part(change.new, "type")))]
    an_array, it = ("an array", "it") if len(numbers) < 2 else ("arrays", "them")
    text = (
        f"pass {listed(numbers) or name} as {an_array} if no shape depends on {it}; else keep "
        "to a few values."
    )
    return Fix("static-to-dynamic", text)


def _unused_fields(evidence: Evidence, own: list[Change]) -> Fix | None:
    """What to do about fields of a static argument that no program depends on."""
    if evidence.program is None or evidence.program.kind != "identical":
        return None
    found = [change.path for one in own for change in field_changes(one)]
    if not found or len(own) != 1:
        return None
    named = listed(found)
    text = (
        f"leave {named} out of the static `{own[0].path}`, in a dataclass by "
        "`field(compare=False)`: the program is the same without."
    )
    return Fix("leave-out-field", text)


def tree_structure(evidence: Evidence) -> Fix:
    """What to do where the arguments are built otherwise, or hold other static data."""
    own = [change for change in evidence.changes if change.component is Component.TREE]
    first = own[0]
    name = listed([first.path])
    if part(first.new, "text") is not None:
        if looks_equal(first):
            return Fix("reuse-object", f"make {name} once and put the same object in each time.")
        parts = field_changes(first) or (first,)
        name = listed([part.path for part in parts])
        kind = None if evidence.program is None else evidence.program.kind
        if kind in ("different", "repeated", "shapes-only"):
            text = f"keep {name} the same between calls: its program depends on it."
            return Fix("one-structure", text)
        if all(map(is_numeric, parts)):
            it = "it" if len(parts) == 1 else "them"
            an_array = "an array, a leaf" if len(parts) == 1 else "arrays, leaves"
            text = (
                f"make {name} {an_array} of its tree, if no shape depends on {it}; else keep "
                f"{it} the same between calls."
            )
            return Fix("static-to-dynamic", text)
        return Fix("one-structure", f"keep {name} the same between calls.")
    if "None" in first.detail:
        return Fix("one-structure", f"give {name} an array at every call, in place of None.")
    return Fix("one-structure", f"give {name} the same structure at every call.")

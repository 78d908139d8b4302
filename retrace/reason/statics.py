"""What to do about Python values in the key: static arguments, and the static data of trees."""

from __future__ import annotations

import re

from retrace.compare.detail import type_name
from retrace.model import Change, Component, Fix
from retrace.reason.avoidable import is_remade, looks_equal
from retrace.reason.evidence import (
    Evidence,
    is_another_function,
    is_function,
    is_number,
    is_numeric,
    listed,
    package_of,
    part,
    paths,
)
from retrace.reason.fields import field_changes, held_functions
from retrace.reason.values import is_amount

_BY_IDENTITY = re.compile(r".*#\d+")
"""The token of an object that is equal to itself alone."""


def static_argument(evidence: Evidence) -> Fix:
    """What to do where a static argument has another value."""
    own = [change for change in evidence.changes if change.component is Component.STATIC]
    if (once := _define_once(own)) is not None:
        return once
    if (unused := _unused(evidence, own, "the static arguments")) is not None:
        return unused
    advised = _static_argument(evidence, own)
    named = [change for change in own if f"`{change.path}" in advised.text]
    rest = tuple(change for change in own if change not in named)
    others = listed(paths(rest, Component.STATIC))
    return (
        advised._replace(text=f"{advised.text[:-1]}; {others} changed too.")
        if others
        else advised
    )


def _static_argument(evidence: Evidence, own: list[Change]) -> Fix:
    first = own[0]
    name = listed([first.path])
    types = [str(part(side, "type")) for side in (first.old, first.new)]
    if "nan" in (part(first.new, "text"), part(first.old, "text")):
        text = f"pass one NaN object as {name} (`math.nan`), or None where it stands for nothing."
        return Fix("compare-by-value", text)
    if is_another_function(first):
        text = f"keep {name} to a few functions, each made once: JAX compiles a program for each."
        return Fix("few-values", text)
    if is_function(first) and (parts := field_changes(first)):
        return _holds_other(name, parts)
    if is_function(first) and _differs(evidence):
        text = (
            f"{name} is a new function of the same code, and makes another program: it holds "
            "something else. Make one for each and use it again, or pass what differs."
        )
        return Fix("pass-held", text)
    if is_function(first):
        text = f"make {name} once, outside the loop, and pass that same object at every call."
        if evidence.miss.function.in_library:
            where = package_of(evidence.miss.function.file)
            text = f"{text[:-1]}; where {where} makes it, report it there."
        return Fix("reuse-object", text)
    if looks_equal(first):
        type_ = type_name(part(first.new, "type"))
        text = f"pass one and the same `{type_}` as {name}"
        if held := held_functions(first):
            text += f"; one that is made again needs the same object as {listed(held)} too, and"
            return Fix("compare-by-value", f"{text} an `__eq__` and a `__hash__` by value.")
        text += ", or give the class an `__eq__` and a `__hash__` by value, as a frozen"
        return Fix("compare-by-value", f"{text} dataclass has.")
    if len(set(types)) > 1 and all(map(is_number, types)):
        kind = "a Python int" if "int" in types else "one type"
        if "bool" in types:
            kind = "a Python bool"
        return Fix("one-static-type", f"pass {name} as {kind} at every call.")
    shapes = evidence.program is not None and evidence.program.kind == "shapes-only"
    found = [change for each in own for change in (field_changes(each) or (each,))]
    name, it = listed([change.path for change in found]), "it" if len(found) == 1 else "them"
    calls_back = evidence.program is not None and evidence.program.calls_back
    if shapes or calls_back or not all(map(is_amount, found)):
        why = f"shapes depend on {it}" if shapes else "JAX compiles a program for each"
        return Fix("few-values", f"keep {name} to a few values: {why}.")
    an_array = "an array" if len(found) == 1 else "arrays"
    text = f"pass {name} as {an_array} if no shape depends on {it}; else keep to a few values."
    return Fix("static-to-dynamic", text)


def _holds_other(name: str, parts: tuple[Change, ...]) -> Fix:
    """What to do about a function made again over other values."""
    held = listed([str(part.path).rpartition(".")[2] for part in parts])
    text = (
        f"{name} is a new function over another {held}: make one for each and use it again, or "
        f"pass {held} as an argument."
    )
    return Fix("pass-held", text)


def _differs(evidence: Evidence) -> bool:
    """Whether the programs are known to differ: then the values are not the same."""
    return evidence.program is not None and evidence.program.kind not in (None, "identical")


def _unused(evidence: Evidence, own: list[Change], where: str) -> Fix | None:
    """What to do about values of which two make the same program."""
    if evidence.program is None or evidence.program.kind != "identical":
        return None
    if any(is_function(change) or looks_equal(change) for change in own):
        return None
    found = [change for each in own for change in (field_changes(each) or (each,))]
    # What was left out, or None, is no other type of the same.
    types = [
        {str(part(side, "type")) for side in (c.old, c.new) if side is not None} - {"NoneType"}
        for c in own
    ]
    if any(len(both) > 1 for both in types):
        if all(map(is_number, set[str]().union(*types))):
            return None
        named = listed([change.path for change in own])
        return Fix("one-static-type", f"pass {named} as one type at every call.")
    it = "it" if len(found) == 1 else "them"
    text = (
        f"leave {listed([change.path for change in found])} out of {where} unless "
        f"`{evidence.miss.function.name}` reads {it}: the program is the same for both values"
    )
    equal = [str(part(side, "token")) for change in own for side in (change.old, change.new)]
    if all(map(_BY_IDENTITY.fullmatch, equal)):
        type_ = type_name(part(own[0].new, "type"))
        text += f"; and give `{type_}` an `__eq__` and a `__hash__` by value"
    return Fix("leave-out", f"{text}.")


def _define_once(own: list[Change]) -> Fix | None:
    """What to do where nothing changed but the class of a value or a node."""
    names = [type_name(name).rpartition(".")[2] for name in map(is_remade, own) if name]
    if not own or len(names) < len(own):
        return None
    text = (
        f"define {listed(list(dict.fromkeys(names)))} once, in a place that does not run again "
        "(a module, a cell of its own): to JAX each definition is another class."
    )
    return Fix("define-once", text)


def tree_structure(evidence: Evidence) -> Fix:
    """What to do where the arguments are built otherwise, or hold other static data."""
    own = [change for change in evidence.changes if change.component is Component.TREE]
    if (once := _define_once(own)) is not None:
        return once
    first = own[0]
    name = listed([first.path])
    if part(first.new, "text") is None:
        if "None" in first.detail:
            text = f"give {name} an array at every call, in place of None."
            return Fix("one-structure", text)
        return Fix("one-structure", f"give {name} the same structure at every call.")
    equal = [change.path for change in own if looks_equal(change)]
    if equal and _differs(evidence):
        text = (
            f"{listed(equal)} looks the same and makes another program: it holds something else. "
            "Make one for each and put the same object in each time."
        )
        return Fix("pass-held", text)
    is_same = evidence.program is not None and evidence.program.kind == "identical"
    if not equal and is_same and held_functions(first):
        equal = [first.path]  # whatever else it holds, one object does for both
    if equal:
        them = "the same object" if len(equal) == 1 else "the same objects"
        return Fix("reuse-object", f"make {listed(equal)} once and put {them} in each time.")
    if is_function(first) and (parts := field_changes(first)):
        return _holds_other(name, parts)
    parts = field_changes(first) or (first,)
    name = listed([part.path for part in parts])
    kind = None if evidence.program is None else evidence.program.kind
    if kind in ("different", "repeated", "shapes-only"):
        text = f"keep {name} the same between calls: its program depends on it."
        return Fix("one-structure", text)
    types = {str(part(side, "type")) for side in (first.old, first.new)}
    if all(map(is_numeric, parts)) and all(type_.startswith("optax.") for type_ in types):
        text = (
            f"make `{first.path}` once with `optax.inject_hyperparams`, which keeps {name} as an "
            "array in the optimizer's state, and set it there."
        )
        return Fix("inject-hyperparams", text)
    if all(map(is_numeric, parts)):
        it = "it" if len(parts) == 1 else "them"
        an_array = "an array, a leaf" if len(parts) == 1 else "arrays, leaves"
        text = (
            f"make {name} {an_array} of its tree, if no shape depends on {it}; else keep "
            f"{it} the same between calls."
        )
        return Fix("static-to-dynamic", text)
    if (unused := _unused(evidence, own, "the tree's static data")) is not None:
        return unused
    return Fix("one-structure", f"keep {name} the same between calls.")

"""Whether a miss need not have been."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, cast

from retrace.causes import Cause
from retrace.compare.detail import EQUAL_FIELDS
from retrace.compare.equality import remade, same_content, value_of
from retrace.compare.keys import NOT_IN_KEY
from retrace.compare.outputs import same_but_inputs, unused_inputs
from retrace.model import Change, Component, Dim, Kind, Leaf, Miss, is_cut
from retrace.reason import rules, values
from retrace.reason.evidence import grown
from retrace.reason.program import Comparison
from retrace.reason.weak import keeps_types
from retrace.reason.weights import are_multiplied

Avoidable: TypeAlias = Literal["yes", "no", "maybe"]


def avoidable(
    cause: Cause, miss: Miss, changes: tuple[Change, ...], program: Comparison | None
) -> Avoidable:
    """Whether the fix of the cause was seen to work and applies to this miss."""
    if cause is Cause.FIRST_TRACE:
        return "no"
    if _is_meant(cause, changes):
        return "maybe"
    wasted = program is not None and program.is_wasted
    if miss.function.in_library and is_new_as_well(cause, miss, changes):
        return "maybe"
    if of_library(cause, miss) and (miss.nested or not wasted):
        return "maybe"
    if wasted:
        return "yes"
    if (decided := values.avoidable(cause, changes, program)) is not None:
        return decided
    if cause in rules.OF_FUNCTION:
        return _made_again(cause, changes, program)
    return _by_key(cause, miss, changes, program)


def _made_again(
    cause: Cause, changes: tuple[Change, ...], program: Comparison | None
) -> Avoidable:
    """Of a function object that is new, and whose program is another one."""
    if cause is Cause.SOURCE_CHANGED:
        return "no"
    # The same function made again is wasted; one made over other values needs
    # them as arguments, which is not always possible.
    differing = (Component.CLOSURE, Component.DEFAULTS)
    if any(change.component in differing for change in changes):
        return "maybe"
    # With nothing else changed, another program comes from a global that it reads.
    return "yes" if program is None else "maybe"


def _by_key(
    cause: Cause, miss: Miss, changes: tuple[Change, ...], program: Comparison | None
) -> Avoidable:
    """Of a part of the key that changed, where the program is another one."""
    match cause:
        case Cause.CACHE_CLEARED:
            return "yes"
        case Cause.CONTROL_FLOW_RECREATED:
            # Jitted around, a loop of another length or another body is another program too.
            shared = program is None or program.kind is None or _takes_numbers(changes, program)
            return "yes" if shared else "maybe"
        case Cause.CALL_SIGNATURE_CHANGED:
            # Of `*rest` and `**options`, more or fewer arguments may be meant.
            own = [change for change in changes if change.component is Component.SIGNATURE]
            meant = any("[" in (change.path or "") for change in own)
            more = meant or _is_more(changes) or stands_for_none(miss, changes)
            return "maybe" if more else "yes"
        case Cause.WEAK_TYPE_CHANGED:
            return "yes" if keeps_types(program) else "maybe"
        case Cause.SHAPE_CHANGED:
            if are_unused(miss, changes, program):
                return "yes"
            rightly = another_model(miss, changes) and are_multiplied(miss, changes, program)
            return "no" if rightly else "maybe"
        case Cause.STATIC_ARGUMENT_CHANGED | Cause.TREE_STRUCTURE_CHANGED:
            own = [c for c in rules.in_key(changes) if c.component is not Component.SIGNATURE]
            same = program is None or program.kind in (None, "identical")
            return "yes" if same and own and all(map(looks_equal, own)) else "maybe"
        case _:
            return "maybe"


def _is_meant(cause: Cause, changes: tuple[Change, ...]) -> bool:
    """Whether two programs may well be what the user wants: one that donates, one a device."""
    if cause is Cause.JIT_OPTIONS_CHANGED:
        return True
    own = [change for change in changes if change.component is Component.SHARDING]
    # Placed from the second call on, the first may have been placed as well.
    return cause is Cause.SHARDING_CHANGED and not all(
        "uncommitted -> committed" in change.detail or "open ->" in change.detail
        for change in own
    )


def is_new_as_well(cause: Cause, miss: Miss, changes: tuple[Change, ...]) -> bool:
    """Whether the function object is another one too: a mended key would miss all the same."""
    return (
        miss.function.kind is not Kind.OP
        and cause not in rules.OF_FUNCTION
        and any(change.component is Component.FUNCTION for change in changes)
    )


def another_model(miss: Miss, changes: tuple[Change, ...]) -> bool | None:
    """Whether parameters have other shapes: layers of another width, and nothing to pad.

    Of data, one size is that of the first axis everywhere, or of a later axis everywhere. Of
    parameters, what one layer gives is the last axis of its kernel, and the first of its bias
    or of the next kernel.

    Returns:
        True where that is so within one argument, False where only several arguments together
        look like it, and None where they do not.
    """
    own = [change for change in changes if change.component is Component.SHAPE]
    first: dict[tuple[Dim, Dim], set[str]] = {}
    later: dict[tuple[Dim, Dim], set[str]] = {}
    for change in own:
        old, new = cast(list[Dim], change.old), cast(list[Dim], change.new)
        if len(old) != len(new):
            return None
        differing = [
            (axis, pair)
            for axis, pair in enumerate(zip(old, new, strict=True))
            if len({*pair}) > 1
        ]
        at_first = {pair for axis, pair in differing if axis == 0}
        for axis, pair in differing:
            if axis == 0:
                first.setdefault(pair, set()).add(change.path or "")
            elif pair not in at_first:
                later.setdefault(pair, set()).add(change.path or "")
    floats = ("float", "bfloat", "complex")
    if not all(leaf.dtype.startswith(floats) for leaf in _changed(miss, own)):
        return None
    crossing = [(first[pair], later[pair]) for pair in first.keys() & later.keys()]
    if not crossing:
        return None
    return any({*map(_root, a)} & {*map(_root, b)} for a, b in crossing)


def _root(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _changed(miss: Miss, own: list[Change]) -> list[Leaf]:
    paths = {change.path for change in own}
    return [leaf for leaf in miss.key.leaves if leaf.path in paths]


def unused(miss: Miss, program: Comparison | None) -> list[str]:
    """The paths of the arrays that no equation of the program takes."""
    listings = None if program is None else program.listings()
    if program is None or listings is None:
        return []
    listing, leaves = listings[1], miss.key.leaves
    first = len(listing.inputs) - len(leaves)  # before them stand the captured arrays
    if first != len(listing.constants) and first != 0:
        return []
    found = sorted(unused_inputs(listing, program.texts))
    return [leaves[index - first].path for index in found if index >= first]


def are_unused(miss: Miss, changes: tuple[Change, ...], program: Comparison | None) -> bool:
    """Whether all that changed are arrays that the program does not use, not even their sizes."""
    own = {change.path for change in rules.in_key(changes)}
    if not own or not own <= set(unused(miss, program)):
        return False
    listings = None if program is None else program.listings()
    if program is None or listings is None:
        return False
    return same_but_inputs(*listings, program.texts)


def stands_for_none(miss: Miss, changes: tuple[Change, ...]) -> list[str]:
    """The parameters that one call gave an array, and another left out, which are None then."""
    none = {name for name, default in miss.function.defaults if default.text == "None"}
    return [
        change.path
        for change in changes
        if change.component is Component.TREE and change.path is not None and change.path in none
    ]


def of_library(cause: Cause, miss: Miss) -> bool:
    """Whether a library's own function was made anew, and not by the user's line.

    Whether the user holds what it is made from, or the library keeps it to itself,
    cannot be seen.
    """
    if not miss.function.in_library or cause not in rules.OF_FUNCTION:
        return False
    site = miss.call_site
    # `jax.jit(svi.update)(...)`: where no library stands between, the user's line called it.
    direct = miss.lines is not None and miss.through is None
    return miss.nested or not direct or site is None or site.in_library


def wrapped_by(
    cause: Cause, miss: Miss, nearest: Miss | None, changes: tuple[Change, ...]
) -> str | None:
    """The package that wrapped and jitted the user's function anew, as it does at each call.

    However its arguments are passed, a new wrapper misses. What a library's object does that the
    user calls itself, as of `eqx.filter_jit`, is the user's: there he holds what is jitted.
    """
    is_new = cause in rules.OF_FUNCTION or is_new_as_well(cause, miss, changes)
    if miss.via is None or nearest is None or not is_new or miss.via.endswith("__call__"):
        return None
    old, new = nearest.function, miss.function
    if new.kind is not Kind.TRANSFORM or not new.base or new.base != (old.base or old.object):
        return None
    return miss.via.partition(":")[0]


def _takes_numbers(changes: tuple[Change, ...], program: Comparison) -> bool:
    """Whether all that changed in the program is a number that the body holds."""
    held = [change for change in changes if change.component is Component.CLOSURE]
    return program.kind == "constants-only" and values.are_constants(held, program)


def _is_more(changes: tuple[Change, ...]) -> bool:
    """Whether a call that is written otherwise has other arrays as well."""
    passing = (Component.SIGNATURE, Component.STATIC, Component.TREE)
    return any(change.component not in passing for change in rules.in_key(changes))


def partial_batch(miss: Miss, nearest: Miss | None, changes: tuple[Change, ...]) -> bool:
    """Whether nothing but a leading axis became shorter, in one loop: the end of a data set?

    Through a helper, an evaluation set comes from another line than the training set.
    """
    if nearest is None:
        return False
    lines = [
        one.lines or (one.call_site and (one.call_site.file, one.call_site.line))
        for one in (miss, nearest)
    ]
    if len(set(lines)) > 1:
        return False
    size: tuple[Dim, Dim] | None = None
    for change in changes:
        if change.component is not Component.SHAPE:
            if change.component in NOT_IN_KEY:
                continue
            return False
        old, new = cast(list[Dim], change.old), cast(list[Dim], change.new)
        if not old or len(old) != len(new) or new[0] == 0 or old[1:] != new[1:]:
            return False
        if (grown(old[0], new[0]) or 0) >= 0 or size not in (None, (old[0], new[0])):
            return False
        size = old[0], new[0]
    return size is not None


def looks_equal(change: Change) -> bool:
    """Whether the two sides have one content, and only their own `==` tells them apart."""
    if is_remade(change):
        return False
    return EQUAL_FIELDS in change.detail or (
        not change.exact and _content(change.old) == _content(change.new) is not None
    )


def is_remade(change: Change) -> str | None:
    """The class that was defined again, where nothing else tells the two sides apart."""
    sides = [cast(dict[str, Any], s) for s in (change.old, change.new) if isinstance(s, dict)]
    if len(sides) < 2:
        return None
    old, new = sides
    if "text" not in new:
        a, b = old.get("class"), new.get("class")
        if a is None or b is None or a["name"] != b["name"] or a == b:
            return None
        return str(b["name"]) if list(old["children"]) == list(new["children"]) else None
    a, b = value_of(old), value_of(new)
    if a is None or b is None or not same_content(a, b):
        return None
    known = remade(a, b)
    return known and known.name


def _content(side: object) -> object:
    if not isinstance(side, dict) or "text" not in side:
        return None
    value = cast(dict[str, Any], side)
    if is_cut(value.get("data"), value["text"], exact=value["exact"]):
        return None
    return (value["type"], value["text"], repr(value.get("data")))

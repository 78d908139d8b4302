"""What the changes of a miss look like, where that tells whether it need not have been."""

from __future__ import annotations

from typing import Any, cast

from retrace.causes import OF_FUNCTION, Cause
from retrace.compare.equality import remade, same_content, value_of
from retrace.compare.keys import NOT_IN_KEY
from retrace.compare.outputs import same_but_inputs
from retrace.model import Change, Component, Dim, Kind, Leaf, Miss, is_cut
from retrace.reason import rules
from retrace.reason.evidence import grown, root
from retrace.reason.program import Comparison


def is_new_as_well(cause: Cause, miss: Miss, changes: tuple[Change, ...]) -> bool:
    """Whether the function object is another one too: a mended key would miss all the same."""
    return (
        miss.function.kind is not Kind.OP
        and cause not in OF_FUNCTION
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
        leading = None
        for axis, pair in enumerate(zip(old, new, strict=True)):
            if pair[0] == pair[1] or pair == leading:
                continue
            if axis == 0:
                leading = pair
            (later if axis else first).setdefault(pair, set()).add(change.path or "")
    crossing = [(first[pair], later[pair]) for pair in first.keys() & later.keys()]
    if not crossing:
        return None
    floats = ("float", "bfloat", "complex")
    if not all(leaf.dtype.startswith(floats) for leaf in _changed(miss, own)):
        return None
    return any({*map(root, a)} & {*map(root, b)} for a, b in crossing)


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
    return [leaves[at - first].path for at in sorted(program.unused) if at >= first]


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
    if not miss.function.in_library or cause not in OF_FUNCTION:
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
    is_new = cause in OF_FUNCTION or is_new_as_well(cause, miss, changes)
    if miss.via is None or nearest is None or not is_new or miss.via.endswith("__call__"):
        return None
    old, new = nearest.function, miss.function
    # A function of the library's around it, as `Module.param` of flax makes at each call: that is
    # new whether the user keeps his or not.
    by_library = new.kind in (Kind.DEF, Kind.LAMBDA) and bool(new.base and new.wrappers)
    kept = new.kind is Kind.TRANSFORM and new.base and new.base == (old.base or old.object)
    return miss.via.partition(":")[0] if by_library or kept else None


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
    return not change.exact and _content(change.old) == _content(change.new) is not None


def is_placed_later(change: Change) -> bool:
    """Whether an array was uncommitted, or its placement open, and is settled now."""
    old, new = cast(dict[str, Any], change.old), cast(dict[str, Any], change.new)
    if new.get("committed"):
        return True
    # An open sharding leaves the memory and the layout open as well: they tell nothing then.
    opened = "sharding" in new and not new["sharding"]
    told = ("sharding",) if opened else ("sharding", "memory_kind", "layout")
    return any(name in old and not old[name] for name in told)


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

"""Traits of a miss's changes that help to tell whether it was avoidable."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.causes import OF_FUNCTION, Cause
from retrace.compare.equality import remade, same_content
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import (
    Change,
    Component,
    Dim,
    FieldChange,
    Kind,
    Miss,
    Node,
    ShardingChange,
    TreeChange,
    Value,
    is_cut,
)
from retrace.model.change import together
from retrace.reason.evidence import Evidence, grown, values_of
from retrace.reason.fields import field_changes, is_function
from retrace.reason.program import numbers
from retrace.reason.rules import wrapped_again
from retrace.regex import regex

_OF_ARGUMENTS = frozenset(
    {
        Cause.STATIC_ARGUMENT_CHANGED,
        Cause.TREE_STRUCTURE_CHANGED,
        Cause.SHAPE_CHANGED,
        Cause.DTYPE_CHANGED,
        Cause.WEAK_TYPE_CHANGED,
    }
)
"""Causes that lie in the arguments. How they are passed has its own advice."""


def is_new_as_well(cause: Cause, evidence: Evidence) -> bool:
    """Whether the function object is new too, so that fixing the key would still miss."""
    return (
        evidence.miss.function.kind is not Kind.OP
        and cause not in OF_FUNCTION
        and Component.FUNCTION in evidence.components
    )


def stands_for_none(miss: Miss, changes: tuple[Change, ...]) -> list[str]:
    """Parameters that one call passed as an array and the other omitted, leaving them None."""
    none = {name for name, default in miss.function.defaults if default.text == "None"}
    return [
        change.path
        for change in changes
        if isinstance(change, TreeChange | FieldChange) and change.path in none
    ]


def of_library(cause: Cause, miss: Miss) -> bool:
    """Whether a library recreated its own function, not on a line of the user's.

    Whether the user holds the object it is created from, or the library keeps it to itself,
    cannot be seen.
    """
    return cause in OF_FUNCTION and made_by_library(miss)


def made_by_library(miss: Miss) -> bool:
    """Whether a new function object of a library was not made on the line of the user's."""
    if not miss.function.in_library:
        return False
    site = miss.call_site
    # In `jax.jit(svi.update)(...)` no library stands in between: the user's line called it.
    direct = miss.lines is not None and miss.through is None
    return miss.nested or not direct or site is None or site.in_library


def made_in_call(miss: Miss) -> str:
    """The still running library function that created this one, or an empty string.

    It creates one at each call, whatever its user keeps. Of an eager loop or branch, its bodies
    are asked.
    """
    made = [
        name
        for one in miss.bodies or (miss.function,)
        for name in (*one.wrappers, *((one.qualname,) if one.in_library else ()))
    ]
    makers = [one.rpartition(".<locals>.")[0].replace(".<locals>", "") for one in made]
    running = [one.partition(":")[2] for one in (miss.through, miss.via) if one is not None]
    return next((maker for maker in makers if maker and maker in running), "")


def calling_library(miss: Miss) -> str:
    """The library function, as `package:name`, that calls another one of its own, or empty.

    The user cannot change how it passes the arguments.
    """
    return miss.via or "" if miss.function.in_library else ""


def passing_library(cause: Cause, miss: Miss) -> str:
    """The library function, as `package:name`, that gives another one of its own what changed.

    The user can only change what that function was given. Empty if the user's line calls the
    function that missed, even through an object that wraps it, or for other causes; without a
    name if an object of the library was created.
    """
    if cause not in _OF_ARGUMENTS:
        return ""
    if not (by := calling_library(miss)):
        return ""
    package, _, called = by.partition(":")
    owner, _, name = called.rpartition(".")
    if name == "__call__" and owner.endswith("Meta"):
        return f"{package}:"  # a class of the library, called by its metaclass
    return "" if name in ("__call__", miss.function.name) else by.removesuffix("_fn")


_JITTED = regex(r"(?:\s*@[^\n]*\n)*?\s*@[^\n]*\b(?:jit|pjit|filter_jit)\b")


def jitted_by_library(miss: Miss) -> bool:
    """Whether a library's source jits the function, so that its user cannot change how."""
    own = miss.function
    return own.in_library and own.source is not None and _JITTED.match(own.source) is not None


def is_mapped(miss: Miss) -> bool:
    """Whether the function was given to `jax.pmap`."""
    return any(name == "axis_name" for name, _ in miss.key.options)


def is_static_by_type(miss: Miss) -> bool:
    """Whether a function takes arrays as arguments and all else as static.

    A caller can then decide that, also if a library jits the function.
    """
    if miss.via == "equinox:_JitWrapper.__call__":
        return True
    own = miss.function
    source = own.source if own.source is not None and _JITTED.match(own.source) else ""
    head = source.partition("\ndef ")[0].partition(" def ")[0]
    return "filter_jit" in head or any("filter_jit" in name for name in own.decorators)


def wrapped_by(cause: Cause, evidence: Evidence) -> str | None:
    """The package that wraps and jits the user's function anew at each call.

    A new wrapper misses, however its arguments are passed. If the user calls a library's object,
    such as that of `eqx.filter_jit`, what it does is the user's: the user holds what is jitted.
    """
    miss, nearest = evidence.miss, evidence.nearest
    if miss.via is None or nearest is None or miss.via.endswith("__call__"):
        return None
    if cause not in OF_FUNCTION and not is_new_as_well(cause, evidence):
        return None
    old, new = nearest.function, miss.function
    # A library's function around it, such as `Module.param` of flax at each call, is new
    # whether or not the user keeps theirs.
    by_library = new.kind in (Kind.DEF, Kind.LAMBDA) and bool(new.base and new.wrappers)
    kept = new.kind is Kind.TRANSFORM and new.base and new.base == (old.base or old.object)
    return miss.via.partition(":")[0] if by_library or kept else None


def made_of_it(nearest: Miss | None, miss: Miss, *, passes: bool) -> str:
    """The library's function of whose closure over the user's the user jits anew at each call.

    As `optax.perturbations.make_perturbed_fun` makes one, or a sampler over a density. Over one
    function of the user's that matters only if what the closure holds is to be passed (`passes`).
    """
    function = miss.function
    if nearest is None or function.kind not in (Kind.DEF, Kind.LAMBDA) or not function.base:
        return ""
    if not function.wrappers or (wrapped_again(nearest.function, function) and not passes):
        return ""
    outer, local, _ = function.wrappers[0].partition(".<locals>.")
    return outer if local else ""


def is_of_another_model(cause: Cause, evidence: Evidence) -> bool:
    """Whether the function does something else, so that one program cannot do both.

    A library recreated it: on another tree, or over another function of the user's, such as the
    density of a sampler, it is another model, with a program of its own. So is an object of
    another class, whose methods the function calls, and a model that keeps its widths as static
    fields, if its arrays have these widths.
    """
    miss, program = evidence.miss, evidence.program
    if cause is Cause.TREE_STRUCTURE_CHANGED and any(map(_is_of_another_class, evidence.changes)):
        return program is not None and program.kind == "different"
    if cause is Cause.TREE_STRUCTURE_CHANGED and _tells_sizes(evidence):
        return True
    # Comparing the programs takes longest, and for most misses it is not needed.
    if not is_new_as_well(cause, evidence):
        return False
    if program is None or program.kind != "different":
        return False
    if miss.function.in_library and _holds_another_function(evidence.changes):
        return True
    by_library = miss.function.in_library or wrapped_by(cause, evidence)
    return cause is Cause.TREE_STRUCTURE_CHANGED and bool(by_library)


def _tells_sizes(evidence: Evidence) -> bool:
    """Whether the static fields that changed are widths of the model with these arrays."""
    own = [change for change in evidence.changes if isinstance(change, TreeChange | FieldChange)]
    fields = [change for change in own if isinstance(change, FieldChange)]
    if not fields or len(fields) < len(own):
        return False
    sizes = {pair for sides in evidence.resized.sides for pair in zip(*sides, strict=False)}
    if not sizes.issuperset(map(numbers, fields)):
        return False
    return bool(evidence.resized.is_another_model)


def _is_of_another_class(change: Change) -> bool:
    """Whether an argument is an object of another class than before, both not Python's own."""
    if not isinstance(change, TreeChange):
        return False
    old, new = [side[0] if side else None for side in (change.old, change.new)]
    if not isinstance(old, Node) or not isinstance(new, Node):
        return False
    return bool(old.made and new.made and old.made.name != new.made.name)


def _holds_another_function(changes: tuple[Change, ...]) -> bool:
    """Whether a closure leads to a function with other code than before."""
    pairs = (
        values_of(part)
        for change in changes
        if change.component is Component.CLOSURE
        for part in (field_changes(change) or (change,))
    )
    return any(
        old is not None
        and new is not None
        and is_function(old.text)
        and is_function(new.text)
        and old.text != new.text
        for old, new in pairs
    )


_MIN_FOLD = 8
"""Rows from which a difference of one is no accident. Smaller batches may well lack one."""


_HELD = (Component.CLOSURE, Component.DEFAULTS)


def partial_batch(miss: Miss, nearest: Miss | None, changes: tuple[Change, ...]) -> bool:
    """Whether only a leading axis got shorter within one loop, as at the end of a dataset.

    With a helper function, an evaluation set comes from a different line than the training set.
    """
    if nearest is None:
        return False
    lines = [
        one.lines or (one.call_site and (one.call_site.file, one.call_site.line))
        for one in (miss, nearest)
    ]
    if len(set(lines)) > 1:
        return False
    own = together(changes)
    if own.components - NOT_IN_KEY - {Component.SHAPE}:
        return False
    if not own.components.isdisjoint(_HELD) and any(
        change.component in _HELD and not looks_the_same(change) for change in own
    ):
        return False  # the function of another problem, which never had the longer axis
    size: tuple[Dim, Dim] | None = None
    for old, new in own.sides:
        if not old or len(old) != len(new) or new[0] == 0 or old[1:] != new[1:]:
            return False
        if (grown(old[0], new[0]) or 0) >= 0 or size not in (None, (old[0], new[0])):
            return False
        size = old[0], new[0]
    return size is not None and not _is_one_split(*size) and not _are_places(miss, changes)


def _are_places(miss: Miss, changes: tuple[Change, ...]) -> bool:
    """Whether only lists of integers got shorter, as the edges of a graph do at any time."""
    own = {change.path for change in changes if change.component is Component.SHAPE}
    leaves = [leaf for leaf in miss.key.leaves if leaf.path in own]
    return bool(leaves) and all(
        leaf.dtype.startswith(("int", "uint")) and len(leaf.shape) == 1 for leaf in leaves
    )


def _is_one_split(old: Dim, new: Dim) -> bool:
    """Whether these look like folds of a dataset, which differ by one row, not like batches."""
    return grown(old, new) == -1 and isinstance(new, int) and new >= _MIN_FOLD


def looks_equal(change: Change) -> bool:
    """Whether both sides have the same contents and only their own `==` distinguishes them."""
    if change.exact or is_remade(change):
        return False
    old, new = map(_content, values_of(change))
    return old == new is not None


def is_explained_beside(change: Change, changes: Iterable[Change]) -> bool:
    """Whether a value looks the same while another one does not, which may be why."""
    return looks_the_same(change) and any(
        any(values_of(one)) and not looks_the_same(one) for one in changes if one is not change
    )


def looks_the_same(change: Change) -> bool:
    """Whether nothing that was recorded of the two sides differs, be it everything or not."""
    old, new = values_of(change)
    alike = old is not None and new is not None and same_content(old, new)
    return alike and not change.exact and not is_remade(change)


def is_placed_later(change: ShardingChange) -> bool:
    """Whether an array was uncommitted, or its placement undecided, and is now placed."""
    old, new = change.old, change.new
    if new.committed and not old.committed:
        return True
    # An undecided sharding also leaves memory and layout undecided, so they say nothing.
    sides = [(old.sharding, new.sharding)]
    if new.sharding or old.sharding == new.sharding:
        sides += [(old.memory_kind, new.memory_kind), (old.layout, new.layout)]
    return any(a != b and not a for a, b in sides)


def is_remade(change: Change) -> str | None:
    """The class that was defined again, if nothing else distinguishes the two sides."""
    if isinstance(change, TreeChange):
        a, b = [side[0] if side else None for side in (change.old, change.new)]
        if not isinstance(a, Node) or not isinstance(b, Node) or a.children != b.children:
            return None
        if a.made is None or b.made is None or a.made == b.made or a.made.name != b.made.name:
            return None
        return b.made.name
    old, new = values_of(change)
    if old is None or new is None or not same_content(old, new):
        return None
    known = remade(old, new)
    return known and known.name


def _content(value: Value | None) -> tuple[str, str, str] | None:
    if value is None or is_cut(value.data, value.text, exact=value.exact):
        return None
    return value.type, value.text, repr(value.data)

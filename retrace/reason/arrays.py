"""Advice for changed shapes, dtypes, placements and ways of passing arguments."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.compare.constants import folds_number
from retrace.model import (
    Change,
    Component,
    DtypeChange,
    Leaf,
    Miss,
    ShapeChange,
    TreeChange,
    by_column,
)
from retrace.model.advice import (
    Advice,
    AnotherModel,
    LeaveOutArray,
    OneCallStyle,
    OneDtype,
    OneKeyType,
    OneRank,
    OneScope,
    OneStructure,
    PadBatch,
    PadShape,
    Proof,
    SkipEmpty,
)
from retrace.model.change import resized
from retrace.reason.evidence import Evidence, grown, paths, same_but_scope
from retrace.reason.program import HELD
from retrace.reason.traits import is_mapped, partial_batch, stands_for_none
from retrace.reason.weak import keeps_types, only_scalars_differ

_IN_OPERATIONS = HELD | {Component.DTYPE, Component.WEAK_TYPE, Component.TREE}


def signature(evidence: Evidence) -> Advice:
    """What to do if arguments are passed in different ways."""
    if optional := stands_for_none(evidence.miss, evidence.changes):
        return OneStructure(paths=tuple(optional), way="omitted", proof=Proof.MEANING)
    found = paths(evidence.changes, Component.SIGNATURE)
    if any("[" in path for path in found):
        many = tuple(dict.fromkeys(path.partition("[")[0] for path in found))
        return OneCallStyle(paths=many, variadic=True, proof=Proof.MEANING)
    if computes_with_default(evidence):
        scalars = only_scalars_differ(evidence.program)
        return OneCallStyle(
            paths=tuple(found), computed=scalars, branches=not scalars, proof=Proof.MEANING
        )
    if typed := _typed(evidence, found):
        return OneCallStyle(paths=tuple(found), typed=typed, proof=Proof.KEY)
    return OneCallStyle(paths=tuple(found), folded=_folds_default(evidence, found))


def _folds_default(evidence: Evidence, found: Sequence[str]) -> bool:
    """Whether a compiler may fold the default of what one of the calls omits."""
    listings = None if evidence.program is None else evidence.program.listings()
    added = [one for one in evidence.changes if isinstance(one, TreeChange)]
    if listings is None or not added:
        return False
    omitting = listings[1] if added[0].old else listings[0]
    return any(
        name in found and folds_number(omitting, default.text)
        for name, default in evidence.miss.function.defaults
    )


def _typed(evidence: Evidence, found: Sequence[str]) -> str:
    """The dtype of a number that a call passes with one, where another omits a Python number."""
    leaves = [one for one in evidence.changes if isinstance(one, TreeChange)]
    sides = [side[0] for one in leaves for side in (one.old, one.new) if len(side) == 1]
    strong = {
        side.dtype
        for side in sides
        if isinstance(side, Leaf) and not side.shape and not side.weak_type and side.path in found
    }
    return strong.pop() if len(found) == 1 == len(strong) else ""


def computes_with_default(evidence: Evidence) -> bool:
    """Whether Python makes something else of an omitted argument than JAX of one that is passed.

    `1 - decay` has 64 bits in Python, and `x**power` is another operation for a Python number.
    """
    omitted = [
        change
        for change in evidence.changes
        if isinstance(change, TreeChange) and not (change.old and change.new)
    ]
    return bool(omitted) and not keeps_types(evidence.program)


_KEY = "key<"


def _is_key(dtype: object) -> bool:
    return str(dtype).startswith(_KEY)


def shape(evidence: Evidence) -> Advice | None:
    """What to do if array sizes differ."""
    miss, own = evidence.miss, evidence.resized
    names = own.paths
    if Component.DTYPE in evidence.components:
        dtypes = [change for change in evidence.changes if isinstance(change, DtypeChange)]
        if keys := [one.path for one in dtypes if _is_key(one.old) or _is_key(one.new)]:
            rest = tuple((path, "shape") for path in names if path not in keys)
            return OneKeyType(paths=tuple(keys), others=rest)
    axes = [axis for sides in own.sides for axis in resized(*sides) or ()]
    if sizes := {(old, new) for _, old, new in axes}:
        if any(same_but_scope(*pair) for pair in sizes):
            return OneScope(paths=names, proof=Proof.PROGRAM)
        of_devices = is_mapped(miss) and any(axis == 0 for axis, _, _ in axes)
        if of_devices or any(grown(*pair) is None for pair in sizes):
            # Another number of devices, or a symbolic size: none can be padded to the other.
            return None
    if own.are_unused:
        return LeaveOutArray(paths=names, name=miss.function.name, proof=Proof.UNUSED)
    sure = own.is_another_model
    if sure is not None and own.are_multiplied:
        return AnotherModel(paths=names, proof=Proof.KEY if sure else Proof.MEANING)
    if any(0 in pair for pair in sizes):
        return SkipEmpty(paths=names, proof=Proof.MEANING)
    differs = evidence.program is not None and evidence.program.counts_differ
    # What else changed in the key may have changed the operations, too.
    written = differs and not evidence.components & _IN_OPERATIONS
    if partial_batch(miss, evidence.nearest, evidence.changes) and not differs:
        return PadBatch(paths=names)
    if ranked := own.ranked:
        rest = tuple((name, Component.SHAPE.value) for name in names if name not in ranked)
        start = _start(evidence, ranked)
        return OneRank(paths=ranked, others=rest, start=start, proof=Proof.MEANING)
    if sure or own.are_kernels():
        if not sure and own.are_handed_back():
            return AnotherModel(paths=names, proof=Proof.MEANING)
        return PadShape(paths=names, kernels=True, proof=Proof.MEANING)
    if square := own.square():
        return PadShape(paths=names, square=square, proof=Proof.MEANING)
    proof = Proof.MEANING if differs else Proof.KEY
    return PadShape(paths=names, written=written, keys=_keys(miss, names), proof=proof)


def _keys(miss: Miss, names: Sequence[str]) -> tuple[str, ...]:
    """Those of these arrays that hold typed PRNG keys."""
    leaves = by_column(miss.key.leaves)
    if not any(map(_is_key, leaves.dtypes)):
        return ()
    keys = {leaf.path for leaf in leaves if _is_key(leaf.dtype)}
    return tuple([name for name in names if name in keys])


def _start(evidence: Evidence, names: tuple[str, ...]) -> str:
    """Code for an array in place of the one number that the earlier call passed."""
    return (
        ""
        if evidence.nearest is None
        else array_for_number(evidence.nearest, evidence.miss, names)
    )


def array_for_number(number: Miss, array: Miss, names: Sequence[str]) -> str:
    """Code for an array that could be passed from the start, or "" if that is unclear.

    Args:
        number: the call that passed a Python number.
        array: a later call that passed an array instead.
        names: the path of the argument, if it is one.
    """
    if len(names) != 1:
        return ""
    before, after = (
        next((leaf for leaf in miss.key.leaves if leaf.path == names[0]), None)
        for miss in (number, array)
    )
    if before is None or after is None or before.shape or not before.weak_type:
        return ""
    known = (
        bool(after.shape)
        and after.dtype in _OF_NUMPY
        and all(isinstance(size, int) for size in after.shape)
    )
    return f"np.full({after.shape}, value, np.{after.dtype})" if known else ""


_OF_NUMPY = ("float16", "float32", "float64", "int32", "int64", "complex64")


def pad_shape(miss: Miss, changes: tuple[Change, ...]) -> Advice:
    """What to do about arrays that come in many sizes."""
    names = _paths([c for c in changes if isinstance(c, ShapeChange)])
    return PadShape(paths=names, keys=_keys(miss, names))


def dtype(evidence: Evidence) -> Advice | None:
    """What to do if array dtypes differ."""
    own = [change for change in evidence.changes if isinstance(change, DtypeChange)]
    if not own:
        return None
    if any(_is_key(side) for change in own for side in (change.old, change.new)):
        return OneKeyType(paths=_paths(own), proof=Proof.MEANING)
    pairs = {(change.old, change.new) for change in own}
    both = next(iter(pairs)) if len(pairs) == 1 else ()
    # If promotion makes them equal, either will do.
    listings = None if evidence.program is None else evidence.program.listings()
    same = listings is not None and keeps_types(evidence.program)
    proof = Proof.KEY if same else Proof.MEANING
    return OneDtype(paths=_paths(own), dtypes=both, python=_are_python(evidence), proof=proof)


def _are_python(evidence: Evidence) -> bool:
    """Whether what has another dtype looks like a Python number in both calls."""
    if evidence.nearest is None:
        return False
    found = {one.path for one in evidence.changes if isinstance(one, DtypeChange)}
    return all(
        leaf.weak_type and not leaf.shape and not leaf.committed
        for miss in (evidence.nearest, evidence.miss)
        for leaf in miss.key.leaves
        if leaf.path in found
    )


def _paths(changes: Sequence[ShapeChange | DtypeChange]) -> tuple[str, ...]:
    return tuple([change.path for change in changes])

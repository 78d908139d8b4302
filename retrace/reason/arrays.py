"""What to do where arrays have other shapes, dtypes or places, or are passed otherwise."""

from __future__ import annotations

import re
from typing import Any, cast

from retrace.compare.detail import same_but_scope
from retrace.compare.kernels import kernels
from retrace.compare.outputs import outputs
from retrace.model import Change, Component, Dim
from retrace.model.advice import (
    Advice,
    AnotherModel,
    LeaveOutArray,
    LowerWithSharding,
    OneCallStyle,
    OneDtype,
    OneKeyType,
    OneMesh,
    OneRank,
    OneScope,
    OneSharding,
    OneStructure,
    PadBatch,
    PadShape,
    PlaceFirst,
    Proof,
    SkipEmpty,
)
from retrace.reason.avoidable import (
    another_model,
    are_unused,
    partial_batch,
    stands_for_none,
)
from retrace.reason.evidence import Evidence, grown, part, paths, resized
from retrace.reason.weak import keeps_types

_MESH = re.compile(r"mesh\{[^}]*\}")


def signature(evidence: Evidence) -> Advice:
    """What to do where a call is written otherwise."""
    if optional := stands_for_none(evidence.miss, evidence.changes):
        return OneStructure(paths=tuple(optional), way="omitted", proof=Proof.MEANING)
    found = paths(evidence.changes, Component.SIGNATURE)
    if any("[" in path for path in found):
        many = tuple(dict.fromkeys(path.partition("[")[0] for path in found))
        return OneCallStyle(paths=many, variadic=True, proof=Proof.MEANING)
    return OneCallStyle(paths=tuple(found))


def shape(evidence: Evidence) -> Advice | None:
    """What to do about arrays of other sizes."""
    changes, miss = evidence.changes, evidence.miss
    own: list[Any] = [change for change in changes if change.component is Component.SHAPE]
    names = _paths(own)
    dtypes = [change for change in changes if change.component is Component.DTYPE]
    if any("key<" in change.detail for change in dtypes):
        return OneKeyType(paths=names)
    if sizes := [pair for change in own for pair in resized(change) or ()]:
        if any(same_but_scope(*pair) for pair in sizes):
            return OneScope(paths=names, proof=Proof.PROGRAM)
        if any(grown(*pair) is None for pair in sizes):
            return None  # a symbolic size and a number: nobody can pad one to the other
    if are_unused(miss, changes, evidence.program):
        return LeaveOutArray(paths=names, name=miss.function.name, proof=Proof.UNUSED)
    if (sure := another_model(miss, changes)) is not None:
        return AnotherModel(paths=names, proof=Proof.KEY if sure else Proof.MEANING)
    if any(0 in pair for pair in sizes):
        return SkipEmpty(paths=names, proof=Proof.MEANING)
    if partial_batch(miss, evidence.nearest, changes):
        return PadBatch(paths=names)
    if {len(change.old) - len(change.new) for change in own} - {0}:
        return OneRank(paths=names, proof=Proof.MEANING)
    if _are_kernels(evidence, own):
        if _are_handed_back(evidence, own):
            return AnotherModel(paths=names, proof=Proof.MEANING)
        return PadShape(paths=names, kernels=True, proof=Proof.MEANING)
    return pad_shape(changes)


def _are_kernels(evidence: Evidence, own: list[Change]) -> bool:
    """Whether all that has another size has the shape of weights that the program multiplies by.

    Another width is then another model, where these are parameters; the program cannot tell.
    """
    listings = None if evidence.program is None else evidence.program.listings()
    if evidence.program is None or listings is None:
        return False
    listing, leaves = listings[1], evidence.miss.key.leaves
    first = len(listing.inputs) - len(leaves)  # before them stand the captured arrays
    if first not in (0, len(listing.constants)):
        return False
    multiplied = kernels(listing, evidence.program.texts)
    at = {leaf.path: index for index, leaf in enumerate(leaves)}
    found = {change.path: _resized_axes(change) for change in own if change.path in at}
    widths = {
        leaves[at[path]].shape[axis]
        for path, axes in found.items()
        for axis in axes & multiplied.get(first + at[path], frozenset())
        if axis > 0 or len(leaves[at[path]].shape) > _MATRIX
    }
    # Beside them stand what an optimizer keeps of them, of the same sizes.
    return bool(widths) and all(
        leaves[at[path]].dtype.startswith(("float", "bfloat", "complex"))
        and {leaves[at[path]].shape[axis] for axis in axes} <= widths
        and len(leaves[at[path]].shape) >= _MATRIX
        and (max(axes) > 0 or len(leaves[at[path]].shape) > _MATRIX)
        for path, axes in found.items()
    )


def _are_handed_back(evidence: Evidence, own: list[Change]) -> bool:
    """Whether the program returns something of the type of each: weights that it has trained."""
    listings = None if evidence.program is None else evidence.program.listings()
    if listings is None:
        return False
    returned = {output.type.replace("~", "") for output in outputs(listings[1])}
    first = len(listings[1].inputs) - len(evidence.miss.key.leaves)
    at = {leaf.path: index for index, leaf in enumerate(evidence.miss.key.leaves)}
    types = {listings[1].inputs[first + at[path]] for c in own if (path := c.path) in at}
    return {type_.replace("~", "") for type_ in types} <= returned


_MATRIX = 2
"""Axes of the weights of a dense layer; a convolution's have more."""


def _resized_axes(change: Change) -> frozenset[int]:
    old, new = cast(list[Dim], change.old), cast(list[Dim], change.new)
    return frozenset(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)


def pad_shape(changes: tuple[Change, ...]) -> Advice:
    """What to do about arrays of many sizes."""
    return PadShape(paths=_paths([c for c in changes if c.component is Component.SHAPE]))


def dtype(evidence: Evidence) -> Advice | None:
    """What to do about arrays of other dtypes."""
    own = [change for change in evidence.changes if change.component is Component.DTYPE]
    if not own:
        return None
    pairs = {(str(change.old), str(change.new)) for change in own}
    both = next(iter(pairs)) if len(pairs) == 1 else ()
    # Where promotion makes them equal, either will do.
    listings = None if evidence.program is None else evidence.program.listings()
    same = listings is not None and keeps_types(evidence.program)
    proof = Proof.KEY if same else Proof.MEANING
    return OneDtype(paths=_paths(own), dtypes=both, proof=proof)


def sharding(evidence: Evidence) -> Advice:
    """What to do about arrays that are placed otherwise."""
    own = [change for change in evidence.changes if change.component is Component.SHARDING]
    names = _paths(own)
    if evidence.nearest is not None and evidence.nearest.ahead and not evidence.miss.ahead:
        return LowerWithSharding(paths=names)
    sides = [part(side, "sharding") for change in own for side in (change.old, change.new)]
    meshes = [_MESH.search(str(side)) for side in sides]
    if all(meshes) and len({found[0] for found in meshes if found}) > 1:
        return OneMesh(paths=names)
    if own and all(str(side).startswith("SingleDevice(") for side in sides):
        return OneSharding(paths=names, proof=Proof.MEANING)
    return PlaceFirst(paths=names)


def _paths(changes: list[Change]) -> tuple[str, ...]:
    return tuple(change.path for change in changes if change.path is not None)

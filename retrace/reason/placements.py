"""Where arrays are to be placed: what two calls say of it, held against all calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from itertools import chain

from retrace.model import Leaf, ShardingChange, Verdict
from retrace.model.advice import (
    Advice,
    LowerWithSharding,
    OneMesh,
    OneSharding,
    PlaceFirst,
    Proof,
)
from retrace.reason.asked import replace_advice
from retrace.reason.evidence import Evidence
from retrace.reason.objects import advice_of_kind
from retrace.regex import regex

_MESH = regex(r"mesh\{[^}]*\}")
_ONE_DEVICE = "SingleDevice("
_SPLIT = regex(r"P\([^)]")


def sharding(evidence: Evidence) -> Advice:
    """What to do if arrays are placed differently."""
    own = [change for change in evidence.changes if isinstance(change, ShardingChange)]
    names = _paths(own)
    if evidence.nearest is not None and evidence.nearest.ahead and not evidence.miss.ahead:
        return LowerWithSharding(paths=names)
    moved = [change for change in own if change.old.sharding != change.new.sharding]
    remeshed = [change for change in moved if _is_on_another_mesh(change)]
    if remeshed:
        rest = tuple((change.path, "sharding") for change in own if change not in remeshed)
        return OneMesh(paths=_paths(remeshed), others=rest)
    if own and moved == own and all(map(_is_on_other_devices, own)):
        return OneSharding(paths=names, proof=Proof.MEANING)
    later = bool(own) and all(one.old.committed and not one.new.committed for one in own)
    return PlaceFirst(paths=names, later=later)


def _is_on_another_mesh(change: ShardingChange) -> bool:
    found = [_MESH.search(side.sharding or "") for side in (change.old, change.new)]
    old, new = (one and one[0] for one in found)
    return old is not None and new is not None and old != new


def _is_on_other_devices(change: ShardingChange) -> bool:
    """Whether an array was moved from one device to another, or to or from a mesh."""
    sides = [side.sharding or "" for side in (change.old, change.new)]
    single = [side.startswith(_ONE_DEVICE) for side in sides]
    if all(single):
        return True
    # Once committed, an array is not moved by JAX: the program did it, between its calls.
    return any(single) and change.old.committed and change.new.committed


def _paths(changes: list[ShardingChange]) -> tuple[str, ...]:
    return tuple([change.path for change in changes])


def place_alike(history: list[Verdict]) -> None:
    """Arrays that some calls place on another mesh, or that were placed and are not any more."""
    meshes = {path for one in advice_of_kind(history, OneMesh) for path in one.paths}
    asked = {path for one in advice_of_kind(history, PlaceFirst) for path in one.paths}
    if not meshes and not asked:
        return
    placed: dict[str, int] = {}
    found: dict[str, set[str]] = defaultdict(set)
    for verdict in history:
        for leaf in verdict.miss.key.leaves:
            if leaf.committed and (leaf.path in asked or leaf.path in meshes):
                placed.setdefault(leaf.path, verdict.miss.number)
                found[leaf.path].add(leaf.sharding or "")
    for index, verdict in enumerate(history):
        own, near = verdict.fix, verdict.nearest
        if not isinstance(own, PlaceFirst | OneMesh) or near is None:
            continue
        places = [found[path] for path in own.paths]
        later = isinstance(own, PlaceFirst) and own.later
        if not meshes.isdisjoint(own.paths) and not later:
            known = {name: getattr(own, name) for name in Advice.fields}
            specs = any(len({_MESH.sub("", text) for text in one}) > 1 for one in places)
            advised: Advice = OneMesh(**known, specs=specs)
        elif any(len(one) > 1 for one in places) or (
            not later and _is_elsewhere(verdict, history)
        ):
            advised = OneSharding(paths=own.paths, others=own.others, proof=Proof.MEANING)
        elif not later and any(placed.get(one, near.number) < near.number for one in own.paths):
            advised = PlaceFirst(paths=own.paths, others=own.others, always=True, proof=own.proof)
        else:
            advised = own
        if isinstance(advised, PlaceFirst | OneMesh) and any(map(_is_split, chain(*places))):
            advised = advised.changed(split=True, proof=Proof.MEANING)
        if advised is not own:
            replace_advice(history, index, advised)
            if advised.proof is Proof.MEANING and verdict.avoidable == "yes":
                history[index] = replace(history[index], avoidable="maybe")
    _follow_calls(history)


def _follow_calls(history: list[Verdict]) -> None:
    """A backward program has no arguments of its own: those of its call decide."""
    by_id = {verdict.miss.id: verdict for verdict in history}
    for index, verdict in enumerate(history):
        call = by_id.get(verdict.follows or "")
        if call is not None and isinstance(verdict.fix, PlaceFirst | OneMesh):
            history[index] = replace(verdict, fix=call.fix, avoidable=call.avoidable)


def _is_split(sharding: str) -> bool:
    """Whether an array has another part on each device, so that sums run in another order."""
    return _SPLIT.search(sharding) is not None


def _is_elsewhere(verdict: Verdict, history: list[Verdict]) -> bool:
    """Whether an earlier call with these arrays not placed has others on other devices.

    JAX raises where arrays of one call are committed to other devices.
    """
    paths = verdict.fix.paths if verdict.fix is not None else ()
    new = [leaf for leaf in verdict.miss.key.leaves if leaf.path in paths]
    found = {_devices(leaf) for leaf in new if leaf.sharding}
    return bool(found) and any(
        leaf.committed and leaf.sharding and _devices(leaf) not in found
        for other in history
        if other.miss.number < verdict.miss.number and not _is_placed(other, paths)
        for leaf in other.miss.key.leaves
    )


def _is_placed(verdict: Verdict, paths: Collection[str]) -> bool:
    return any(leaf.committed for leaf in verdict.miss.key.leaves if leaf.path in paths)


def _devices(leaf: Leaf) -> str:
    """The mesh or the one device of an array, as far as the text of its placement says."""
    text = leaf.sharding or ""
    mesh = _MESH.search(text)
    return text if mesh is None else mesh[0]

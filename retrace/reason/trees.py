"""What to do about pytrees of other structures, or with other static data."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.compare.equality import type_name
from retrace.model import Change, FieldChange, Leaf, Node, TreeChange
from retrace.model.advice import (
    REUSED,
    Advice,
    FewValues,
    InjectHyperparams,
    LeaveOutValue,
    OneStructure,
    PassHeld,
    Proof,
    ReuseObject,
    ToArray,
)
from retrace.reason.evidence import (
    Evidence,
    is_another_function,
    is_function,
    is_numeric,
    types_of,
)
from retrace.reason.fields import field_changes, fields_of_function, held_functions
from retrace.reason.held import is_about
from retrace.reason.rules import root
from retrace.reason.statics import (
    OF_TYPES,
    define_once,
    differs,
    differs_by,
    explaining,
    holds_other,
    is_same_program,
    may_be_equal,
    paths_of,
    same_program,
    unused,
)
from retrace.reason.traits import looks_equal, looks_the_same


def tree_structure(evidence: Evidence) -> Advice:
    """What to do if the pytree structure of the arguments or its static data differ."""
    own = [c for c in evidence.changes if isinstance(c, TreeChange | FieldChange)]
    if (once := define_once(own)) is not None:
        return once
    found = explaining(own, evidence) if differs(evidence) else own
    advised = _tree_structure(found, evidence)
    known = (*advised.paths, *(path for path, _ in advised.others))
    rest = [
        (path, REUSED if looks_equal(change) else _kind(change))
        for change in own
        for path in paths_of([change])
        if not is_about(path, known)
    ]
    return advised.changed(others=(*advised.others, *rest)) if rest else advised


def _kind(change: TreeChange | FieldChange) -> str:
    return "static_data" if isinstance(change, FieldChange) else change.component.value


def _tree_structure(own: list[TreeChange | FieldChange], evidence: Evidence) -> Advice:
    first = own[0]
    paths = paths_of([first])
    if not isinstance(first, FieldChange) or first.new is None:
        return _structure(first, paths)
    equal = paths_of([change for change in own if looks_equal(change)])
    if equal and differs_by(own[0], evidence):
        unsure = may_be_equal(evidence)
        return PassHeld(paths=equal, alike=True, unsure=unsure, proof=Proof.MEANING)
    is_same = is_same_program(evidence)
    if is_same and (differing := _fields_over_functions(own)):
        return LeaveOutValue(
            paths=paths_of(differing),
            name=evidence.miss.function.name,
            in_tree=True,
            of_object=True,
            passing=root(first.path),
            proof=Proof.PROGRAM,
        )
    if not equal and is_same and (held_functions(first) or looks_the_same(first)):
        equal = paths  # one object suits both, whatever else it holds
    if equal:
        return ReuseObject(paths=equal, in_tree=True, proof=same_program(evidence))
    if is_function(first) and (parts := field_changes(first)):
        return holds_other(paths, parts)
    if is_function(first) and differs_by(first, evidence) and not is_another_function(first):
        held, unsure = fields_of_function(first), may_be_equal(evidence)
        return PassHeld(paths=paths, held=held, unsure=unsure, proof=Proof.MEANING)
    fields = [change for change in own if isinstance(change, FieldChange)]
    if (left_out := unused(evidence, fields, in_tree=True)) is not None:
        return left_out
    parts = field_changes(first) or (first,)
    kind = None if evidence.program is None else evidence.program.kind
    carried = evidence.program is not None and evidence.program.carries_others
    if carried and evidence.program is not None and evidence.program.returns_others:
        return FewValues(paths=paths_of(parts), why="carried", proof=Proof.MEANING)
    if carried and kind == "constants-only" and all(map(is_numeric, parts)):
        return ToArray(paths=paths_of(parts), in_tree=True, carried=True, proof=Proof.MEANING)
    if carried or kind in ("different", "repeated", "shapes-only"):
        # Other sizes make other programs, too.
        way = "unknown" if OF_TYPES & {*evidence.components} else "program"
        return OneStructure(paths=paths_of(parts), way=way, proof=Proof.MEANING)
    if all(map(is_numeric, parts)) and all(
        type_.startswith("optax.") for type_ in types_of(first)
    ):
        return InjectHyperparams(paths=paths_of(parts), holder=first.path or "")
    if all(map(is_numeric, parts)):
        return ToArray(paths=paths_of(parts), in_tree=True)
    return OneStructure(paths=paths_of(parts), way="data", proof=Proof.MEANING)


def _structure(change: TreeChange | FieldChange, paths: tuple[str, ...]) -> Advice:
    """What to do if a container is of another type, or one of its fields is gone."""
    sides = (change.old, change.new) if isinstance(change, TreeChange) else ((), ())
    nodes = [side[0] if side and isinstance(side[0], Node) else None for side in sides]
    kinds = [None if node is None else node.type for node in nodes]
    if "None" in kinds and None in kinds:  # the other side is an array, or nothing
        leaf = next((side[0] for side in sides if side and isinstance(side[0], Leaf)), None)
        number = leaf is not None and bool(leaf.weak_type) and not leaf.shape
        return OneStructure(paths=paths, way="none", number=number, proof=Proof.MEANING)
    old, new = (None if kind is None else type_name(kind) for kind in kinds)
    two = (old, new) if old is not None and new is not None and old != new else None
    return OneStructure(paths=paths, way="nodes", containers=two, proof=Proof.MEANING)


def _fields_over_functions(own: Sequence[Change]) -> list[Change]:
    """The fields in which objects differ that hold functions, if all of these do.

    One object for both would hold the fields of one, and no `==` by value makes them equal.
    """
    fields = [
        field_changes(one, whole=False) if held_functions(one) and not looks_the_same(one) else ()
        for one in own
    ]
    return [part for found in fields for part in found] if all(fields) else []

"""Advice for Python values in the key: static arguments and the static data of trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from retrace.compare.equality import type_name
from retrace.compare.values import of_array
from retrace.model import (
    Change,
    Component,
    FieldChange,
    NamedChange,
    TreeChange,
)
from retrace.model.advice import (
    REUSED,
    Advice,
    CompareByValue,
    DefineOnce,
    FewValues,
    LeaveOutValue,
    OneNaN,
    OneType,
    PassHeld,
    Proof,
    ReuseObject,
    ToArray,
)
from retrace.reason.evidence import (
    Evidence,
    is_another_function,
    is_array_type,
    is_by_identity,
    is_function,
    is_number,
    is_numeric,
    named_changes,
    package_of,
    types_of,
    values_of,
)
from retrace.reason.fields import (
    field_changes,
    fields_of_function,
    held_arrays,
    held_functions,
    holds_itself,
)
from retrace.reason.held import containers, may_hold_another
from retrace.reason.program import is_explained, numbers
from retrace.reason.traits import is_explained_beside, is_remade, looks_equal, looks_the_same
from retrace.reason.values import is_amount

_Change = TypeVar("_Change", bound=Change)


def static_argument(components: tuple[Component, ...], evidence: Evidence) -> Advice:
    """What to do if a static argument has another value."""
    own = named_changes(evidence.changes, components)
    if (once := define_once(own)) is not None:
        return once
    if (left_out := unused(evidence, own, in_tree=False)) is not None:
        return left_out
    found = explaining(own, evidence) if differs(evidence) else own
    advised = _static_argument(evidence, found)
    rest = [one for one in own if not any(path.startswith(one.path) for path in advised.paths)]
    if isinstance(advised, ToArray):
        alike = [one for one in rest if looks_the_same(one)]
        others = {one.path.rpartition(".")[0] for one in rest if one not in alike} - {""}
        kept = (one.path for one in alike if one.path.rpartition(".")[0] not in others)
        advised = advised.changed(kept=(*advised.kept, *kept))
        if advised.kept and may_hold_another(evidence, own):
            advised = advised.changed(proof=Proof.MEANING)
        rest = [one for one in rest if one.path not in advised.kept]
    also = [(one.path, REUSED if looks_equal(one) else "static") for one in rest]
    return advised.changed(others=tuple(also)) if rest else advised


def _static_argument(evidence: Evidence, own: list[NamedChange]) -> Advice:
    first = own[0]
    paths = paths_of([first])
    types = types_of(first)
    mixed = [one for one in own if one.as_array and any(map(is_number, types_of(one)))]
    if mixed and mixed[0] is first:
        return ToArray(paths=paths_of(mixed), mixed=True)
    if any(side is not None and side.text == "nan" for side in (first.old, first.new)):
        return OneNaN(paths=paths)
    if is_another_function(first):
        return FewValues(paths=paths, why="functions")
    if is_function(first) and (parts := field_changes(first)):
        return holds_other(paths, parts)
    if is_function(first) and differs_by(first, evidence):
        held, unsure = fields_of_function(first), may_be_equal(evidence)
        return PassHeld(paths=paths, held=held, unsure=unsure, proof=Proof.MEANING)
    if is_function(first):
        file = evidence.miss.function.file
        package = package_of(file) if evidence.miss.function.in_library else None
        return ReuseObject(paths=paths, package=package, proof=same_program(evidence))
    # Arrays of another type or size are why the program differs.
    is_alone = differs(evidence) and not OF_TYPES & {*evidence.components}
    if looks_equal(first) or (looks_the_same(first) and not is_alone):
        file, type_ = evidence.miss.function.file, types_of(first)[1]
        package = package_of(file) if evidence.miss.function.in_library else None
        return CompareByValue(
            paths=paths,
            type=type_name(type_),
            package=package if type_.partition(".")[0] == package else None,
            held=tuple(path for path in held_functions(first) if path is not None),
            alone=holds_itself(first) or bool(held_arrays(first)),
            proof=same_program(evidence),
        )
    if len(set(types)) > 1 and all(map(is_number, types)):
        return _one_type(evidence, paths, set(types))
    if held := _held_arrays(evidence, first):
        of = type_name(types_of(first)[1]).rpartition(".")[2]
        return PassHeld(paths=paths, held=held, of=of, unsure=True, proof=Proof.MEANING)
    # Where an array has another size as well, that alone may be why.
    shapes = (
        evidence.program is not None
        and evidence.program.kind == "shapes-only"
        and Component.SHAPE not in evidence.components
    )
    # What a function holds cannot be passed instead of it.
    own = [each for each in own if not is_function(each)]
    found = [
        change
        for each in own
        for change in (field_changes(each) or _explained(each, evidence) or (each,))
    ]
    calls_back = evidence.program is not None and evidence.program.calls_back
    if all(types_of(change) == ("bool", "bool") for change in found):
        return FewValues(paths=paths_of(found), why="flags")
    sizes = [change for change in found if numbers(change) in evidence.sizes]
    if sizes := sizes or [change for change in found if shapes and is_numeric(change)]:
        rest = [(path, "static") for path in paths_of(one for one in found if one not in sizes)]
        return FewValues(paths=paths_of(sizes), why="shapes", others=tuple(rest))
    if evidence.program is not None and evidence.program.kind == "repeated":
        return FewValues(paths=paths_of(found), why="program")  # perhaps a Python loop over it
    if shapes or calls_back or not all(map(is_amount, found)):
        return FewValues(paths=paths_of(found), why="shapes" if shapes else "program")
    holders = [each for each in own if each not in found]
    kept = paths_of(one for one in holders if is_by_identity(one))
    return ToArray(paths=paths_of(found), outside=paths_of(holders), kept=kept)


def _explained(change: Change, evidence: Evidence) -> tuple[Change, ...]:
    """The fields that are known to differ, if they are all that differs in the program."""
    program = evidence.program
    if program is None or program.kind != "constants-only" or program.captures_others:
        return ()
    parts = field_changes(change, whole=False)
    return parts if program.constants and is_explained(program, parts) else ()


def _one_type(evidence: Evidence, paths: tuple[str, ...], types: set[str]) -> Advice:
    """One number in two types: True and 1, 2 and 2.0, 3 and `np.int64(3)`."""
    type_ = next((one for one in ("bool", "float", "int") if one in types), None)
    proof = same_program(evidence)
    return OneType(paths=paths, type=None if proof is Proof.MEANING else type_, proof=proof)


def same_program(evidence: Evidence) -> Proof:
    """What shows that one value suits both calls: the same program, or nothing."""
    program = evidence.program
    unknown = program is not None and program.kind is None and program.calls_back
    return Proof.MEANING if unknown or differs(evidence) else Proof.PROGRAM


def holds_other(paths: tuple[str, ...], parts: Iterable[Change]) -> Advice:
    """What to do about a function that was created again over other values."""
    held = tuple(str(part.path).rpartition(".")[2] for part in parts)
    return PassHeld(paths=paths, held=held, proof=Proof.MEANING)


def _held_arrays(evidence: Evidence, change: Change) -> tuple[str, ...]:
    """The arrays of an object, if only their contents can differ between two programs."""
    new = values_of(change)[1]
    if not may_be_equal(evidence) or not looks_the_same(change) or new is None:
        return ()
    if evidence.program is None or evidence.program.kind not in (None, "constants-only"):
        return ()
    data: object = new.data
    fields = cast(dict[str, object], data) if isinstance(data, dict) else {}
    return tuple(f"{change.path}.{name}" for name, one in fields.items() if is_array_type(one))


def paths_of(changes: Iterable[Change]) -> tuple[str, ...]:
    return tuple(change.path for change in changes if change.path is not None)


def differs(evidence: Evidence) -> bool:
    """Whether the programs are known to differ, so the values cannot be the same."""
    kind = None if evidence.program is None else evidence.program.kind
    if kind == "shapes-only" and Component.SHAPE in evidence.components:
        return False  # the arrays changed size, and nothing else changed in the program
    return kind not in (None, "identical")


OF_TYPES = {Component.WEAK_TYPE, Component.DTYPE, Component.SHAPE}
"""Of arrays that changed, too: the program follows these, whatever a value holds."""


def differs_by(change: Change, evidence: Evidence) -> bool:
    """Whether the programs differ, and what changed elsewhere does not explain it."""
    if not differs(evidence) or OF_TYPES & {*evidence.components}:
        return False
    if any(isinstance(one, TreeChange) and one is not change for one in evidence.changes):
        return False  # another structure has another program
    if is_explained_beside(change, evidence.changes):
        return False
    program = evidence.program
    if program is None or program.kind != "constants-only":
        return True
    parts = [
        part
        for other in evidence.changes
        if other is not change
        for part in field_changes(other, whole=False) or (other,)
    ]
    return not program.constants or not is_explained(program, parts)


def is_same_program(evidence: Evidence) -> bool:
    return evidence.program is not None and evidence.program.kind == "identical"


def may_be_equal(evidence: Evidence) -> bool:
    """Whether the programs differ at most in arrays whose contents were not compared."""
    return evidence.program is not None and evidence.program.captures_others


def unused(
    evidence: Evidence, own: Sequence[FieldChange | NamedChange], *, in_tree: bool
) -> Advice | None:
    """What to do about values that lead to the same program."""
    if not is_same_program(evidence):
        return None
    if any(is_function(change) or looks_the_same(change) for change in own):
        return None  # the program may well depend on what is the same in both
    # No `==` by value can leave out a field where the object holds itself.
    alone = any(map(holds_itself, own))
    parts = [() if alone else field_changes(each) for each in own]
    found = [one for each, fields in zip(own, parts, strict=True) for one in fields or (each,)]
    paths = containers(paths_of(found))
    known = alone or all(parts) or not any(map(is_by_identity, own))
    if not known:
        # There may be more differences, but of these alone it is known.
        some = dict.fromkeys(
            of_array(str(one.path), *(side and side.data for side in values_of(one)))
            for each in own
            for one in field_changes(each, whole=False)
        )
        known, paths = not some, tuple(some) or paths
    # An omitted value, or None, is not another type of the same thing.
    types = [
        {side.type for side in (c.old, c.new) if side is not None} - {"NoneType"} for c in own
    ]
    if any(len(both) > 1 for both in types):
        if all(map(is_number, set[str]().union(*types))):
            if all(map(_is_one_number, own)):
                return None  # one number in two types
        else:
            return OneType(paths=paths_of(own), proof=Proof.PROGRAM)
    by_value = not alone and all(map(is_by_identity, own))
    type_ = type_name(types_of(own[0])[1]) if by_value else None
    arrays = () if type_ is None else held_arrays(own[0])
    return LeaveOutValue(
        paths=paths,
        name=evidence.miss.function.name,
        in_tree=in_tree,
        of_object=by_value or paths != paths_of(own),
        type=type_,
        held=() if type_ is None else tuple(path for path in held_functions(own[0]) if path),
        arrays=arrays,
        proof=Proof.PROGRAM if known and not arrays else Proof.MEANING,
    )


def _is_one_number(change: Change) -> bool:
    """Whether both sides are the same number in two types: True and 1, 2 and 2.0."""
    truth = {"True": 1.0, "False": 0.0}
    # `np.bool(True)` is recorded with True as its content.
    sides = [
        value and truth.get(value.text, truth.get(str(value.data))) for value in values_of(change)
    ]
    old, new = (b if a is None else a for a, b in zip(sides, numbers(change), strict=True))
    return old == new


def define_once(own: Sequence[Change]) -> Advice | None:
    """What to do if only the class of a value or node changed."""
    names = [type_name(name).rpartition(".")[2] for name in map(is_remade, own) if name]
    if not own or len(names) < len(own):
        return None
    return DefineOnce(paths=paths_of(own), classes=tuple(dict.fromkeys(names)))


def explaining(own: list[_Change], evidence: Evidence) -> list[_Change]:
    """Those of the changes that may be why the program differs.

    Not an object that looks as before beside one that does not, nor a number that is in no
    equation beside one that is the constant that changed.
    """
    other = [one for one in own if not looks_equal(one)] or own
    program = evidence.program
    if program is None or program.kind != "constants-only":
        return other
    # A function over other numbers, beside one that only looks the same as far as it is known.
    for one in other if program.constants else ():
        if is_explained(program, field_changes(one)):
            return [one]
    numeric = [one for one in other if is_numeric(one)]
    found = [one for one in numeric if program.as_constant(numbers(one)) in program.constants]
    return [one for one in other if one in found or one not in numeric] if found else other

"""What the programs show about Python values in them: could one program have served both?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from retrace.compare.equality import type_name
from retrace.compare.values import places
from retrace.model import JSON, Change, Component, Value
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    FewValues,
    InjectHyperparams,
    LoopInProgram,
    OneType,
    PrintOutside,
    Proof,
    ToArgument,
    TripsInProgram,
)
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.evidence import (
    Evidence,
    innermost,
    is_arrays,
    is_compared_by_fields,
    is_function,
    types_of,
    values_of,
)
from retrace.reason.fields import field_changes
from retrace.reason.program import HELD, Comparison, numbers
from retrace.reason.rules import root

_NUMBERS = frozenset(("bool", "int", "float", "complex"))
_MAX_EXACT, _MAX_INTEGER = 2.0**24, 2.0**31
_LEAST_STEP = 2.0**-13
"""Of numbers that are closer than this, float32 keeps fewer than ten bits of the difference."""
_PLAIN = _NUMBERS | {"str", "NoneType", "tuple"}


def avoidable(
    changes: tuple[Change, ...], program: Comparison | None
) -> Literal["yes", "no"] | None:
    """What the programs alone decide, or None if they leave it open.

    A program that differs only in a number that Python put into it could have taken that number
    as an argument. One in which a Python `if` or `for` took another branch is rightly separate.
    """
    values = _values(changes)
    if program is None or not values or not all(map(is_plain, values)):
        return None
    kind = program.kind
    if kind == "constants-only" and (all(map(is_amount, values)) or _constants(values, program)):
        # If an array cannot go there, another operation is needed (`jax.lax.dynamic_slice`).
        return None if program.fixed or program.names_results else "yes"
    if program.returns_others:
        return None
    return "no" if kind == "different" and not program.differs_in_prints else None


def advice(evidence: Evidence) -> Advice | None:
    """What to do about a value that Python put into the program, or None if it did not."""
    changes, program = evidence.changes, evidence.program
    values = _values(changes)
    if program is None or not values or not all(map(is_plain, values)):
        return None
    match program.kind:
        case "constants-only":
            return _as_arguments(changes, values, program)
        case "repeated":
            return _rolled(values, program)
        case "different" if program.differs_in_prints:
            return PrintOutside(paths=_paths(values))
        case "different" if program.returns_others:
            return _returned(values, program)
        case "different":
            return _separate(_unexplained(values, program))
        case _:
            return None


def _returned(values: Sequence[Change], program: Comparison) -> FewValues:
    if not program.carries_others:
        return FewValues(paths=_paths(values), why="results")
    return FewValues(paths=_paths(values), why="carried" if program.returns_others else "program")


def _as_arguments(
    changes: tuple[Change, ...], values: Sequence[Change], program: Comparison
) -> Advice | None:
    if program.names_results:
        return _returned(values, program)
    if any(map(_is_of_another_length, values)):
        # As an argument, a tuple of another length is another key.
        return FewValues(paths=_paths(values), why="program")
    constants = _constants(values, program)
    if constants and program.has_other_arrays:
        constants += filter(is_arrays, values)
    amounts = constants or [value for value in values if is_amount(value)]
    texts = [] if constants else [value for value in values if value not in amounts]
    if texts and not (amounts and all(set(types_of(value)) == {"str"} for value in texts)):
        return None
    if (found := _optimizer(changes, amounts)) is not None:
        holder, kept = found
        return InjectHyperparams(
            paths=_paths(amounts), holder=holder, kept=kept, proof=Proof.CONSTANTS
        )
    held = tuple([c for c in changes if c.component in HELD and is_function(c)])
    functions = [path for path in _objects(held, amounts) if path is not None]
    objects = [path for path in _objects(changes, amounts) if path not in functions]
    outside = tuple(path for path in objects if path is not None)
    # Whether a comparison written by hand leaves out what the object holds is not known.
    kept = [one for one in changes if one.path in outside and not is_compared_by_fields(one)]
    return ToArgument(
        paths=_paths([value for value in values if value in amounts or value in texts]),
        texts=_paths(texts),
        outside=outside,
        type=type_name(types_of(kept[0])[1]) if kept else None,
        function=functions[0] if functions else None,
        computed=not constants,
        folded=program.folds,
        fixed=tuple(sorted(program.fixed)),
        one_type=any(len(set(map(_kind, values_of(value)))) > 1 for value in amounts),
        unread=_paths([v for v in values if v not in amounts]) if constants else (),
        proof=Proof.MEANING if program.fixed or texts else Proof.CONSTANTS,
    )


def kind_of(value: Value) -> str:
    """Its type, of a tuple with those of its items: each is a leaf if the tuple is passed."""
    data = value.data
    if value.type != "tuple" or not isinstance(data, list):
        return value.type
    items = {type(one).__name__ for one in cast(list[JSON], data)}
    return f"tuple of {', '.join(sorted(items))}"


def _kind(value: Value | None) -> str:
    return "" if value is None else kind_of(value)


def _is_of_another_length(value: Change) -> bool:
    sides = [side.data for side in values_of(value) if side is not None]
    return len({len(cast(list[object], one)) for one in sides if isinstance(one, list)}) > 1


def _optimizer(changes: tuple[Change, ...], amounts: Sequence[Change]) -> tuple[str, str] | None:
    """The optax optimizer that holds all of these numbers, whose state can hold them instead.

    With the class of the argument that it is a part of, if it is none itself.
    """
    for change in changes:
        path = change.path
        if path is None or change.component not in OF_ARGUMENTS:
            continue
        _, new = values_of(change)
        inner = () if new is None else places(new, _is_optax)
        for holder in (path, *(f"{path}{each}" for each in inner)):
            if holder == path and not all(map(_is_optax, types_of(change))):
                continue
            if all(str(value.path).startswith((f"{holder}.", f"{holder}[")) for value in amounts):
                return holder, "" if holder == path or new is None else type_name(new.type)
    return None


def _is_optax(type_: str) -> bool:
    return type_.startswith("optax.")


def _rolled(values: Sequence[Change], program: Comparison) -> Advice:
    found = program.difference
    repeats = () if found is None else found.repeats
    counts = {(block.old, block.new) for block in repeats}
    sure = [value for value in values if numbers(value) in counts]
    counting = sure or _unexplained(values, program)
    if all(types_of(value) == ("bool", "bool") for value in counting):
        return _separate(counting)  # a flag repeats nothing: it decides whether something is
    paths = _paths(counting)
    if all(block.loop for block in repeats):
        return TripsInProgram(paths=paths)
    return LoopInProgram(paths=paths, seen=bool(sure))


def _separate(values: Sequence[Change]) -> Advice:
    paths = _paths(values)
    if all(numbers(value)[0] == numbers(value)[1] is not None for value in values):
        # 2 and 2.0: one number in two types, with results of two dtypes.
        return OneType(paths=paths, proof=Proof.MEANING)
    if not all(map(is_number, values)):
        return FewValues(paths=paths, why="separate")
    return BranchInProgram(paths=paths)


def _paths(values: Sequence[Change]) -> tuple[str, ...]:
    return tuple(value.path for value in values if value.path is not None)


def _objects(changes: tuple[Change, ...], values: Sequence[Change]) -> list[str | None]:
    """The objects that hold the values that should be passed separately."""
    own = {change.path for change in changes if change.component in HELD}
    found = [value.path for value in values if value.path not in own]
    return [
        path
        for path in own
        if any(str(one).startswith((f"{path}.", f"{path}[")) for one in found)
    ]


def are_constants(values: Sequence[Change], program: Comparison) -> bool:
    """Whether these values explain all changed constants of the program."""
    return bool(_constants(values, program))


def _constants(values: Sequence[Change], program: Comparison) -> list[Change]:
    """The values that are constants of the program, if only constants changed in it."""
    pairs = [(value, program.as_constant(numbers(value))) for value in values]
    own = [(value, pair) for value, pair in pairs if is_amount(value)]
    own = [(value, pair) for value, pair in own if pair in program.constants]
    explained = own and program.constants == {pair for _, pair in own}
    return [value for value, _ in own] if explained else []


def _unexplained(values: Sequence[Change], program: Comparison) -> Sequence[Change]:
    """The values that may be the reason: not mere constants, unless nothing else is left."""
    constants, seen = program.constants, program.as_constant
    return [value for value in values if seen(numbers(value)) not in constants] or values


def _values(changes: tuple[Change, ...]) -> list[Change]:
    """The Python values that may have changed the program, with config objects split by field."""
    ignored = {*HELD, Component.FUNCTION, Component.PROGRAM, Component.SIGNATURE}
    if not all(change.component in ignored for change in changes):
        return []
    own = [change for change in changes if change.component in HELD]
    found = {part.path: part for change in own for part in _parts(change) or (change,)}
    kept = innermost([path for path in found if path is not None])
    return [part for path, part in found.items() if path is None or path in kept]


def _parts(change: Change) -> tuple[Change, ...]:
    """The fields of an object that changed, or the items of a tuple if others did not."""
    if not is_plain(change):
        return field_changes(change)
    found = field_changes(change)  # none if it is no tuple, or of another length
    _, new = values_of(change)
    data: object = None if new is None else new.data
    return found if isinstance(data, list) and len(found) < len(cast(list[JSON], data)) else ()


def is_plain_type(type_: str) -> bool:
    """Whether values of the type are numbers, texts, None or tuples, as static arguments are."""
    return type_ in _PLAIN or type_.startswith(("numpy.int", "numpy.uint", "numpy.float"))


def is_plain(change: Change) -> bool:
    """Whether both sides are numbers, texts, None or tuples: hashable and fully recorded."""
    return all(type_ in _PLAIN or type_.startswith("numpy.") for type_ in types_of(change))


def is_amount(change: Change) -> bool:
    """Whether it is a number that can be traced; a bool is meant for an `if`."""
    return is_number(change) and "bool" not in types_of(change) and _fits(change)


def _fits(change: Change) -> bool:
    """Whether an array of JAX, of 32 bits by default, can take the place of these numbers.

    JAX refuses a larger integer, such as a seed. Two times of day since 1970 are the same
    float32, unless Python subtracts first.
    """
    old, new = numbers(change)
    if old is None or new is None:
        return True
    largest = max(abs(old), abs(new))
    if all("int" in type_ for type_ in types_of(change)):
        return largest < _MAX_INTEGER
    return largest < _MAX_EXACT or abs(old - new) >= largest * _LEAST_STEP


def is_number(change: Change) -> bool:
    """Whether both sides are numbers, or tuples of them."""
    if set(types_of(change)) == {"tuple"}:
        return all(value is not None and _are_numbers(value.data) for value in values_of(change))
    # `numpy.float32`, but not `numpy.ndarray`.
    return all(
        type_ in _NUMBERS or type_.startswith(("numpy.int", "numpy.uint", "numpy.float"))
        for type_ in types_of(change)
    )


def _are_numbers(data: JSON) -> bool:
    return isinstance(data, list) and {*map(type, cast(list[JSON], data))} <= {int, float}


def is_no_argument(name: str, changes: tuple[Change, ...]) -> bool:
    """Whether what a body holds cannot be traced: a function, or an object with numbers in it."""
    own = [
        change
        for change in changes
        if change.component in (Component.CLOSURE, Component.DEFAULTS)
        and root(change.path or "") == name
    ]
    return not all(is_arrays(one) or (is_plain(one) and one.path == name) for one in own)

"""What the user could change: one candidate step for each thing that varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from retrace.causes import Cause
from retrace.model import Kind, Listing, Verdict
from retrace.model.advice import (
    CompareByValue,
    JitAndPass,
    LeaveOutValue,
    Library,
    LoopInProgram,
    OneType,
    Sure,
    ToArgument,
    TripsInProgram,
)
from retrace.model.parts import OF_ARGUMENTS, passed
from retrace.plan.at_best import at_best
from retrace.plan.bodies import (
    are_library_bodies,
    around_each,
    is_jitted_around,
    with_own_call,
)
from retrace.plan.edits import VALUES, Edits, edit
from retrace.plan.enclosing import enclosing
from retrace.plan.history import Column, History
from retrace.plan.kept_apart import kept_apart
from retrace.plan.passed_on import passed_on
from retrace.plan.programs import classes, have_own_programs, with_same_contents
from retrace.plan.replay import Mapped
from retrace.plan.step import Pairs, Sizes
from retrace.plan.structures import structures, where_unread
from retrace.reason.held import is_in
from retrace.reason.values import is_plain_type, kind_of

_BY_PROGRAM = ("function", "bodies", "state", *VALUES)
"""Families where the programs show which values could share one program."""
PASSED_BY_CALLER = (
    *OF_ARGUMENTS,
    "dtype",
    "meta",
    "rank",
    "shape",
    "sharding",
    "signature",
    "tree",
    "weak_type",
)
_NOT_FIXABLE = ("repeat",)


@dataclass(slots=True, eq=False)
class Candidate:
    """One change, applied to every column that it affects."""

    family: str
    at: dict[tuple[int, int], Mapped] = field(default_factory=dict[tuple[int, int], Mapped])
    """For each (history, column): what the values become, at best."""
    certain: dict[tuple[int, int], Mapped] = field(default_factory=dict[tuple[int, int], Mapped])
    """The same, for what is certain."""
    sure: Sure = "likely"
    programs: tuple[int, int] | None = None
    """For values that change the program: the number of values and of programs."""
    constants: bool = False
    """Whether the programs differ only in constants, which can become arguments."""
    alike: bool = False
    """Whether the change only asks for one object instead of several equal ones."""
    sizes: Sizes | None = None
    pairs: Pairs | None = None
    around: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Those of `at` that follow others: the operations that compile again as their bodies do."""


def candidates(histories: list[History], listings: Mapping[str, Listing]) -> list[Candidate]:
    """All possible changes except sizes and eager operations, which are handled elsewhere."""
    found: dict[Hashable, Candidate] = {}
    edits = Edits(histories)
    for history in histories:
        families = Counter(column.family for column in history.columns)
        for column in history.columns:
            edits.join(edit(history, column, families), history, column)
    for index, history in enumerate(histories):
        families = Counter(column.family for column in history.columns)
        for number, column in enumerate(history.columns):
            if column.family in _NOT_FIXABLE or column.family == "shape":
                continue
            if history.function.kind is Kind.OP and column.family != "bodies":
                continue
            if column.family in PASSED_BY_CALLER and is_called_by_others(history):
                continue
            if column.family == "function" and is_made_by_library(history):
                continue
            if column.family == "bodies" and are_library_bodies(history):
                continue
            if column.family in ("tree", "meta") and _is_decided(history, column):
                continue
            if column.family == "tree" and _are_derived_inputs(history, column):
                continue
            key = edits.of(edit(history, column, families))
            candidate = found.setdefault(key, Candidate(column.family))
            _take(candidate, (index, number), history, column, listings)
    for candidate in found.values():
        _follow(candidate, enclosing, histories)
        followed = (_follow(candidate, passed_on, histories) for _ in range(_MAX_FOLLOWED))
        all(followed)  # ends with the first that found none
    return [candidate for candidate in found.values() if candidate.at]


_MAX_FOLLOWED = 8
"""Maximum number of functions of which each takes what the one before returns."""


def _follow(
    candidate: Candidate,
    following: Callable[
        [list[History], Mapping[tuple[int, int], Mapped]],
        Iterable[tuple[tuple[int, int], Mapped]],
    ],
    histories: list[History],
) -> bool:
    """Add the columns that follow those of a candidate; returns whether there are any."""
    at = dict(following(histories, candidate.at))
    certain = dict(following(histories, candidate.certain))
    candidate.around.update(at)
    candidate.at |= at
    candidate.certain |= certain
    return bool(at)


def is_called_by_others(history: History) -> bool:
    """Whether no user passes anything to it.

    Only other functions call a library's function, or JAX calls a program that it derived from
    other misses and passes what those computed.
    """
    misses = [verdict.miss for verdict in history.rows]
    return all(
        miss.parent is not None and (history.function.in_library or miss.derived is not None)
        for miss in misses
    )


def _are_derived_inputs(history: History, column: Column) -> bool:
    """Whether JAX passes them to what it derived, which depends on what is differentiated."""
    derived = all(row.miss.derived is not None for row in history.rows)
    return derived and all(path.startswith("args[") for path in column.paths)


def dropped(column: Column) -> Mapped:
    """Map all values to one."""
    return (0,) * (max(column.values) + 1)


def _take(
    candidate: Candidate,
    at: tuple[int, int],
    history: History,
    column: Column,
    listings: Mapping[str, Listing],
) -> None:
    number = max(column.values) + 1
    if column.family == "signature" and have_own_programs(history, column, listings):
        return  # what one call omits is not what another one passes
    if column.family not in _BY_PROGRAM or where_unread(history, column) is not None:
        _take_whole(candidate, at, history, column)
        return
    shared, constants = classes(history, column, listings)
    candidate.constants = candidate.constants or constants
    mapped = tuple(shared.of(value) for value in range(number))
    if column.family in VALUES and (left_out := _left_out(history, column)) is not None:
        mapped, constants = with_same_contents(history, column, mapped, left_out), False
    programs = len(set(mapped))
    if column.family in VALUES:
        if programs == number or (programs > 1 and _is_rolled(history, column)):
            if all(row.miss.parent is not None for row in history.rows):
                return  # no call is saved, and the calling program means these values
            # Each value has its own program: ask the user to keep to one value.
            mapped = dropped(column)
            candidate.sure = "ask"
        elif programs > 1 and shared.alike:
            candidate.sure, candidate.alike = "ask", True
        elif programs > 1:
            candidate.programs = (number, programs)
    elif programs == number:
        return
    candidate.at[at] = at_best(history, column, mapped, shared.programs, _unread(history))
    candidate.certain[at] = mapped
    if column.family in ("function", *VALUES) and constants:
        candidate.certain[at] = _kept(history, column, mapped)
    if candidate.sure != "ask" and constants and (names := _passed_as_one_type(history)):
        candidate.at[at] = _across_types(history, column, mapped, names)
    if column.family == "function":
        edits = candidate.at[at], candidate.certain[at]
        candidate.at[at], candidate.certain[at] = kept_apart(history, column, mapped, *edits)
    if column.family == "bodies" and (constants or is_jitted_around(history)):
        candidate.at[at] = around = around_each(history, column, mapped)
        candidate.certain[at] = tuple(with_own_call(around))


def _take_whole(
    candidate: Candidate, at: tuple[int, int], history: History, column: Column
) -> None:
    """Take a column of which the advice alone says what becomes one."""
    left = where_unread(history, column)
    if left is None:
        left = structures(history, column) if column.family == "tree" else dropped(column)
    if len(set(left)) == max(column.values) + 1:
        return
    candidate.at[at] = candidate.certain[at] = left
    # None may mean something that no array does.
    is_asked = column.family == "signature" and omitted(history, column)
    candidate.sure = "ask" if is_asked else candidate.sure


def _left_out(history: History, column: Column) -> frozenset[str] | None:
    """What a comparison of these objects leaves out if the advice is followed.

    None if the advice is not about how their class compares them.
    """
    found: set[str] = set()
    is_compared = False
    for fix in [row.fix for row in history.rows if row.fix is not None]:
        if not any(is_in(one, column.paths) for one in fix.paths):
            continue
        if isinstance(fix, ToArgument):
            return None  # the object does without what is passed beside it
        if isinstance(fix, LeaveOutValue) and fix.of_object:
            is_compared = True
            found.update(() if fix.read_by else fix.paths)
        elif isinstance(fix, CompareByValue):
            is_compared = True
    return frozenset(found) if is_compared else None


def _unread(history: History) -> frozenset[str]:
    """What is to be left out of the key altogether."""
    found: set[str] = set()
    for row in history.rows:
        if isinstance(row.fix, LeaveOutValue) and not row.fix.read_by:
            found.update(row.fix.paths)
    return frozenset(found)


def _is_rolled(history: History, column: Column) -> bool:
    """Whether every miss has the advice to make one loop of its programs, with traced trips."""
    kinds = (LoopInProgram, TripsInProgram)
    fixes = [row.fix for row in history.rows if row.fix and {*row.fix.paths} & {*column.paths}]
    # A value that came in two types has its own advice, which in the loop is to pass one type.
    rolled = [one for one in fixes if not isinstance(one, OneType)]
    return bool(rolled) and all(isinstance(one, kinds) for one in rolled)


def _passed_as_one_type(history: History) -> frozenset[str]:
    """The values that came in several types and should be passed as one type."""
    found: set[str] = set()
    for row in history.rows:
        match row.fix:
            case JitAndPass(one_type=names):
                found.update(names)
            case ToArgument(one_type=True, paths=names):
                found.update(names)
            case _:
                pass
    return frozenset(found)


def _across_types(
    history: History, column: Column, mapped: Mapped, names: frozenset[str]
) -> Mapped:
    """At best, one program for values that may differ only in type.

    If JAX converts a NumPy number inside the program, that program differs from the one for a
    Python number. Passed as an argument of one type, both share a program.
    """
    types: dict[int, set[Hashable]] = {}
    for row, value in enumerate(column.values):
        miss = history.rows[row].miss
        function = miss.function
        given = (*passed(miss.key), *function.closure, *function.bound, *function.defaults)
        own = tuple((name, kind_of(one)) for name, one in given if name in names)
        types.setdefault(mapped[value], set()).add(own)
    joined: dict[int, int] = {}
    for value, own in types.items():
        other = next((one for one in joined.values() if types[one].isdisjoint(own)), value)
        joined[value] = other
        types[other] = types[other] | own
    return tuple(joined[value] for value in mapped)


def omitted(history: History, column: Column) -> tuple[str, ...]:
    """The parameters in a column that are None where a call omits them."""
    none = {name for name, default in history.function.defaults if default.text == "None"}
    return tuple(path for path in column.paths if path in none)


_MAX_EXTRA = 2


def _kept(history: History, column: Column, mapped: Mapped) -> Mapped:
    """If values repeat, the user may keep one function for each: then fewer misses are gone.

    And what is left out of a key passes no other value of it as an argument.
    """
    leaves_out = any(isinstance(row.fix, LeaveOutValue) for row in history.rows)
    by_hash: dict[str | None, int] = {}
    kept: list[int] = []
    for value in range(len(mapped)):
        rows = [row for row, one in enumerate(column.values) if one == value]
        program = history.rows[rows[0]].miss.program
        held = program.hash if program is not None else None
        kept.append(by_hash.setdefault(held, value))
    few = 0 < len(set(kept)) - len(set(mapped)) <= _MAX_EXTRA and len(set(kept)) < len(mapped)
    if few or leaves_out:
        return tuple(kept)
    return mapped


def _is_decided(history: History, column: Column) -> bool:
    """Whether something else decides the structure, so that nobody makes it one."""
    return is_of_other_models(history, column) or _follows_class(history, column)


def is_of_other_models(history: History, column: Column) -> bool:
    """Whether each value came with the structure of another model, with a program of its own."""
    first = dict[int, Verdict]()
    for verdict, value in zip(history.rows, column.values, strict=True):
        first.setdefault(value, verdict)
    others = [verdict for value, verdict in first.items() if value]
    return bool(others) and all(
        one.cause is Cause.TREE_STRUCTURE_CHANGED and one.avoidable == "no" for one in others
    )


def _follows_class(history: History, column: Column) -> bool:
    """Whether the class of a static argument decides the structure: one state per class."""
    for other in history.columns:
        if other.family not in OF_ARGUMENTS:
            continue
        for path in other.paths:
            given = [dict(passed(row.miss.key)).get(path) for row in history.rows]
            types = ["" if value is None else value.type for value in given]
            if len({*types}) < 2 or any(is_plain_type(one) for one in types if one):
                continue
            if len({*zip(types, column.values, strict=True)}) == len({*types}):
                return True
    return False


def is_made_by_library(history: History) -> bool:
    """Whether a library creates the function itself, inside a call by the user."""
    miss = history.rows[0].miss
    if any(
        isinstance(row.fix, Library) and (row.fix.maker or not row.miss.function.in_library)
        for row in history.rows
    ):
        # Created at each call, or the user's function wrapped and jitted by a library.
        return True
    return miss.function.in_library and (miss.function.kind is Kind.LAMBDA or miss.ahead)

"""Functions of which each keeps its own program: over other static values, or other objects."""

from __future__ import annotations

from collections.abc import Hashable

from retrace.model.advice import JitAndPass, JitForEach, KeepBound
from retrace.plan.bodies import contents, given_to
from retrace.plan.history import Column, History
from retrace.plan.replay import Mapped
from retrace.reason.held import SELF
from retrace.reason.rules import root


def kept_apart(
    history: History, column: Column, mapped: Mapped, at_best: Mapped, certain: Mapped
) -> tuple[Mapped, Mapped]:
    """What a column of functions becomes where the advice keeps some of them apart.

    Args:
        history: the misses of one function.
        column: its function objects.
        mapped: which of them share a program.
        at_best: what they become at best, otherwise.
        certain: what they certainly become, otherwise.

    Returns:
        The last two.
    """
    if static := _static(history):
        certain = _by_static(history, column, mapped, static)
    if any(isinstance(row.fix, KeepBound) and row.fix.is_method for row in history.rows):
        certain = _by_object(history, column, certain, frozenset((SELF,)))
    if kept := _kept_for_each(history):
        at_best = _by_object(history, column, at_best, kept)
        certain = _by_object(history, column, certain, kept)
    return at_best, certain


def _static(history: History) -> frozenset[str]:
    """The captured values of which each keeps its own program, as static arguments do."""
    found: set[str] = set()
    for row in history.rows:
        match row.fix:
            case JitForEach(by_value=True, paths=paths, static=names):
                found.update((*paths, *names))
            case JitAndPass(static=names) | JitForEach(static=names):
                found.update(names)
            case _:
                pass
    return frozenset(found)


def _kept_for_each(history: History) -> frozenset[str]:
    """The objects for each of which one function is kept: another object has its own."""
    fixes = [row.fix for row in history.rows if isinstance(row.fix, JitForEach)]
    own = [one for one in fixes if not one.same and not one.by_value and not one.injects]
    return frozenset(path for one in own for path in one.paths)


def _by_object(history: History, column: Column, mapped: Mapped, names: frozenset[str]) -> Mapped:
    """One value for all functions that share a program and hold the same or equal objects."""
    known: dict[Hashable, int] = {}
    found: list[int] = []
    for value in range(len(mapped)):
        function = history.rows[column.values.index(value)].miss.function
        own = [
            (name, one)
            for name, one in given_to(function)
            if name in {root(path) for path in names}
        ]
        keys: list[Hashable] = [(mapped[value], tuple((name, one.token) for name, one in own))]
        if SELF not in names:
            # What is passed beside an object may have changed in it.
            keys.append((mapped[value], contents((function,), names)))
        shared = next((known[key] for key in keys if key in known), value)
        known.update(dict.fromkeys(keys, shared))
        found.append(shared)
    return tuple(found)


def _by_static(
    history: History, column: Column, mapped: Mapped, static: frozenset[str]
) -> Mapped:
    """One value for all functions that share a program and capture the same static values."""
    known: dict[Hashable, int] = {}
    found: list[int] = []
    for value in range(len(mapped)):
        row = column.values.index(value)
        held = contents((history.rows[row].miss.function,), static)
        found.append(known.setdefault((mapped[value], held), value))
    return tuple(found)

"""Compares recorded misses with the baseline: what is new, what is no longer needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from retrace.guards.baseline import (
    Causes,
    Difference,
    Functions,
    Names,
    counted,
    difference,
    is_new,
    more,
)
from retrace.model import Verdict
from retrace.present.view import View
from retrace.present.words import count, listed, times

_MAX_LINES = 40
"""Maximum number of diff lines shown; the rest are counted."""


class Drift(NamedTuple):
    """How a recording differs from the baseline."""

    heads: list[str]
    """A line for each function that misses more often."""
    lines: list[str]
    """The same, as a diff of the baseline."""
    verdicts: list[Verdict]
    """The misses of the causes that grew."""
    notes: list[str]
    """Further messages; diff lines follow the first line."""
    updated: dict[str, Functions]
    """The programs as they should be saved."""


def of_programs(
    view: View, names: Names, known: Mapping[str, Functions] | None, file: str
) -> Drift:
    """Compare the programs of a recording with the baseline, each process separately.

    Args:
        view: the recording.
        names: the names of its functions and programs.
        known: the programs in the baseline, if it has any.
        file: the name of the baseline, for messages.
    """
    known = known or {}
    runs = {run.id: names.program(run) for run in view.recording.runs}
    seen, whole = _by_program(view, names, runs)
    notes: list[str] = []
    drift = Drift([], [], [], notes, {**known})
    raised, lowered = {**known}, {**known}
    for program, functions in seen.items():
        before = known.get(program, {})
        drift.updated[program] = functions if program in whole else _maxima([before, functions])
        if program not in known:
            notes.append(f"{file} has no entry for {program}: `retrace check --update` adds it")
            continue
        new: list[str] = []
        raised[program], lowered[program] = {**before}, {}
        for function, causes in functions.items():
            old = before.get(function, {})
            if is_new(old, causes):
                new.append(function)
            elif extra := more(old, causes):
                drift.heads.append(head(function, old, causes, file))
                drift.verdicts.extend(
                    verdict
                    for verdict in view.verdicts
                    if runs[verdict.miss.run] == program
                    and verdict.cause.value in extra
                    and names.of(verdict) == function
                )
                raised[program][function] = causes
        for function, old in before.items():
            left = {c: min(n, functions.get(function, {}).get(c, 0)) for c, n in old.items()}
            if any(left.values()):
                lowered[program][function] = {c: n for c, n in left.items() if n}
        if program not in whole:
            lowered[program] = before
            notes.append(f"{program} was not recorded to its end: its entries are not lowered")
        if new:
            notes.append(not_yet(new, file, "retrace check --update"))
    drift.lines.extend(shown(difference("programs", known, raised)))
    notes += unused(difference("programs", known, lowered), file, "retrace check --update")
    return drift


def head(function: str, old: Causes, new: Causes, file: str) -> str:
    """`train.py::step missed JAX's caches 3 times, once in FILE: shape-changed +2`."""
    before = sum(old.values())
    had = times(before) if before else "never"
    grown = [f"{cause} +{by:,}" for cause, by in more(old, new).items()]
    return (
        f"{function} missed JAX's caches {times(sum(new.values()))}, {had} in {file}: "
        f"{listed(grown, 6)}"
    )


def not_yet(functions: Sequence[str], file: str, command: str) -> str:
    """The message about new functions that were only traced for the first time."""
    named = listed(sorted(functions), 4)
    return (
        f"not in {file} yet: {named}; `{command}` adds {'it' if len(functions) == 1 else 'them'}"
    )


def unused(left: Difference, file: str, command: str) -> list[str]:
    """The message about entries that are higher than needed, or not needed at all."""
    number = left.removed + left.changed
    if not number:
        return []
    entries = f"{count(number, 'entry', 'entries')} of {file} can be lowered or dropped"
    return ["\n".join([f"{entries} with `{command}`:", *shown(left)])]


def update_note(change: Difference, file: str) -> str:
    """The message about an update."""
    if not change.lines:
        return f"{file} is up to date"
    summary = str(change)
    return "\n".join([f"{file}: {summary}" if summary else f"{file} written", *shown(change)])


def shown(change: Difference) -> list[str]:
    """The lines of a difference, cut if there are too many."""
    if len(change.lines) <= _MAX_LINES:
        return change.lines
    return [
        *change.lines[:_MAX_LINES],
        f"and {count(len(change.lines) - _MAX_LINES, 'more line')}",
    ]


def _by_program(
    view: View, names: Names, runs: Mapping[str, str]
) -> tuple[dict[str, Functions], set[str]]:
    """The misses of each program (the maximum over its processes), and the complete programs."""
    found: dict[str, list[Functions]] = {}
    for run in view.recording.runs:
        own = counted((v for v in view.verdicts if v.miss.run == run.id), names)
        found.setdefault(runs[run.id], []).append(own)
    partial = {
        runs[run.id]
        for run in view.recording.runs
        if run.losses or run.raised or not run.complete
    }
    return {program: _maxima(each) for program, each in found.items()}, set(found) - partial


def _maxima(each: Iterable[Functions]) -> Functions:
    found: Functions = {}
    for functions in each:
        for function, causes in functions.items():
            maxima = found.setdefault(function, {})
            for cause, number in causes.items():
                maxima[cause] = max(maxima.get(cause, 0), number)
    return found

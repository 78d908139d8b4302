"""Where two runs of a suite differ, and where a recording and JAX's own counters do."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from retrace.compare.keys import changes
from retrace.compare.replay import apply
from retrace.model import Verdict
from retrace.reason.rules import in_key
from tests.suites.runs import Run, Test

COUNTED = (
    "trace",
    "trace of JAX's",
    "trace of a body",
    "trace of a derived program",
    "lower",
    "compile",
)
"""What JAX is asked about. A body is one of `scan`, `cond` and their like; a derived program is
one that JAX makes from a trace that it has, such as a backward one."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def between(plain: Run, other: Run) -> dict[str, list[str]]:
    """What the tests of two runs came to differently, by test."""
    found: dict[str, list[str]] = {}
    ours = {_name(test): test for test in plain.tests}
    theirs = {_name(test): test for test in other.tests}
    for name in ours.keys() | theirs.keys():
        if name not in ours or name not in theirs:
            found[name] = ["ran in one of the two alone"]
        elif differences := [*_differences(ours[name], theirs[name])]:
            found[name] = differences
    if plain.status != other.status and plain.outcomes() == other.outcomes():
        found["the whole"] = [f"exit status {plain.status}, then {other.status}"]
    return found


def _name(test: Test) -> str:
    return _ADDRESS.sub("0x...", test.name)


def _differences(plain: Test, other: Test) -> Iterator[str]:
    if plain.outcomes != other.outcomes:
        yield f"came to {plain.outcomes}, then {other.outcomes}"
    if plain.warnings != other.warnings:
        yield f"warned {plain.warnings}, then {other.warnings}"
    for kind in COUNTED:
        before, after = plain.events[kind], other.events[kind]
        if before != after:
            names = _only(_of_kind(plain.names, kind), _of_kind(other.names, kind))
            yield f"{kind}: {before}, then {after} ({names})"
    for function in sorted(plain.arrays.keys() | other.arrays.keys()):
        before, after = (test.arrays.get(function, [0, 0]) for test in (plain, other))
        if before != after:
            yield f"arrays of {function}: {before[0]}, then {after[0]}, not the same bits"


def _of_kind(names: Counter[str], kind: str) -> Counter[str]:
    """The counts of one kind, by the function's name alone."""
    start = f"{kind}: "
    return Counter(
        {name[len(start) :]: count for name, count in names.items() if name.startswith(start)}
    )


def _by_name(sources: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for source, count in sources.items():
        found[source.partition(" at ")[0]] += count
    return found


def _only(first: Counter[str], then: Counter[str]) -> str:
    def told(counts: Counter[str]) -> str:
        return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"

    return f"only first: {told(first - then)}; only then: {told(then - first)}"


def from_counters(run: Run) -> dict[str, list[str]]:
    """Where the misses that were recorded are not those that JAX counted, by test."""
    misses = _by_test(run)
    found: dict[str, list[str]] = {}
    for index, test in enumerate(run.tests):
        if differences := [*_uncounted(test, misses.get(index, []))]:
            found[_name(test)] = differences
    return found


def _by_test(run: Run) -> dict[int, list[Mapping[str, Any]]]:
    """The misses of each test, told by the time at which they began."""
    starts = [test.began for test in run.tests]
    found: dict[int, list[Mapping[str, Any]]] = {}
    for miss in run.report.get("misses", ()):
        at = datetime.fromisoformat(miss["time"]).timestamp()
        found.setdefault(max(0, bisect_right(starts, at) - 1), []).append(miss)
    return found


def _uncounted(test: Test, misses: list[Mapping[str, Any]]) -> Iterator[str]:
    names: Counter[str] = Counter()
    for miss in misses:
        for stage, seconds in miss["stages"].items():
            if seconds is not None:
                names[f"{stage}: {miss['function']['jax_name']}"] += 1
    for stage in ("lower", "compile"):
        recorded = sum(miss["stages"][stage] is not None for miss in misses)
        if recorded != test.events[stage]:
            yield (
                f"{stage}: {test.events[stage]} counted, {recorded} recorded "
                f"({_only(_of_kind(test.names, stage), _of_kind(names, stage))})"
            )
    traced = [miss for miss in misses if miss["stages"]["trace"] is not None]
    users = Counter(_source(miss) for miss in traced if miss["function"]["kind"] != "op")
    counted = _of_kind(test.names, "trace")
    # Where JAX names its own wrapper, such as pmap's, the recording names what is behind it.
    wrapped = _by_name(_of_kind(test.names, "trace of JAX's"))
    most = counted.total() + (_by_name(users) & wrapped).total()
    if not counted.total() <= users.total() <= most:
        yield (
            f"trace: {counted.total()} counted, {users.total()} recorded "
            f"({_only(counted, users)})"
        )
    # The bodies of an eager operation and what JAX derives belong to the miss around them.
    most = sum(test.events[kind] for kind in COUNTED[:4])
    least = most - test.events["trace of a body"] - test.events["trace of a derived program"]
    told = len(traced) + sum(miss["inner"] for miss in misses)
    if not least <= told <= most:
        yield f"all traces: {least} to {most} counted, {told} recorded with the inner ones"


def _source(miss: Mapping[str, Any]) -> str:
    function = miss["function"]
    return f"{function['jax_name']} at {function['file']}:{function['line']}"


def unsound(verdicts: Iterable[Verdict]) -> list[str]:
    """The misses whose listed changes do not turn the nearest key into their own."""
    found: list[str] = []
    for verdict in verdicts:
        near, miss = verdict.nearest, verdict.miss
        if near is None:
            continue
        made = apply(verdict.changes, near)
        if miss.program is None or near.program is None:
            made = replace(made, program=miss.program)
        if left := in_key(changes(made, miss)):
            found.append(f"{miss.id} {miss.function.name}: {left[0]}")
    return found


def unexplained(run: Run) -> list[str]:
    """The misses whose cause is `unknown`."""
    return [
        f"{miss['id']} {miss['function']['name']} at {miss['call_site'] and _line(miss)}"
        for miss in run.report.get("misses", ())
        if miss["cause"] == "unknown"
    ]


def causes(run: Run) -> Counter[str]:
    """How many misses have which cause."""
    return Counter(miss["cause"] for miss in run.report.get("misses", ()))


def _line(miss: Mapping[str, Any]) -> str:
    return f"{miss['call_site']['file']}:{miss['call_site']['line']}"


def losses(run: Run) -> Counter[str]:
    """What the recording says that it lacks, by reason."""
    found: Counter[str] = Counter()
    for process in run.report.get("runs", ()):
        found.update(process["losses"])
    return found

"""Processes that were cut short; their recordings say nothing about later misses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrace.model import Miss, Recording, Run


def unfinished(runs: Sequence[Run], misses: Iterable[Miss]) -> list[tuple[Run, Miss | None]]:
    """The processes that did not close their recording, each with what it was doing."""
    at = _at(misses)
    return [
        (run, at.get(run.id))
        for run in runs
        if not run.complete and (run.id in at or _ended_by(run, runs) is None)
    ]


def ended_idle(runs: Sequence[Run], misses: Iterable[Miss]) -> dict[int, list[Run]]:
    """Idle processes that did not close their recording although their parent did.

    A multiprocessing pool leaves its workers like this: the parent ends them with a signal. They
    are listed under their parent's process number.
    """
    at = _at(misses)
    found: dict[int, list[Run]] = {}
    for run in runs:
        if not run.complete and run.id not in at and (by := _ended_by(run, runs)) is not None:
            found.setdefault(by, []).append(run)
    return found


def cut_short(recording: Recording) -> list[tuple[Run, str | None]]:
    """Processes that ended early, with the exception that ended them, if any.

    Processes still running are included, because they look like killed ones. Workers of a pool
    whose parent finished are not: it ends them once it has their results, and what they were
    doing may have been finished without being written yet.
    """
    found: list[tuple[Run, str | None]] = [
        (run, run.raised) for run in recording.runs if run.raised is not None
    ]
    stopped = unfinished(recording.runs, recording.misses)
    return found + [
        (run, None)
        for run, _ in stopped
        if run.raised is None
        and (run.daemon_of is None or _ended_by(run, recording.runs) is None)
    ]


def _at(misses: Iterable[Miss]) -> dict[str, Miss]:
    return {miss.run: miss for miss in misses if miss.in_flight is not None}


def _ended_by(run: Run, runs: Sequence[Run]) -> int | None:
    """The process that started it, if that one closed its own recording."""
    parent = run.daemon_of  # set unless a forkserver forked it
    if parent is None:
        parent = run.started_by if run.forked_by is None else run.forked_by
    # Start times prove nothing: a parent may import jax after its children.
    own = [
        other.complete
        for other in runs
        if (other.pid, other.host, other.attempt) == (parent, run.host, run.attempt)
    ]
    return parent if own and all(own) else None

"""Which processes were cut short: a recording proves nothing of what they would have missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrace.model import Miss, Recording, Run


def unfinished(runs: Sequence[Run], misses: Iterable[Miss]) -> list[tuple[Run, Miss | None]]:
    """The processes that did not close their recording, each with what it was at."""
    at = _at(misses)
    return [
        (run, at.get(run.id))
        for run in runs
        if not run.complete and (run.id in at or _ended_by(run, runs) is None)
    ]


def ended_idle(runs: Sequence[Run], misses: Iterable[Miss]) -> dict[int, list[Run]]:
    """Processes that did not close their recording, idle ones of a parent that did.

    So a pool of multiprocessing's leaves its workers: their parent ends them by a signal.
    They are listed under the number of their parent's process.
    """
    at = _at(misses)
    found: dict[int, list[Run]] = {}
    for run in runs:
        if not run.complete and run.id not in at and (by := _ended_by(run, runs)) is not None:
            found.setdefault(by, []).append(run)
    return found


def cut_short(recording: Recording) -> list[tuple[Run, str | None]]:
    """The processes that were ended before their time, with the exception where one did it.

    Those that are still running are among them: nothing tells them from killed ones. The workers
    of a pool are not, whose parent ran to its end: it ends them once it has what they were for,
    and what they were at may have been over, and not been written yet.
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
    """The process that started it, where that one ended its own recording."""
    parent = run.daemon_of  # which a forkserver did not fork
    if parent is None:
        parent = run.started_by if run.forked_by is None else run.forked_by
    # By the time that they began nothing is told: a parent may import jax after its children.
    own = [
        other.complete
        for other in runs
        if (other.pid, other.host, other.attempt) == (parent, run.host, run.attempt)
    ]
    return parent if own and all(own) else None

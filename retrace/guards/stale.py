"""Checks after a test that no program it traced is out of date."""

from __future__ import annotations

from typing import NamedTuple


class Start(NamedTuple):
    """The state of this process when a test begins."""

    misses: int
    """How many misses there have been."""
    traced: int
    """How many programs they have traced."""


class OutOfDate(NamedTuple):
    """The result of the check."""

    heads: list[str]
    """A line for each program that is out of date, or the reason why nothing was checked."""
    text: str
    """The explanation; empty if none is out of date."""
    gone: str = ""
    """What could not be checked because JAX no longer keeps it; may be empty."""


def start() -> Start:
    """The current state of this process."""
    from retrace.capture.session import session

    misses = getattr(session().recorder, "misses", None)
    return Start(0, 0) if misses is None else Start(misses.begun, misses.kept.traced)


def out_of_date(since: Start) -> OutOfDate:
    """The programs traced since the start of a test that are out of date."""
    from retrace.auditing.examination import Limits
    from retrace.auditing.request import audit
    from retrace.inside.stale import report_of

    found = audit(Limits(since=since.misses, traced=since.traced))
    if found is None:
        return OutOfDate(["stale: the audit could not run, so nothing was checked"], "")
    gone, looked_at = found.audit.gone, found.audit.programs
    unchecked = (
        f'stale="fail" could not check {gone} of {gone + looked_at} programs: JAX had dropped '
        "them by the end of the test, as it does for functions local to a test. Call "
        "retrace.audit() in the test, or keep the functions in a fixture or a module"
        if gone
        else ""
    )
    every = report_of(found)
    bad = [one for one in every if one.verdict == "proved"]
    if not bad:
        return OutOfDate([], "", unchecked)
    heads = [
        f"{one.function} is out of date: {', '.join(read['name'] for read in one.reads)} "
        "changed after its trace"
        if one.reads
        else f"{one.function} is out of date: traced now, its program is different"
        for one in bad
    ]
    return OutOfDate(heads, str(every), unchecked)

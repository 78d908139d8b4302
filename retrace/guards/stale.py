"""A test after which no program that it traced may be out of date."""

from __future__ import annotations

from typing import NamedTuple


class Start(NamedTuple):
    """Where a test begins."""

    misses: int
    """How many there have been in this process."""
    traced: int
    """How many programs these have traced."""


class OutOfDate(NamedTuple):
    """What came of it."""

    heads: list[str]
    """A line for each program that is out of date, or for why that cannot be told."""
    text: str
    """The explanation of all; empty where there is none."""
    gone: str = ""
    """What could not be checked, since JAX keeps it no more; empty where it keeps all."""


def start() -> Start:
    """Where this process stands."""
    from retrace.capture.session import session

    misses = getattr(session().recorder, "misses", None)
    return Start(0, 0) if misses is None else Start(misses.begun, misses.kept.traced)


def out_of_date(since: Start) -> OutOfDate:
    """Which programs are out of date that have been traced since the start of a test."""
    from retrace.auditing.examination import Limits
    from retrace.auditing.request import audit
    from retrace.inside.stale import told

    found = audit(Limits(since=since.misses, traced=since.traced))
    if found is None:
        return OutOfDate(["stale: no audit could be made, so that nothing was checked"], "")
    gone, looked_at = found.audit.gone, found.audit.programs
    unchecked = (
        f'stale="fail" could not check {gone} of {gone + looked_at} programs: JAX had let go of '
        "them when the test ended, as it does where a function is local to the test. Call "
        "retrace.audit() in the test, or keep the functions in a fixture or a module"
        if gone
        else ""
    )
    every = told(found)
    bad = [one for one in every if one.verdict == "proved"]
    if not bad:
        return OutOfDate([], "", unchecked)
    heads = [
        f"{one.function} is out of date: {', '.join(read['name'] for read in one.reads)} "
        "changed after its trace"
        if one.reads
        else f"{one.function} is out of date: traced now, it is another program"
        for one in bad
    ]
    return OutOfDate(heads, str(every), unchecked)

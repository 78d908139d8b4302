"""Checks after a test that no program it traced is out of date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from retrace.inside.stale import Stale

_MAX_NAMED = 3


class Start(NamedTuple):
    """The state of this process when a test begins."""

    misses: int
    """How many misses there have been."""
    traced: int
    """How many programs they have traced."""


class Within(NamedTuple):
    """The time limits of the check, in seconds, as those of `retrace.audit`."""

    seconds: float = 10.0
    """For each function."""
    total: float = 60.0
    """For all functions."""


class OutOfDate(NamedTuple):
    """The result of the check."""

    heads: list[str]
    """A line for each program that is out of date, or the reason why nothing was checked."""
    text: str
    """The explanation; empty if none is out of date."""
    doubt: str = ""
    """What could not be checked, and why; may be empty."""


def start() -> Start:
    """The current state of this process."""
    from retrace.capture.session import session

    misses = getattr(session().recorder, "misses", None)
    return Start(0, 0) if misses is None else Start(misses.begun, misses.kept.traced)


def out_of_date(since: Start, within: Within) -> OutOfDate:
    """The programs traced since the start of a test that are out of date."""
    from retrace.auditing.examination import Limits
    from retrace.auditing.request import audit
    from retrace.inside.stale import report_of

    found = audit(Limits(*within, since=since.misses, traced=since.traced))
    if found is None:
        return OutOfDate(["stale: the audit could not run, so nothing was checked"], "")
    every = report_of(found)
    doubt = "; ".join(_unchecked(found.audit.gone, found.audit.programs, every))
    bad = [one for one in every if one.verdict == "proved"]
    if not bad:
        return OutOfDate([], "", doubt)
    heads = [
        f"{one.function} is out of date: {', '.join(read['name'] for read in one.reads)} "
        "changed after its trace"
        if one.reads
        else f"{one.function} is out of date: traced now, its program is different"
        for one in bad
    ]
    return OutOfDate(heads, str(every), doubt)


def _unchecked(gone: int, looked_at: int, every: Sequence[Stale]) -> Iterator[str]:
    if gone:
        yield (
            f'stale="fail" could not check {gone} of {gone + looked_at} programs: JAX had '
            "dropped them by the end of the test, as it does for functions local to a test. "
            "Call retrace.audit() in the test, or keep the functions in a fixture or a module"
        )
    unknown = [one for one in every if one.verdict != "proved"]
    if unknown:
        named = [f"{one.function} ({one.reason})" for one in unknown[:_MAX_NAMED]]
        if len(unknown) > _MAX_NAMED:
            named.append(f"{len(unknown) - _MAX_NAMED} more")
        yield f'stale="fail" could not tell whether these are up to date: {", ".join(named)}'

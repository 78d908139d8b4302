"""Which programs are stale, according to the audits in a recording.

proved        traced again, the function gives another program
each-trace    every trace gives another program
perhaps       something it reads has changed, and it could not be traced again
not-checked   it could not be traced again, and nothing it reads is known to have changed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from retrace.compare.programs import Difference, compare
from retrace.model import (
    Audit,
    Checked,
    Function,
    Listing,
    Miss,
    Outcome,
    Reason,
    Recording,
    Source,
)
from retrace.reason.remedy import (
    Change,
    Remedy,
    StaleVerdict,
    changes,
    others_wrote,
    remedy,
)

_ORDER: tuple[StaleVerdict, ...] = ("proved", "each-trace", "perhaps", "not-checked")


def _rank(verdict: StaleVerdict) -> int:
    return _ORDER.index(verdict)


class Stale(NamedTuple):
    """The audits' findings about one function."""

    miss: Miss
    """The miss that traced the program; the latest if there are several."""
    verdict: StaleVerdict
    reads: tuple[Change, ...]
    reason: Reason | None
    detail: str
    difference: Difference | None
    returned: tuple[str, str] | None
    """What it returned besides arrays when it was traced, and now, if that differs."""
    sources: tuple[Source, ...]
    fix: Remedy | None
    since: Audit
    """The first audit that found this."""
    before: Audit | None
    """The last earlier audit that found the program up to date."""
    until: Audit | None
    """A later audit that found the program up to date again."""
    programs: int
    """The number of programs of the function that this is about."""
    disturbed: tuple[str, ...]

    @property
    def function(self) -> Function:
        """The function of the miss."""
        return self.miss.function


class Audited(NamedTuple):
    """What all audits of a recording add up to."""

    stale: tuple[Stale, ...]
    """Worst first."""
    audits: int
    programs: int
    """Programs examined in the last audit of each process."""
    harmless: tuple[str, ...]
    """Changed values that left the programs reading them unchanged."""
    gone: int = 0
    """Programs that JAX had dropped by the last audit of their process."""
    disturbed: tuple[str, ...] = ()
    """Values changed by tracing programs again that are up to date."""


def audited(recording: Recording) -> Audited | None:
    """What the audits found, or None if there were none."""
    if not recording.audits:
        return None
    by_number = {(miss.run, miss.number): miss for miss in recording.misses}
    found: dict[tuple[str, str, StaleVerdict], Stale] = {}
    harmless: dict[str, None] = {}
    disturbed: dict[str, None] = {}
    last: dict[str, Audit] = {}
    for run, audits in _by_run(recording.audits).items():
        last[run] = audits[-1]
        for number, history in _histories(audits).items():
            miss = by_number.get((run, number))
            if miss is None:
                continue
            harmless.update(
                (read.name, None)
                for _, one in history
                if one is not None and one.outcome is Outcome.SAME
                for read in one.reads
            )
            disturbed.update(
                (name, None)
                for _, one in history
                if one is not None and one.outcome is Outcome.SAME
                for name in one.disturbed
            )
            stale = _stale(miss, history, recording)
            if stale is not None:
                key = (run, miss.function.site, stale.verdict)
                known = found.get(key)
                found[key] = stale if known is None else _merged(known, stale)
    # If one program of a function is proved stale, another's "perhaps" is not reported.
    worst: dict[tuple[str, str], int] = {}
    for run, site, verdict in found:
        rank = _rank(verdict)
        worst[run, site] = min(worst.get((run, site), rank), rank)
    reported = [
        one for (run, site, verdict), one in found.items() if _rank(verdict) == worst[run, site]
    ]
    reported.sort(key=lambda one: (_rank(one.verdict), one.miss.number))
    return Audited(
        tuple(reported),
        len(recording.audits),
        sum(audit.programs for audit in last.values()),
        tuple(harmless),
        sum(audit.gone for audit in last.values()),
        tuple(disturbed),
    )


def together(one: Audited | None, other: Audited | None) -> Audited | None:
    """Combine the audits of several processes."""
    if one is None or other is None:
        return one or other
    stale = sorted((*one.stale, *other.stale), key=lambda each: _rank(each.verdict))
    return Audited(
        tuple(stale),
        one.audits + other.audits,
        one.programs + other.programs,
        tuple(dict.fromkeys((*one.harmless, *other.harmless))),
        one.gone + other.gone,
        tuple(dict.fromkeys((*one.disturbed, *other.disturbed))),
    )


def _by_run(audits: Iterable[Audit]) -> dict[str, list[Audit]]:
    found: dict[str, list[Audit]] = {}
    for audit in audits:
        found.setdefault(audit.run, []).append(audit)
    return found


_History: TypeAlias = list[tuple[Audit, Checked | None]]


def _histories(audits: Iterable[Audit]) -> dict[int, _History]:
    """For each program, what each audit says about it; None if it is up to date."""
    found: dict[int, _History] = {}
    for audit in audits:
        checked_by_number = {one.miss: one for one in audit.checked}
        for number in {*audit.same, *checked_by_number}:
            found.setdefault(number, []).append((audit, checked_by_number.get(number)))
    return found


def _stale(miss: Miss, history: _History, recording: Recording) -> Stale | None:
    ranked: list[tuple[StaleVerdict | None, Audit, Checked | None]] = [
        (_verdict(miss, one), audit, one) for audit, one in history
    ]
    ranks = [_rank(verdict) for verdict, _, _ in ranked if verdict is not None]
    if not ranks:
        return None
    worst = _ORDER[min(ranks)]
    at = next(i for i, (verdict, _, _) in enumerate(ranked) if verdict == worst)
    since = ranked[at][1]
    checked = next(one for verdict, _, one in reversed(ranked) if verdict == worst)
    assert checked is not None
    before = next((a for v, a, _ in reversed(ranked[:at]) if v is None), None)
    until = next((a for v, a, _ in ranked[at:] if v is None), None)
    difference = _difference(checked, recording)
    reads = changes(checked, difference)
    return Stale(
        miss,
        worst,
        reads,
        checked.reason,
        checked.detail,
        difference,
        checked.returned and (checked.returned[0].text, checked.returned[1].text),
        checked.sources,
        remedy(miss.function, worst, reads, checked.sources, difference),
        since,
        before,
        until,
        1,
        checked.disturbed,
    )


def _verdict(miss: Miss, checked: Checked | None) -> StaleVerdict | None:
    if checked is None or checked.outcome is Outcome.SAME:
        return None
    if checked.outcome is Outcome.OTHER:
        return "proved"
    if checked.outcome is Outcome.EACH:
        return "each-trace"
    # What a library reads from itself is reported only if proved.
    if miss.function.in_library or not others_wrote(checked):
        return "not-checked"
    return "perhaps"


def _merged(known: Stale, other: Stale) -> Stale:
    latest = max(known, other, key=lambda one: one.miss.number)
    reads = {change.name: change for change in (*known.reads, *other.reads)}
    first = min(known, other, key=lambda one: one.since.number)
    return latest._replace(
        reads=tuple(reads.values()),
        since=first.since,
        before=first.before,
        programs=known.programs + other.programs,
    )


def _difference(checked: Checked, recording: Recording) -> Difference | None:
    ids = (
        (checked.new, checked.again) if checked.again is not None else (checked.old, checked.new)
    )
    old, new = [None if id_ is None else _listing(recording, id_) for id_ in ids]
    return None if old is None or new is None else compare(old, new, recording.listings)


def _listing(recording: Recording, id_: str) -> Listing | None:
    return recording.listings.get(id_)

"""The user's lines on which eager operations were compiled for many sizes.

Lines that get the same sizes, such as those of one growing array, have one cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retrace.model import CallSite, ObjectChange, ShapeChange, Verdict
from retrace.model.advice import FewSizes, Proof
from retrace.model.row import Row
from retrace.plan.operations import is_only_of_jax
from retrace.plan.root import Root
from retrace.reason.eager import joins, keeps_length, new_body
from retrace.reason.sized import are_doubled, grows_evenly, of_many_sizes, picked, sized, sizes_of

_MIN_REPEATS = 3
"""Minimum number of programs for one operation on a line to count as repeated."""


class SizedLine(Row):
    """A line where an operation was compiled for several sizes."""

    site: CallSite
    members: list[Verdict]
    again: tuple[Verdict, ...]
    sizes: frozenset[object]

    @property
    def joins(self) -> bool:
        """Whether the operation joins a different number of arrays each time."""
        nearest = (verdict.nearest for verdict in self.again)
        pairs = zip(nearest, self.again, strict=True)
        return all(old is not None and joins(old, new.miss) for old, new in pairs)

    @property
    def picks(self) -> str:
        """What picks another number of elements each time, if something does."""
        return picked(self.members, self.again)

    @property
    def picks_inside(self) -> bool:
        """Whether that is a function which the line does not name, but calls through another."""
        source = self.site.source
        return self.picks not in ("", "mask") and source is not None and self.picks not in source

    @property
    def loops(self) -> bool:
        """Whether it is a loop, which is to be padded in another way."""
        return all(verdict.miss.bodies for verdict in self.again)


def sized_line(members: list[Verdict]) -> SizedLine | None:
    """What ran eagerly on one line, if an operation was compiled for several sizes there."""
    site, again = members[0].miss.call_site, of_many_sizes(members)
    return SizedLine(site, members, again, _sizes(again)) if again and site else None


def gathered(found: list[SizedLine], library: Iterable[list[Verdict]]) -> Iterator[Root]:
    """Group lines that get the same sizes, such as those of one growing array, into one cause.

    Padding that array where it is created also gives library calls fewer sizes. Library calls
    whose sizes occur on no line of the user's are left out.

    Args:
        found: the user's lines.
        library: what libraries ran eagerly below each of the user's lines.
    """
    inside: list[tuple[Verdict, ...]] = list(filter(None, map(sized, library)))
    found.sort(key=lambda one: len(one.sizes), reverse=True)
    groups: list[list[SizedLine]] = []
    for one in found:
        for group in groups:
            leader = group[0]
            if (
                one.site.file == leader.site.file
                and one.sizes
                and one.sizes <= leader.sizes
                and not (one.joins or leader.joins)
                and one.loops == leader.loops
            ):
                group.append(one)
                break
        else:
            groups.append([one])
    for group in groups:
        costliest = max(group, key=lambda one: sum(v.miss.seconds for v in one.again))
        loop = group[0].loops
        members = [v for one in group for v in one.members if loop or not _is_of_new_body(v)]
        again = tuple(v for one in group for v in one.again if loop or not _is_of_new_body(v))
        if not again:
            continue
        also = [_with_same_sizes(line, group[0]) for line in inside]
        inside = [line for line, own in zip(inside, also, strict=True) if not own]
        members += [verdict for own in also for verdict in own]
        number = len(group) + sum(map(bool, also))
        bodies = (new_body(verdict.miss, verdict.nearest) for verdict in again)
        body = next(filter(None, bodies), None) if loop else None
        advice = None
        if loop:
            captured = all(keeps_length(one.miss, one.changes) for one in again)
            advice = FewSizes(loop=True, captured=captured, body=body, proof=Proof.MEANING)
        if group[0].joins:
            advice = FewSizes(joined=True)  # NumPy joins any number of arrays
        elif not loop and any(one.program is not None and one.program.draws for one in again):
            advice = FewSizes(draws=True, proof=Proof.MEANING)
        elif not loop and (picking := [one for one in group if one.picks]):
            costliest = picking[0]
            picks, through = costliest.picks, costliest.picks_inside
            advice = FewSizes(picks=picks, inside=through, proof=Proof.KEY)
        elif not loop and grows_evenly(again):
            advice = FewSizes(grows=True, proof=Proof.KEY)
        elif not loop and are_doubled(again):
            advice = FewSizes(doubled=True, proof=Proof.MEANING)
        yield Root(
            family="eager-sizes",
            site=costliest.site,
            verdicts=tuple(members),
            certain=again,
            advice=advice,
            lines=number,
            only_jax=any(is_only_of_jax(verdict) for one in group for verdict in one.again),
        )


def _with_same_sizes(line: tuple[Verdict, ...], leader: SizedLine) -> tuple[Verdict, ...]:
    """Operations that a library ran again on this line, for sizes of the leading line only."""
    site = line[0].miss.call_site
    if site is None or site.file != leader.site.file:
        return ()
    own = tuple(
        one
        for one in line
        if (sizes := _sizes((one,))) and sizes <= leader.sizes and not _is_of_new_body(one)
    )
    return own if len(own) >= _MIN_REPEATS else ()


def _is_of_new_body(verdict: Verdict) -> bool:
    """Whether the body of a loop is new as well, which would miss for the same size too."""
    return bool(verdict.miss.bodies) and any(
        isinstance(change, ObjectChange) for change in verdict.changes
    )


def _sizes(again: tuple[Verdict, ...]) -> frozenset[object]:
    """The sizes of axes whose changes made operations compile again.

    An operation whose arrays stay as they are may get its sizes as parameters, as a slice does.
    """
    of_arrays = frozenset(
        repr(size)
        for verdict in again
        for change in verdict.changes
        if isinstance(change, ShapeChange)
        for _, *pair in change.resized or ()
        for size in pair
    )
    return of_arrays or frozenset(sizes_of(again))

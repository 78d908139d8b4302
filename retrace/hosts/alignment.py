"""Finds what not all processes did, and where each would have done it.

For each definition site, what a process does is treated as a set: threads may do things in any
order, and doing something again (after an eviction, for example) adds nothing. A process that
stopped is not blamed for what comes later.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import NamedTuple

from retrace.hosts.trail import Step, Trail
from retrace.reason.verdict import Site


class Slot(NamedTuple):
    """A place where the processes did not all do the same."""

    site: Site
    did: dict[int, Step]
    """What each process did there; processes that did nothing are left out."""
    absent: tuple[int, ...]
    """Processes that did nothing there, but could have."""
    position: tuple[int, int]
    """For sorting: how many common things came before it."""

    @property
    def spans(self) -> int | None:
        """How many processes the program runs on."""
        return max((s.spans for s in self.did.values() if s.spans is not None), default=None)

    @property
    def groups(self) -> list[tuple[Hashable, list[int]]]:
        """The groups of processes that did the same, largest first; doing nothing is a group."""
        found: dict[Hashable, list[int]] = {}
        for process, step in self.did.items():
            found.setdefault(step.identity, []).append(process)
        if self.absent:
            found[None] = list(self.absent)
        # In a tie the group that did nothing counts as the majority.
        return sorted(
            found.items(),
            key=lambda item: (-len(item[1]), item[0] is not None, min(item[1])),
        )


class Line(NamedTuple):
    """The distinct steps of a process, in the order they were first done."""

    trail: Trail
    steps: dict[tuple[Site, Hashable], Step]

    @property
    def stopped(self) -> bool:
        """Whether it did not end its recording."""
        return not self.trail.run.complete


def lines_of(trails: Mapping[int, Trail], *, bare: bool = False) -> dict[int, Line]:
    """The distinct steps of each process.

    Args:
        trails: the trail of each process.
        bare: only compare types.
    """
    # A step without a recorded program counts as another process's step with equal arguments.
    known: dict[tuple[Site, Hashable], Hashable] = {}
    for trail in trails.values():
        for step in trail.steps:
            if step.program is not None:
                known.setdefault((step.site, step.arguments), step.identity)
    found: dict[int, Line] = {}
    equal: dict[int, dict[tuple[Site, Hashable], Step]] = {}
    for process, trail in trails.items():
        # Processes that did the same share one object.
        if (alike := equal.get(id(trail.steps))) is not None:
            found[process] = Line(trail, alike)
            continue
        steps = equal[id(trail.steps)] = {}
        for step in trail.steps:
            if bare:
                step = step._replace(identity=step.bare, program=None)
            elif step.program is None:
                same = known.get((step.site, step.arguments), step.identity)
                step = step._replace(identity=same)
            steps.setdefault((step.site, step.identity), step)
        found[process] = Line(trail, steps)
    return found


def slots(lines: Mapping[int, Line]) -> list[Slot]:
    """The places where the processes did not all do the same, in order."""
    holders: dict[tuple[Site, Hashable], set[int]] = {}
    for process, line in lines.items():
        for thing in line.steps:
            holders.setdefault(thing, set()).add(process)
    whole = {thing for thing, who in holders.items() if len(who) == len(lines)}
    if len(whole) == len(holders):
        return []
    places = {process: _places(line, whole) for process, line in lines.items()}
    rest: dict[Site, dict[Hashable, set[int]]] = {}
    for (site, identity), who in holders.items():
        if (site, identity) not in whole:
            rest.setdefault(site, {})[identity] = who
    found = [
        slot
        for site, things in rest.items()
        for slot in _of_site(site, things, lines, places, whole)
    ]
    return sorted(found, key=lambda slot: slot.position)


Places = Mapping[int, Mapping[tuple[Site, Hashable], tuple[int, int]]]


def _places(
    line: Line, whole: Collection[tuple[Site, Hashable]]
) -> dict[tuple[Site, Hashable], tuple[int, int]]:
    """For each step of a process: how many common steps come before it, and its own number."""
    before, found = 0, dict[tuple[Site, Hashable], tuple[int, int]]()
    for number, thing in enumerate(line.steps):
        found[thing] = (before, number)
        before += thing in whole
    return found


def _of_site(
    site: Site,
    things: dict[Hashable, set[int]],
    lines: Mapping[int, Line],
    places: Places,
    whole: Collection[tuple[Site, Hashable]],
) -> Iterator[Slot]:
    left = {
        process: [one for s, one in line.steps if s == site and (s, one) not in whole]
        for process, line in lines.items()
    }
    while any(left.values()):
        # What most processes did, the others did differently or not at all.
        most = max(
            dict.fromkeys(one for own in left.values() for one in own),
            key=lambda one: sum(one in own for own in left.values()),
        )
        did: dict[int, Step] = {}
        nothing: list[int] = []
        for process, own in left.items():
            other = next((one for one in own if not _shared(one, things, most)), None)
            done = most if most in own else other
            if done is None:
                nothing.append(process)
            else:
                own.remove(done)
                did[process] = lines[process].steps[site, done]
        slot = _slot(site, did, nothing, lines, places)
        if slot is not None:
            yield slot


def _shared(one: Hashable, things: dict[Hashable, set[int]], most: Hashable) -> bool:
    """Whether a process that did the most common thing also did this one."""
    return bool(things[one] & things[most])


def _slot(
    site: Site,
    did: dict[int, Step],
    nothing: list[int],
    lines: Mapping[int, Line],
    places: Places,
) -> Slot | None:
    spans = any(step.spans is not None for step in did.values())
    position = min(places[who][site, step.identity] for who, step in did.items())
    early = [who for who in nothing if lines[who].stopped and not _went_past(who, did, lines)]
    absent = [who for who in nothing if who not in early]
    if len({step.identity for step in did.values()}) == 1:
        if not absent and spans and len(did) <= len(early) and not _any_ended(did, lines):
            # All processes stopped, and only these entered a program that needs all of them.
            absent = early
        elif not absent:
            return None
        if not spans and not any(_has(lines[who], site) for who in absent):
            return None  # extra work of these processes on their own devices
    return Slot(site, did, tuple(absent), position)


def _any_ended(did: Collection[int], lines: Mapping[int, Line]) -> bool:
    return any(not lines[who].stopped for who in did)


def _has(line: Line, site: Site) -> bool:
    return any(s == site for s, _ in line.steps)


def _went_past(process: int, did: Mapping[int, Step], lines: Mapping[int, Line]) -> bool:
    """Whether a process went on to something that others did only after this."""
    own = lines[process].steps
    for who, step in did.items():
        after = False
        for thing, other in lines[who].steps.items():
            if thing == (step.site, step.identity):
                after = True
            elif after and other.thread == step.thread and thing in own:
                return True
    return False

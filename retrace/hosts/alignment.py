"""Which things were not done by all processes, and where each would have done them.

What a process does is taken as a set of things for each definition site: threads may do them in
any order, a thing that is done again (after an eviction, say) has been done before, and a
process that stopped is not blamed for what comes after it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import NamedTuple

from retrace.hosts.trail import Step, Trail
from retrace.reason.verdict import Site


class Slot(NamedTuple):
    """One place at which processes did not all do the same."""

    site: Site
    did: dict[int, Step]
    """What each process did there, of those that did anything."""
    absent: tuple[int, ...]
    """Those that did nothing there, and could have."""
    stopped_before: tuple[int, ...]
    """Those that had stopped by then."""
    position: tuple[int, int]
    """By which slots are put in order: how many things all had done before."""

    @property
    def spans(self) -> int | None:
        """On how many processes what was done there runs."""
        return max((s.spans for s in self.did.values() if s.spans is not None), default=None)

    @property
    def groups(self) -> list[tuple[Hashable, list[int]]]:
        """Who did what, the most frequent first; those that did nothing are one group."""
        found: dict[Hashable, list[int]] = {}
        for process, step in self.did.items():
            found.setdefault(step.identity, []).append(process)
        if self.absent:
            found[None] = list(self.absent)
        # Where as many did one thing as another, nothing speaks for the one that was added.
        return sorted(
            found.items(),
            key=lambda item: (-len(item[1]), item[0] is not None, min(item[1])),
        )


class Line(NamedTuple):
    """The steps of a process, each thing once, in the order in which they were first done."""

    trail: Trail
    steps: dict[tuple[Site, Hashable], Step]

    @property
    def stopped(self) -> bool:
        """Whether it did not end its recording."""
        return not self.trail.run.complete


def lines_of(trails: Mapping[int, Trail], *, bare: bool = False) -> dict[int, Line]:
    """The trails of processes, each thing once, by process.

    Args:
        trails: by process.
        bare: whether types alone can be compared.
    """
    # A program that nobody wrote down is that of the others where its arguments are theirs.
    known: dict[tuple[Site, Hashable], Hashable] = {}
    for trail in trails.values():
        for step in trail.steps:
            if step.program is not None:
                known.setdefault((step.site, step.arguments), step.identity)
    found: dict[int, Line] = {}
    equal: dict[int, dict[tuple[Site, Hashable], Step]] = {}
    for process, trail in trails.items():
        # What several processes did alike is one object.
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
    """Where processes did not all do the same, the first place first."""
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
    """How many things that all did stand before each of a process's own, and which it is."""
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
        # What most did is what the others did otherwise, or not at all.
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
    """Whether somebody who did what most did has done this one, too."""
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
            # All came to a stop, and only these went into a program that takes all of them.
            absent, early = early, []
        elif not absent:
            return None
        if not spans and not any(_has(lines[who], site) for who in absent):
            return None  # a function of these alone, on their own devices: they do more
    return Slot(site, did, tuple(absent), tuple(early), position)


def _any_ended(did: Collection[int], lines: Mapping[int, Line]) -> bool:
    return any(not lines[who].stopped for who in did)


def _has(line: Line, site: Site) -> bool:
    return any(s == site for s, _ in line.steps)


def _went_past(process: int, did: Mapping[int, Step], lines: Mapping[int, Line]) -> bool:
    """Whether a process did what others did only after this."""
    own = lines[process].steps
    for who, step in did.items():
        after = False
        for thing, other in lines[who].steps.items():
            if thing == (step.site, step.identity):
                after = True
            elif after and other.thread == step.thread and thing in own:
                return True
    return False

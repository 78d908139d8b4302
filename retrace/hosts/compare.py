"""Compares the processes of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrace.compare.keys import NOT_IN_KEY, read_changes
from retrace.compare.keys import changes as compare
from retrace.compare.stored import Options
from retrace.hosts.alignment import Line, Slot, lines_of, slots
from retrace.hosts.divergence import Divergence, How, Parting, Setting, Side, Stopped
from retrace.hosts.environment import differing
from retrace.hosts.neutral import neutral, same_but_devices
from retrace.hosts.stored import Unserved, unserved
from retrace.hosts.trail import Step, Trail, Trails
from retrace.model import Change, Component, HeldChange, Listing, Miss, Run, SettingChange
from retrace.reason.program import Comparison
from retrace.reason.state import split_reads, suspects

_MAX_EXAMPLES = 64
"""How many earlier calls a call without a counterpart is compared with."""
_MAX_PARTINGS = 20
"""Maximum number of differences reported; later ones usually follow from these."""


def hosts(runs: Iterable[Run], *, any_processes: bool = False) -> dict[int, Run]:
    """The runs of a recording that form a job, by process index.

    Args:
        runs: all runs. If two have the same index, the later attempt counts.
        any_processes: without a job known to JAX, use all processes, by their position.
    """
    runs = list(runs)
    found: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: (run.attempt, run.started)):
        if run.process_index is not None and (run.process_count or 0) > 1:
            found[run.process_index] = run
    if len(found) < 2 and any_processes:
        known = {(run.host, run.pid) for run in runs}
        own = [
            run
            for run in runs
            if (run.host, run.started_by) not in known and (run.host, run.forked_by) not in known
        ]
        found = dict(enumerate(own))
    return dict(sorted(found.items())) if len(found) > 1 else {}


def diverge(
    trails: Trails, listings: Mapping[str, Listing], *, any_processes: bool = False
) -> Divergence | None:
    """Where the processes of a job diverge; None unless there are at least two."""
    runs = hosts([trail.run for trail in trails.all], any_processes=any_processes)
    if not runs:
        return None
    by_run = {trail.run.id: trail for trail in trails.all}
    own = {process: by_run[run.id] for process, run in runs.items()}
    lines = lines_of(own, bare=not trails.comparable)
    comparer = _Comparer(trails, listings, lines)
    environment = differing(runs, comparable=trails.comparable)
    partings: list[Parting] = []
    for slot in slots(lines):
        if len(partings) < _MAX_PARTINGS and (found := comparer.parting(slot)) is not None:
            partings.append(found)
    if not partings:
        found = comparer.of_environment([one for one in environment if one.matters])
        partings = [] if found is None else [found]
    count = max((run.process_count or 0 for run in runs.values()), default=0)
    return Divergence(
        runs=runs,
        partings=tuple(partings),
        environment=environment,
        stopped=tuple(
            Stopped(process, trail.run, trail.at, trail.last)
            for process, trail in own.items()
            if not trail.run.complete
        ),
        absent=tuple(number for number in range(count) if number not in runs),
        seconds={process: trail.seconds for process, trail in own.items()},
        misses={process: len(trail.steps) for process, trail in own.items()},
        unserved=_unserved(own, trails.options),
        incomparable=not trails.comparable,
    )


def _unserved(own: Mapping[int, Trail], options: Options) -> tuple[Unserved, ...]:
    # Processes that are not a job for JAX each write to the cache themselves.
    return unserved(
        {
            process: trail.look_ups
            for process, trail in own.items()
            if trail.run.process_index == process and (trail.run.process_count or 0) > 1
        },
        options,
    )


_TYPES = frozenset((Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE, Component.TREE))


def alone(trails: Trails) -> Divergence:
    """The result when there is nothing to compare: only the cost of each process."""
    own = dict(enumerate(trails.all))
    return Divergence(
        runs={process: trail.run for process, trail in own.items()},
        seconds={process: trail.seconds for process, trail in own.items()},
        misses={process: len(trail.steps) for process, trail in own.items()},
    )


class _Comparer(NamedTuple):
    """Explains slots."""

    trails: Trails
    listings: Mapping[str, Listing]
    lines: dict[int, Line]

    def parting(self, slot: Slot) -> Parting | None:
        """The report on a slot; None if all processes did the same after all."""
        groups = slot.groups
        (most, majority), *others = groups
        examples = {
            identity: self._example(slot, who) for identity, who in groups if identity is not None
        }
        if most is not None and slot.spans is None:
            others = [
                (one, who)
                for one, who in others
                if one is None or not self._same(examples[most], examples[one])
            ]
        if not others:
            return None
        minority = sorted(process for _, who in others for process in who)
        other = next((one for one, _ in others if one is not None), None)
        new = None if other is None else examples[other]
        old = None if most is None else examples[most]
        how: How = "other" if old and new else "extra" if new else "missing"
        first = min(slot.did, key=lambda process: (process not in minority, process))
        occurrence = slot.did[first].occurrence
        if old is None and new is not None:
            old = self._like(slot, majority, new, occurrence)
        shown = new or old
        assert shown is not None
        changes, reads = self._compared(old, new)
        return Parting(
            how=how,
            function=shown.function,
            occurrence=occurrence,
            minority=tuple(minority),
            sides=self._sides(slot.did),
            spans=slot.spans,
            old=old,
            new=new,
            changes=changes,
            reads=reads,
            groups=len(others) + 1,
        )

    def of_environment(self, settings: list[Setting]) -> Parting | None:
        """The first common program, if the processes ran it with different settings."""
        trail = next(iter(self.lines.values())).trail
        if not settings or not trail.steps:
            return None
        examples = self.trails.examples
        thing = next(iter(self.lines[min(self.lines)].steps))
        did = {
            process: line.steps[thing]
            for process, line in self.lines.items()
            if thing in line.steps
        }
        values: dict[str, list[int]] = {}
        for process, value in settings[0].values.items():
            values.setdefault(repr(value), []).append(process)
        majority = max(values.values(), key=len)
        minority = sorted(who for who in settings[0].values if who not in majority)
        miss = examples[thing]
        return Parting(
            how="environment",
            function=miss.function,
            occurrence=did[min(did)].occurrence,
            minority=tuple(minority),
            sides=self._sides(did),
            spans=miss.processes,
            old=miss,
            new=miss,
            changes=tuple(_change(one, majority[0], minority[0]) for one in settings),
            groups=len(values),
        )

    def _example(self, slot: Slot, who: list[int]) -> Miss:
        step = slot.did[who[0]]
        return self.trails.examples[slot.site, step.identity]

    def _same(self, old: Miss, new: Miss) -> bool:
        """Whether two programs differ only in the devices of their processes."""
        a, b = old.program, new.program
        if (
            a is None
            or b is None
            or any(
                change.component is not Component.PROGRAM
                for change in compare(neutral(old), neutral(new))
            )
        ):
            return False
        left, right = self.listings.get(a.listing or ""), self.listings.get(b.listing or "")
        return (
            left is not None
            and right is not None
            and same_but_devices(left, right, self.listings)
        )

    def _like(self, slot: Slot, majority: list[int], new: Miss, occurrence: int) -> Miss | None:
        """The majority's most similar other call of the function.

        In a tie, the latest earlier call wins, then the first later one.
        """
        steps = self.lines[majority[0]].steps.items()
        known = [(step.occurrence, thing) for thing, step in steps if thing[0] == slot.site]
        before = [thing for at, thing in known if at < occurrence][: -_MAX_EXAMPLES - 1 : -1]
        after = [thing for at, thing in known if at >= occurrence][:_MAX_EXAMPLES]
        key = neutral(new)
        return min(
            [self.trails.examples[thing] for thing in (*before, *after)],
            key=lambda miss: len(_in_key(compare(neutral(miss), key))),
            default=None,
        )

    def _compared(
        self, old: Miss | None, new: Miss | None
    ) -> tuple[tuple[Change, ...], tuple[HeldChange, ...]]:
        if old is None or new is None:
            return (), ()
        before, after = neutral(old), neutral(new)
        found = compare(before, after)
        if not self.trails.comparable:
            return tuple([one for one in found if one.component in _TYPES]), ()
        if old.program is None or new.program is None or old.program.hash == new.program.hash:
            return found, ()
        comparison = Comparison(old, new, found, self.listings)
        sure, others = split_reads(read_changes(before.function, after.function), comparison)
        return found, sure or suspects(others, comparison)

    def _sides(self, did: Mapping[int, Step]) -> dict[int, Side]:
        found: dict[int, Side] = {}
        for process, line in self.lines.items():
            step = did.get(process)
            found[process] = Side(
                None if step is None else f"{line.trail.run.id}-{step.number}",
                None if step is None else step.program,
                line.stopped,
            )
        return found


def _in_key(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if change.component not in NOT_IN_KEY]


def _change(setting: Setting, majority: int, minority: int) -> Change:
    return SettingChange(setting.name, setting.values[majority], setting.values[minority])

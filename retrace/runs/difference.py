"""Everything that differs between two recordings."""

from __future__ import annotations

from dataclasses import dataclass

from retrace.model import Miss, Run, Stage, Verdict
from retrace.runs.disk import Disk, disk
from retrace.runs.ended import cut_short
from retrace.runs.environment import Environment, environment
from retrace.runs.functions import Functions, Matching
from retrace.runs.misses import Pair, matched
from retrace.runs.programs import Changed, changed
from retrace.runs.seconds import Seconds, seconds
from retrace.runs.sides import Neutral, Side


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of two recordings."""

    old: Side
    new: Side
    environment: Environment
    functions: Functions
    pairs: tuple[Pair, ...]
    changed: tuple[Pair, ...]
    """The pairs whose keys or causes differ, most expensive first."""
    added: tuple[Verdict, ...]
    """The misses found only in the new recording, most expensive first."""
    gone: tuple[Verdict, ...]
    programs: tuple[Changed, ...]
    unknown_programs: tuple[Pair, ...]
    """Pairs with an unknown program, so that nothing shows whether it is the same."""
    captured: int
    """Pairs of equal programs with captured arrays, whose contents were not compared."""
    disk: Disk
    seconds: Seconds

    @property
    def losses(self) -> bool:
        """Whether something was not recorded on either side."""
        return any(run.losses for side in (self.old, self.new) for run in side.runs)

    @property
    def cut(self) -> list[tuple[Side, Run]]:
        """The processes that did not end, each with its side."""
        return [
            (side, run)
            for side in (self.old, self.new)
            for run, by in cut_short(side.recording)
            if by is None
        ]

    @property
    def is_equal(self) -> bool:
        """Whether all keys, causes and program hashes are certainly the same."""
        differing = self.changed or self.added or self.gone or self.programs
        unknown = self.unknown_programs or self.losses or self.cut
        return not differing and not unknown


def difference(old: Side, new: Side) -> Difference:
    """Compare two recordings."""
    functions = Matching(old, new).found()
    found = matched(functions.both, Neutral(old, new))
    gone = [*found.gone, *(v for group in functions.gone for v in group.verdicts)]
    added = [*found.new, *(v for group in functions.new for v in group.verdicts)]
    own = _Own(old, new)
    pairs = [pair for pair in found.pairs if pair.is_changed]
    pairs.sort(key=lambda pair: -max(own(pair.old), own(pair.new)))
    equal = [pair for pair in found.pairs if not _programs_differ(pair)]
    return Difference(
        old,
        new,
        environment(old, new),
        functions,
        tuple(found.pairs),
        tuple(pairs),
        tuple(sorted(added, key=lambda verdict: -own(verdict))),
        tuple(sorted(gone, key=lambda verdict: -own(verdict))),
        tuple(changed(old, new, found.pairs)),
        tuple(pair for pair in equal if _lacks_program(pair)),
        sum(1 for pair in equal if _captures(pair.new.miss)),
        disk(old.verdicts, new.verdicts, found.pairs),
        seconds(found.pairs, gone, added, own),
    )


class _Own:
    """The seconds of each miss, excluding misses nested in it."""

    def __init__(self, *sides: Side) -> None:
        self._seconds: dict[tuple[int, str], float] = {}
        self._side: dict[int, int] = {}
        for at, side in enumerate(sides):
            for verdict in side.verdicts:
                self._side[id(verdict)] = at
                self._seconds[at, verdict.miss.id] = verdict.miss.seconds
            for verdict in side.verdicts:
                miss = verdict.miss
                outer = at, miss.parent or ""
                if outer in self._seconds and miss.derived is None and miss.parent != miss.id:
                    self._seconds[outer] = max(0.0, self._seconds[outer] - miss.seconds)

    def __call__(self, verdict: Verdict) -> float:
        return self._seconds[self._side[id(verdict)], verdict.miss.id]


def _programs_differ(pair: Pair) -> bool:
    a, b = pair.old.miss.program, pair.new.miss.program
    return a is not None and b is not None and a.hash != b.hash


def _lacks_program(pair: Pair) -> bool:
    old, new = pair.old.miss, pair.new.miss
    if old.program is not None and new.program is not None:
        return False
    return old.program is not new.program or _has_program(old) or _has_program(new)


def _has_program(miss: Miss) -> bool:
    """Whether it must have had a program, which failed or unfinished misses need not have."""
    if miss.raised is not None or miss.in_flight is not None:
        return False
    return Stage.TRACE in miss.stages or Stage.COMPILE in miss.stages


def _captures(miss: Miss) -> bool:
    return miss.program is not None and bool(miss.program.arrays or miss.program.held)

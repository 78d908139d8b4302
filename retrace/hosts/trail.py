"""The trail of a process: its misses, reduced to what comparing processes needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from retrace.compare.stored import Options
from retrace.hosts.neutral import neutral_values, placeless
from retrace.hosts.stored import LookUp, look_ups
from retrace.model import Key, Kind, Leaf, Miss, Run, Stage
from retrace.model.parts import PASSED, SETTINGS, Named, Values
from retrace.reason.verdict import Site, site_of


class Step(NamedTuple):
    """An outermost miss that led to a program."""

    site: Site
    identity: Hashable
    """Equal in two processes that did the same."""
    arguments: Hashable
    """Used instead of the identity if the program is unknown."""
    bare: Hashable
    """Used if neither values nor programs can be compared; otherwise None."""
    number: int
    """The number of the miss in its process."""
    thread: str
    occurrence: int
    """Its position among the steps of its site in this process, from 1."""
    program: str | None
    spans: int | None


class Trail(NamedTuple):
    """The steps of one process."""

    run: Run
    steps: tuple[Step, ...]
    seconds: float
    at: Miss | None
    """The miss it was in when its recording stopped, if any."""
    last: Miss | None
    look_ups: tuple[LookUp, ...] = ()
    """Its look-ups in the disk cache."""


class Trails:
    """The trails of all processes of a recording, and an example miss for each kind of step."""

    def __init__(self) -> None:
        self.all: list[Trail] = []
        self.examples: dict[tuple[Site, Hashable], Miss] = {}
        self.options = Options()
        """The compile options of all of them, from keys of the disk cache."""
        self._equal: dict[tuple[Step, ...], tuple[Step, ...]] = {}
        """Shares equal steps, since processes of a job usually do the same."""

    @property
    def comparable(self) -> bool:
        """Whether values and programs can be compared: not redacted, or all with the same key."""
        return len({trail.run.hidden_under for trail in self.all}) < 2

    def add(self, run: Run, misses: list[Miss]) -> None:
        """Add a process with all of its misses."""
        read = _Reading()
        redacted = run.hidden_under is not None
        steps: list[Step] = []
        seconds = 0.0
        number = Counter[Site]()
        last = at = None
        for miss in misses:
            if not _is_outermost(miss):
                continue
            seconds += miss.seconds
            last = miss
            if miss.in_flight is not None:
                at = miss
            if not _led_to_a_program(miss):
                continue
            site = site_of(miss)
            number[site] += 1
            step = Step(
                site,
                read.identity(miss),
                read.arguments(miss),
                ("bare", read.types(miss)) if redacted else None,
                miss.number,
                miss.thread,
                number[site],
                None if miss.program is None else miss.program.hash,
                miss.processes,
            )
            steps.append(step)
            self.examples.setdefault((site, step.identity), miss)
            if redacted:
                self.examples.setdefault((site, step.bare), miss)
        done = tuple(steps)
        done = self._equal.setdefault(done, done)
        looked_up = look_ups(misses, self.options)
        self.all.append(Trail(run, done, seconds, None if run.complete else at, last, looked_up))


def _is_outermost(miss: Miss) -> bool:
    return (miss.parent is None or miss.derived is not None) and not miss.nested


def _led_to_a_program(miss: Miss) -> bool:
    """Whether it ran and matters to other processes.

    A function that was only traced (`eval_shape`) did not run. Eager operations only count if
    several processes run them together: each process may log what it likes.
    """
    if miss.function.kind is Kind.OP and miss.processes is None:
        return False
    return Stage.COMPILE in miss.stages or miss.in_flight is not None or miss.raised is not None


class _Reading:
    """Makes identities, reading parts shared by several misses only once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[object, Hashable]] = {}

    def identity(self, miss: Miss) -> Hashable:
        if miss.program is None:
            return ("arguments", self.arguments(miss))
        return (miss.program.hash, *self._around(miss.key, miss.processes))

    def arguments(self, miss: Miss) -> Hashable:
        passed = self._values(PASSED, miss.key, miss.processes)
        return (self.types(miss), *passed, *self._around(miss.key, miss.processes))

    def types(self, miss: Miss) -> Hashable:
        return self._once(_types, miss.key.leaves)

    def _around(self, key: Key, spans: int | None) -> Iterator[Hashable]:
        """Everything besides the jaxpr that determines the program."""
        yield from self._values(SETTINGS, key, spans)
        if spans is None:
            yield self._once(_placed, key.leaves)
        else:
            yield tuple([leaf[4:] for leaf in key.leaves])

    def _values(self, rows: Sequence[Values], key: Key, spans: int | None) -> Iterator[Hashable]:
        return (self._once(_neutral, row.of(key), row, spans is None) for row in rows)

    def _once(self, make: Callable[..., Hashable], part: Any, *how: Any) -> Hashable:
        key = (make, id(part), *map(id, how))
        if (found := self._known.get(key)) is None:
            # Keeps the part alive, so that its address is not reused.
            found = self._known[key] = (part, make(part, *how))
        return found[1]


def _types(leaves: tuple[Leaf, ...]) -> Hashable:
    return tuple([leaf[:4] for leaf in leaves])


def _placed(leaves: tuple[Leaf, ...]) -> Hashable:
    return tuple([placeless(leaf)[4:] for leaf in leaves])


def _neutral(values: Named, row: Values, local: bool) -> Hashable:
    return tuple(_contents(neutral_values(row, values, local)))


def _contents(values: Named) -> Iterator[tuple[str, str, str]]:
    for name, value in values:
        yield name, value.type, value.text

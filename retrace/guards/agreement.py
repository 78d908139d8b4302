"""Processes of a job agree on each program that several of them run, before it is compiled.

Each publishes the hash of its program at its place: the definition site, and which different
program of that site it is. Keys of the store are written once, by whoever comes first:

    agree/PLACE/at/PROCESS    the hash that a process has there
    agree/PLACE/first         the first of these hashes
    agree/PLACE/wrong         a process that has another one, and which
    agree/PLACE/done          all came, or somebody had another one: nobody need wait
    agree/hash/HASH           the place at which any process had the program first
    agree/told/HASH           what it is, for people
    agree/last/PROCESS/N      the programs that a process came to
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

_FOLDER = re.compile(r"[^\s;\[\]]*[/\\]")
_ROOT = "retrace/agree"
_SLICE = 0.5
"""Seconds after which whoever waits for several processes looks whether one has said no."""
_GRACE = 2.0
_MAX_PENDING = 100
_MAX_TOLD = 4


class Store(Protocol):
    """What the processes of a job share."""

    def put(self, key: str, value: str) -> bool:
        """Write a key; False where somebody has written it before."""
        ...

    def wait(self, key: str, seconds: float) -> str | None:
        """The value of a key, once it is written; None where that takes too long."""
        ...

    def look(self, key: str) -> str | None:
        """The value of a key; None where it is not written."""
        ...

    def under(self, folder: str) -> dict[str, str]:
        """All keys below a folder, without it."""
        ...


class Program(NamedTuple):
    """A program that is about to be compiled."""

    site: str
    label: str
    """`step (train.py:40)`."""
    hash: str
    told: Mapping[str, Sequence[tuple[str, str]]]
    """What went into it, by kind: its arguments, static values, settings."""


class Late(NamedTuple):
    """Processes that did not come to a place in time."""

    label: str
    waited: float
    last: dict[int, str]
    """What each came to last."""


class Disagreement(NamedTuple):
    """Two processes that have another program at one place."""

    label: str
    process: int
    """The other one."""
    differences: tuple[str, ...]
    """Between this process and the other one."""


class Agreement:
    """One process's part."""

    def __init__(self, store: Store, process: int, seconds: float | None) -> None:
        """Begin with nothing published.

        Args:
            store: of the job.
            process: the index of this one.
            seconds: to wait for the others at most; None to wait for nobody.
        """
        self._store = store
        self._process = process
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._places: dict[str, dict[str, int]] = {}
        """The different programs of each site that this process came to, in order."""
        self._mine: dict[str, Program] = {}
        """At the places where nobody has said yet that all agree."""
        self._number = 0

    def meet(
        self, program: Program, processes: Sequence[int], late: Callable[[Late], object]
    ) -> Disagreement | None:
        """Publish a program, and hold it against those of the others.

        Args:
            program: about to be compiled in this thread.
            processes: those that are to run it.
            late: told of processes that did not come in time.
        """
        if program.hash in self._known:
            return self._earlier()
        place, number = self._place(program)
        store = self._store
        store.put(f"{_ROOT}/last/{self._process}/{number:09}", program.label)
        known = None
        if store.put(f"{_ROOT}/hash/{program.hash}", place):
            store.put(f"{_ROOT}/told/{program.hash}", json.dumps(program.told))
        else:
            known = store.look(f"{_ROOT}/hash/{program.hash}")
        if known is not None and known != place:
            # Somebody has it already: whoever waits for this process there need not.
            store.put(f"{_ROOT}/{known}/at/{self._process}", program.hash)
            self._known.add(program.hash)
            return self._earlier()
        store.put(f"{_ROOT}/{place}/at/{self._process}", program.hash)
        first = program.hash
        if not store.put(f"{_ROOT}/{place}/first", f"{program.hash} {self._process}"):
            first = (store.look(f"{_ROOT}/{place}/first") or program.hash).partition(" ")[0]
        if first != program.hash:
            said = f"{program.hash} {self._process}"
            store.put(f"{_ROOT}/{place}/wrong", said)
            store.put(f"{_ROOT}/{place}/done", "wrong")
        elif self._seconds is not None:
            self._wait(program, place, processes, late)
        return self._settled(program, place) or self._earlier()

    def _place(self, program: Program) -> tuple[str, int]:
        with self._lock:
            self._number += 1
            site = _FOLDER.sub("", program.site)  # folders may differ between hosts
            programs = self._places.setdefault(site, {})
            number = programs.setdefault(program.hash, len(programs) + 1)
            digest = blake2b(site.encode(errors="surrogatepass"), digest_size=8).hexdigest()
            return f"{digest}-{number}", self._number

    def _wait(
        self,
        program: Program,
        place: str,
        processes: Sequence[int],
        late: Callable[[Late], object],
    ) -> None:
        """Wait until all have come, or one has said no, or the time is over."""
        assert self._seconds is not None
        began = time.monotonic()
        end = began + self._seconds
        store, done = self._store, f"{_ROOT}/{place}/done"
        if self._process == min(processes):
            # One asks for all, so that the store is not asked by each for each.
            self._gather(program, place, processes, end)
        else:
            store.wait(done, _left(end + _GRACE))
        if store.put(done, "late") or store.look(done) == "late":
            came = store.under(f"{_ROOT}/{place}/at")
            missing = [other for other in processes if str(other) not in came]
            if missing:
                waited = time.monotonic() - began
                late(Late(program.label, waited, {one: self._last(one) for one in missing}))

    def _gather(self, program: Program, place: str, processes: Sequence[int], end: float) -> None:
        """Look at what each process has at a place, as it comes, and say when all agree."""
        store, done = self._store, f"{_ROOT}/{place}/done"
        for other in processes:
            while (had := store.wait(f"{_ROOT}/{place}/at/{other}", _left(end, _SLICE))) is None:
                if time.monotonic() >= end or store.look(done) is not None:
                    return
            if had != program.hash:
                # It says so itself, perhaps a moment later.
                store.put(f"{_ROOT}/{place}/wrong", f"{had} {other}")
                store.put(done, "wrong")
                return
        store.put(done, "all")

    def _last(self, process: int) -> str:
        found = self._store.under(f"{_ROOT}/last/{process}")
        return found[max(found)] if found else ""

    def _settled(self, program: Program, place: str) -> Disagreement | None:
        """What came of a place, as far as it is known."""
        wrong = self._store.look(f"{_ROOT}/{place}/wrong")
        if wrong is not None:
            with self._lock:
                self._mine.pop(place, None)
            return self._disagreement(program, place, wrong)
        self._known.add(program.hash)
        # Those that are late, or that nobody waits for, may still say no.
        if self._seconds is None or self._store.look(f"{_ROOT}/{place}/done") != "all":
            with self._lock:
                self._mine[place] = program
                while len(self._mine) > _MAX_PENDING:
                    del self._mine[next(iter(self._mine))]
        return None

    def _earlier(self) -> Disagreement | None:
        """Whether somebody has said no at a place that this process went past."""
        for place, program in list(self._mine.items()):
            wrong = self._store.look(f"{_ROOT}/{place}/wrong")
            if wrong is not None:
                with self._lock:
                    self._mine.pop(place, None)
                return self._disagreement(program, place, wrong)
        return None

    def _disagreement(self, program: Program, place: str, wrong: str) -> Disagreement:
        other, _, process = wrong.partition(" ")
        if other == program.hash:
            first = self._store.look(f"{_ROOT}/{place}/first") or ""
            other, _, process = first.partition(" ")
        told = self._store.look(f"{_ROOT}/told/{other}")
        return Disagreement(
            program.label,
            int(process or -1),
            _differences(program.told, {} if told is None else json.loads(told)),
        )


def _left(end: float, most: float | None = None) -> float:
    left = max(0.001, end - time.monotonic())
    return left if most is None else min(left, most)


def _differences(
    own: Mapping[str, Sequence[tuple[str, str]]], other: Mapping[str, Any]
) -> tuple[str, ...]:
    """`x is float32[7,4] here, float32[8,4] there`, for each part that differs."""
    found: list[str] = []
    for kind, parts in own.items():
        here = dict(parts)
        there = {str(name): str(text) for name, text in other.get(kind, ())}
        for name in dict.fromkeys((*here, *there)):
            if here.get(name) != there.get(name):
                sides = (here.get(name, "absent"), there.get(name, "absent"))
                found.append(f"{kind} {name}: {sides[0]} here, {sides[1]} there")
    if len(found) > _MAX_TOLD:
        found = [*found[:_MAX_TOLD], f"and {len(found) - _MAX_TOLD} more"]
    return tuple(found)

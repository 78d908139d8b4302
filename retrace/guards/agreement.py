"""The processes of a job agree on each shared program before it is compiled.

Each process publishes the hash of its program under a place: the definition site, and a number
that counts the different programs of that site. Each key of the store is written only once, by
whichever process is first:

    agree/PLACE/at/PROCESS    the hash of a process
    agree/PLACE/first         the first of these hashes
    agree/PLACE/wrong         a different hash, and the process that has it
    agree/PLACE/done          all arrived, or one had a different hash: stop waiting
    agree/hash/HASH           the place where the program was first seen
    agree/told/HASH           its description for people
    agree/last/PROCESS/N      the programs that a process reached
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
_POLL_SECONDS = 0.5
"""How often a process that waits for others checks whether one has already disagreed."""
_GRACE = 2.0
_MAX_PENDING = 100
_MAX_DIFFERENCES = 4


class Store(Protocol):
    """The key-value store of a job."""

    def put(self, key: str, value: str) -> bool:
        """Write a key; returns False if it was already written."""
        ...

    def wait(self, key: str, seconds: float) -> str | None:
        """Wait for the value of a key; None after `seconds`."""
        ...

    def look(self, key: str) -> str | None:
        """The value of a key; None if it is not written yet."""
        ...

    def under(self, folder: str) -> dict[str, str]:
        """All values below a folder, by key relative to it."""
        ...


class Published(NamedTuple):
    """A program that is about to be compiled, as a process publishes it to the others."""

    site: str
    label: str
    """`step (train.py:40)`."""
    hash: str
    inputs: Mapping[str, Sequence[tuple[str, str]]]
    """What it was made from, by kind: arguments, static values, settings."""


class Late(NamedTuple):
    """Processes that did not arrive at a place in time."""

    label: str
    waited: float
    last: dict[int, str]
    """The last program that each of them reached."""


class Disagreement(NamedTuple):
    """Two processes have different programs at the same place."""

    label: str
    process: int
    """The other process."""
    differences: tuple[str, ...]
    """Between this process and the other."""


class Agreement:
    """One process's side of the protocol."""

    def __init__(self, store: Store, process: int, seconds: float | None) -> None:
        """Start with nothing published.

        Args:
            store: the store of the job.
            process: the index of this process.
            seconds: how long to wait for the others; None means not at all.
        """
        self._store = store
        self._process = process
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._places: dict[str, dict[str, int]] = {}
        """The different programs this process reached at each site, in order."""
        self._unconfirmed: dict[str, Published] = {}
        """Programs of this process at places where not all have agreed yet."""
        self._number = 0

    def meet(
        self, program: Published, processes: Sequence[int], late: Callable[[Late], object]
    ) -> Disagreement | None:
        """Publish a program and compare it with those of the other processes.

        Args:
            program: the program about to be compiled in this thread.
            processes: the processes that will run it.
            late: called with the processes that did not arrive in time.
        """
        if program.hash in self._known:
            return self._earlier()
        place, number = self._place(program)
        store = self._store
        store.put(f"{_ROOT}/last/{self._process}/{number:09}", program.label)
        known = None
        if store.put(f"{_ROOT}/hash/{program.hash}", place):
            store.put(f"{_ROOT}/told/{program.hash}", json.dumps(program.inputs))
        else:
            known = store.look(f"{_ROOT}/hash/{program.hash}")
        if known is not None and known != place:
            # Another process was here first: let those waiting for this process there go on.
            store.put(f"{_ROOT}/{known}/at/{self._process}", program.hash)
            self._known.add(program.hash)
            return self._earlier()
        store.put(f"{_ROOT}/{place}/at/{self._process}", program.hash)
        first = program.hash
        if not store.put(f"{_ROOT}/{place}/first", f"{program.hash} {self._process}"):
            first = (store.look(f"{_ROOT}/{place}/first") or program.hash).partition(" ")[0]
        if first != program.hash:
            store.put(f"{_ROOT}/{place}/wrong", f"{program.hash} {self._process}")
            store.put(f"{_ROOT}/{place}/done", "wrong")
        elif self._seconds is not None:
            self._wait(program, place, processes, late)
        return self._settled(program, place) or self._earlier()

    def _place(self, program: Published) -> tuple[str, int]:
        with self._lock:
            self._number += 1
            site = _FOLDER.sub("", program.site)  # folders may differ between hosts
            programs = self._places.setdefault(site, {})
            number = programs.setdefault(program.hash, len(programs) + 1)
            digest = blake2b(site.encode(errors="surrogatepass"), digest_size=8).hexdigest()
            return f"{digest}-{number}", self._number

    def _wait(
        self,
        program: Published,
        place: str,
        processes: Sequence[int],
        late: Callable[[Late], object],
    ) -> None:
        """Wait until all have arrived, one disagrees, or time runs out."""
        assert self._seconds is not None
        began = time.monotonic()
        end = began + self._seconds
        store, done = self._store, f"{_ROOT}/{place}/done"
        if self._process == min(processes):
            # Only one process polls all others, which keeps the load on the store low.
            self._gather(program, place, processes, end)
        else:
            store.wait(done, _left(end + _GRACE))
        if store.put(done, "late") or store.look(done) == "late":
            came = store.under(f"{_ROOT}/{place}/at")
            missing = [other for other in processes if str(other) not in came]
            if missing:
                waited = time.monotonic() - began
                late(Late(program.label, waited, {one: self._last(one) for one in missing}))

    def _gather(
        self, program: Published, place: str, processes: Sequence[int], end: float
    ) -> None:
        """Check the hash of each process as it arrives, and announce when all agree."""
        store, done = self._store, f"{_ROOT}/{place}/done"
        for other in processes:
            while (
                had := store.wait(f"{_ROOT}/{place}/at/{other}", _left(end, _POLL_SECONDS))
            ) is None:
                if time.monotonic() >= end or store.look(done) is not None:
                    return
            if had != program.hash:
                # That process would announce it too, perhaps a moment later.
                store.put(f"{_ROOT}/{place}/wrong", f"{had} {other}")
                store.put(done, "wrong")
                return
        store.put(done, "all")

    def _last(self, process: int) -> str:
        found = self._store.under(f"{_ROOT}/last/{process}")
        return found[max(found)] if found else ""

    def _settled(self, program: Published, place: str) -> Disagreement | None:
        """The disagreement at a place, if one is known by now."""
        wrong = self._store.look(f"{_ROOT}/{place}/wrong")
        if wrong is not None:
            with self._lock:
                self._unconfirmed.pop(place, None)
            return self._disagreement(program, place, wrong)
        self._known.add(program.hash)
        # Processes that are late, or that were not waited for, may still disagree.
        if self._seconds is None or self._store.look(f"{_ROOT}/{place}/done") != "all":
            with self._lock:
                self._unconfirmed[place] = program
                while len(self._unconfirmed) > _MAX_PENDING:
                    del self._unconfirmed[next(iter(self._unconfirmed))]
        return None

    def _earlier(self) -> Disagreement | None:
        """A disagreement found later at a place that this process has passed."""
        for place, program in list(self._unconfirmed.items()):
            wrong = self._store.look(f"{_ROOT}/{place}/wrong")
            if wrong is not None:
                with self._lock:
                    self._unconfirmed.pop(place, None)
                return self._disagreement(program, place, wrong)
        return None

    def _disagreement(self, program: Published, place: str, wrong: str) -> Disagreement:
        other, _, process = wrong.partition(" ")
        if other == program.hash:
            first = self._store.look(f"{_ROOT}/{place}/first") or ""
            other, _, process = first.partition(" ")
        theirs = self._store.look(f"{_ROOT}/told/{other}")
        return Disagreement(
            program.label,
            int(process or -1),
            _differences(program.inputs, {} if theirs is None else json.loads(theirs)),
        )


def _left(end: float, limit: float | None = None) -> float:
    left = max(0.001, end - time.monotonic())
    return left if limit is None else min(left, limit)


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
    if len(found) > _MAX_DIFFERENCES:
        found = [*found[:_MAX_DIFFERENCES], f"and {len(found) - _MAX_DIFFERENCES} more"]
    return tuple(found)

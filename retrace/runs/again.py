"""Programs that were compiled more than once: in several processes, in several tests.

JAX's on-disk cache would have served all but the first compilation of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from retrace.model import Leaf, Miss, Run, Stage

_MOST = 100_000
"""Programs that are told apart; those that come later are not counted."""
STORED_FROM = 1.0
"""Seconds from which on JAX stores a compilation, unless
`jax_persistent_cache_min_compile_time_secs` says otherwise."""


class Compiled(NamedTuple):
    """One compilation."""

    program: str
    """Equal for programs for which XLA would be asked the same."""
    name: str
    """Of the function."""
    file: str | None
    line: int | None
    seconds: float


@dataclass(slots=True)
class Program:
    """The compilations of one program."""

    name: str
    file: str | None
    line: int | None
    times: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    places: dict[str, None] = field(default_factory=dict[str, None])
    """The processes, or tests, that compiled it."""

    @property
    def spared(self) -> float:
        """Seconds of all compilations but one, the longest; to read it from disk takes some."""
        return self.seconds - self.longest

    @property
    def is_stored(self) -> bool:
        """Whether JAX stores it as it is configured where nobody has said otherwise."""
        return self.longest >= STORED_FROM


class Again:
    """The compilations of several processes or tests, added up by program."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}

    def add(self, compiled: Iterable[Compiled], place: str) -> None:
        """Take in what one process, or one test, has compiled."""
        for one in compiled:
            program = self._programs.get(one.program)
            if program is None:
                if len(self._programs) >= _MOST:
                    continue
                program = Program(one.name, one.file, one.line)
                self._programs[one.program] = program
            program.times += 1
            program.seconds += one.seconds
            program.longest = max(program.longest, one.seconds)
            program.places[place] = None

    def programs(self) -> list[Program]:
        """Those that more than one place compiled; first what a cache would spare most of."""
        found = [one for one in self._programs.values() if len(one.places) > 1]
        return sorted(found, key=lambda one: -one.spared)


def compiled(misses: Iterable[Miss], run: Run) -> Iterator[Compiled]:
    """What a process compiled that its on-disk cache, or another's, could have held.

    Not programs that call back into Python, which JAX does not store; nor those that captured
    arrays on a device, of which it is not known whether they hold the same.
    """
    for miss in misses:
        seconds, program, cache = (
            miss.stages.get(Stage.COMPILE),
            miss.program,
            miss.persistent_cache,
        )
        if seconds is None or program is None or miss.raised is not None or miss.unseen:
            continue
        if program.callbacks or program.arrays or program.held:
            continue
        if cache is not None and cache.outcome == "hit":
            continue
        at = miss.call_site if miss.function.file is None else None
        yield Compiled(
            _identity(miss, program.hash, run),
            miss.function.name,
            miss.function.file if at is None else at.file,
            miss.function.line if at is None else at.line,
            seconds,
        )


def _identity(miss: Miss, program: str, run: Run) -> str:
    """What makes JAX's key on disk, as far as it was recorded."""
    key = miss.key
    parts = (
        # The name of the module is part of what JAX hashes.
        miss.function.jax_name,
        program,
        (run.jax, run.jaxlib, run.backend, run.local_devices, run.process_count),
        sorted(run.variables.items()),
        [_placed(leaf) for leaf in key.leaves],
        [(name, value.text) for name, value in key.options],
        [(name, value.text) for name, value in key.config],
    )
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _placed(leaf: Leaf) -> tuple[str | None, str | None, str | None]:
    return leaf.sharding, leaf.memory_kind, leaf.layout

"""Observes where slow misses spend their time, while they run (`retrace run --slow`).

A trace is sampled from another thread (`sampling`). A compilation runs under XLA's own profiler;
whether the profile is worth reading is known when the compilation is over, and it is then read on
the writer thread. Without `--slow` this module is not loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from retrace.capture.background import Task
from retrace.capture.journal import Journal
from retrace.capture.kernels import kernels
from retrace.capture.module import module
from retrace.capture.sampling import Sampler
from retrace.jax_internals.executable import Given, made
from retrace.jax_internals.profile import Profile
from retrace.jax_internals.quick import is_quick
from retrace.jax_internals.xspace import Compilation, compilation
from retrace.model import Slow, Tracing
from retrace.model.slow import Compiling, Kernel, Memory, Module

_MAX_PATIENCE = 1.0
"""Upper limit, in seconds, of the time from which a miss's observations are kept."""
_PATIENCE_SHARE = 0.2
"""That time as a share of what counts as slow: 1 second if misses are slow from 5 seconds on."""
_UNSAMPLED_SHARE = 0.25
"""Share of that time in which a trace is not sampled: it cannot be assigned to any line, so it
must be small compared with a slow miss."""
_MIN_JUDGED_SECONDS = 0.5
"""Below this limit in seconds, the program does not reveal whether its compilation is slow."""
_MIN_MEMORY_SECONDS = 0.05
"""Memory is requested only for compilations that took at least this long."""
_MAX_PROFILE_BYTES = 1 << 26
"""Larger profiles are not read. Some minutes of compilation fill a tenth of this."""

_MAX_KEPT_CHARACTERS = 1 << 26
"""Maximum total length of the packed StableHLO that one process keeps."""


class Clock:
    """Observes the slow misses of this process."""

    def __init__(
        self,
        over: float,
        journal: Journal,
        later: Callable[[Task], None],
        guarded: Callable[[Task], None],
    ) -> None:
        """Start observing.

        Args:
            over: seconds from which a miss counts as slow.
            journal: receives the observations.
            later: runs a task on the writer thread.
            guarded: keeps failures on retrace's threads from the program.
        """
        self._over = over
        self._patience = min(_MAX_PATIENCE, over * _PATIENCE_SHARE)
        self._journal = journal
        self._later = later
        self._guarded = guarded
        self._sampler = self._new_sampler()
        self._profile = Profile()
        self._room = _MAX_KEPT_CHARACTERS
        self._doubts = self._patience < _MIN_JUDGED_SECONDS
        """Whether any program may compile slowly, whatever it looks like."""
        self._unprofiled: dict[int, str | None] = {}
        """Why there is no profile, for each compilation in progress; None if there is one."""

    def trace_began(self, number: int) -> None:
        """An outermost trace begins."""
        if self._sampler is not None:
            self._sampler.began(number)

    def trace_ended(self, number: int) -> None:
        """The trace has returned or raised."""
        if self._sampler is None or (seen := self._sampler.ended(number)) is None:
            return
        if seen.waited + seen.seconds >= self._patience:
            self._tell(number, seen)

    def compile_began(self, number: int, jaxpr: Any) -> None:
        """XLA starts to compile; `jaxpr` is the program, if known."""
        may_be_slow = self._doubts or jaxpr is None or not is_quick(jaxpr)
        self._unprofiled[number] = self._profile.begin() if may_be_slow else "quick"

    def compile_ended(self, number: int, seconds: float, frame: FrameType) -> None:
        """XLA has compiled or raised; `frame` is the JAX frame around it."""
        why = self._unprofiled.pop(number, "jax")
        data = self._profile.end() if why is None else None
        if why is None and data is None:
            why = "program"
        if seconds < min(_MIN_MEMORY_SECONDS, self._patience):
            return
        if why == "quick" and seconds >= self._patience:
            self._doubts = True
        if (found := made(frame)) is None and data is None:
            return
        memory = None if found is None else found.memory()
        if seconds < self._patience:
            if memory is not None:
                self._journal.amend(number, {"slow": Slow(memory=memory, over=self._over)})
            return
        text = None if found is None else found.text
        given = None if found is None else found.given()
        self._later(partial(self._account, number, data, text, memory, given, why))

    def forked(self) -> None:
        """Start afresh in a forked child, which lacks its parent's threads."""
        if self._sampler is not None:
            self._sampler.forked()
        self._sampler = self._new_sampler()
        self._profile.forked()
        self._unprofiled.clear()

    def _new_sampler(self) -> Sampler | None:
        # Without a GIL, frames of a running thread may disappear while they are read.
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return None
        return Sampler(self._patience * _UNSAMPLED_SHARE, self._guarded, self._tell)

    def _tell(self, number: int, tracing: Tracing) -> None:
        self._journal.amend(number, {"slow": Slow(tracing, over=self._over)})

    def _account(
        self,
        number: int,
        data: bytes | None,
        text: Callable[[], str | None] | None,
        memory: Memory | None,
        given: Given | None,
        why: str | None,
    ) -> None:
        compiling = Compiling(unprofiled=why)
        found = None
        if data is not None and len(data) > _MAX_PROFILE_BYTES:
            compiling = Compiling(unprofiled="size")
        elif data is not None:
            found = compilation(data)
            compiling = Compiling(found.passes, threads=found.threads, beside=found.programs > 1)
        if text is not None and (written := text()) is not None:
            rows, named = _kernels(written, found)
            compiling = compiling._replace(kernels=rows, named=named)
        kept = None if given is None else self._keep(given)
        observed = Slow(compiling=compiling, memory=memory, module=kept, over=self._over)
        self._journal.amend(number, {"slow": observed})

    def _keep(self, given: Given) -> Module:
        if self._room <= 0:
            return Module(unkept="room")
        kept = module(given)
        self._room -= len(kept.packed)
        return kept


def _kernels(text: str, found: Compilation | None) -> tuple[tuple[Kernel, ...], int]:
    if found is None:
        return kernels(text, {})
    return kernels(text, found.kernels, found.machine, found.ordered)

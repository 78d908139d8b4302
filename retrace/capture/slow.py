"""Where the seconds of long misses go, while they go: asked for by `retrace run --slow`.

A trace is sampled from another thread (`sampling`). A compilation runs under a profile of XLA's
own; whether it is worth reading is known when it is over, and it is read on the thread that
writes. Without `--slow` nothing of this is loaded.
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
from retrace.jax_internals.xspace import compilation
from retrace.model import Slow, Tracing
from retrace.model.slow import Compiling, Memory, Module

_LONGEST_WAIT = 1.0
"""Seconds before what was seen is worth to be kept."""
_SHARE = 0.2
"""Of a miss that is slow from 5 seconds on, what was seen is kept from the first one on."""
_UNSEEN = 0.25
"""Of these seconds, those in which a trace is not looked at: what is not seen belongs to no
line, and is to be little beside a miss that is slow."""
_QUICK = 0.5
"""Seconds: what is slow from fewer on is not told by a look at the program."""
_MEMORY = 0.05
"""Seconds that a compilation takes at the least whose memory is asked for, in 0.2 ms."""
_LARGEST = 1 << 26
"""Bytes of a profile that are read: some minutes of compilation are a tenth of it."""

_ROOM = 1 << 26
"""Characters of packed StableHLO that one process keeps."""


class Clock:
    """What of this process is observed because it takes long."""

    def __init__(
        self,
        over: float,
        journal: Journal,
        later: Callable[[Task], None],
        guarded: Callable[[Task], None],
    ) -> None:
        """Begin to observe.

        Args:
            over: from how many seconds on a miss is slow.
            journal: is told what was seen.
            later: does something on the thread that writes.
            guarded: keeps what fails on a thread of ours away from the program.
        """
        self._over = over
        self._patience = min(_LONGEST_WAIT, over * _SHARE)
        self._journal = journal
        self._later = later
        self._guarded = guarded
        self._sampler = self._new_sampler()
        self._profile = Profile()
        self._room = _ROOM
        self._doubts = self._patience < _QUICK
        """Whether a program may be slow whatever it looks like."""
        self._unprofiled: dict[int, str | None] = {}
        """Of the compilations under way, why there is no profile."""

    def trace_began(self, number: int) -> None:
        """A trace begins, inside no other stage."""
        if self._sampler is not None:
            self._sampler.began(number)

    def trace_ended(self, number: int) -> None:
        """It has returned, or raised."""
        if self._sampler is None or (seen := self._sampler.ended(number)) is None:
            return
        if seen.waited + seen.seconds >= self._patience:
            self._tell(number, seen)

    def compile_began(self, number: int, jaxpr: Any) -> None:
        """XLA begins to compile; `jaxpr` is what, where that is known."""
        may_be_slow = self._doubts or jaxpr is None or not is_quick(jaxpr)
        self._unprofiled[number] = self._profile.begin() if may_be_slow else "quick"

    def compile_ended(self, number: int, seconds: float, frame: FrameType) -> None:
        """XLA has compiled, or raised; told in JAX's frame around it."""
        why = self._unprofiled.pop(number, "jax")
        data = self._profile.end() if why is None else None
        if why is None and data is None:
            why = "program"
        if seconds < min(_MEMORY, self._patience):
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
        """This is a child now, without its parent's threads."""
        if self._sampler is not None:
            self._sampler.forked()
        self._sampler = self._new_sampler()
        self._profile.forked()
        self._unprofiled.clear()

    def _new_sampler(self) -> Sampler | None:
        # Without a GIL the frames of a thread that runs may go while one looks at them.
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return None
        return Sampler(self._patience * _UNSEEN, self._guarded, self._tell)

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
        seconds: dict[str, float] = {}
        machine = 0.0
        if data is not None and len(data) > _LARGEST:
            compiling = Compiling(unprofiled="size")
        elif data is not None:
            found = compilation(data)
            seconds, machine = found.kernels, found.machine
            compiling = Compiling(found.passes, threads=found.threads, beside=found.programs > 1)
        if text is not None and (written := text()) is not None:
            rows, named = kernels(written, seconds, machine)
            compiling = compiling._replace(kernels=rows, named=named)
        kept = None if given is None else self._keep(given)
        told = Slow(compiling=compiling, memory=memory, module=kept, over=self._over)
        self._journal.amend(number, {"slow": told})

    def _keep(self, given: Given) -> Module:
        if self._room <= 0:
            return Module(unkept="room")
        kept = module(given)
        self._room -= len(kept.packed)
        return kept

"""What can wait until XLA compiles: the text of programs, and lines of the recording.

XLA releases the GIL, so a second thread does this work meanwhile, at no cost to the
program. A jaxpr that waits is held weakly, since it may hold the user's arrays: what JAX
let go of meanwhile is lost, and counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from retrace.capture.background import Background
from retrace.capture.callbacks import callbacks
from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.capture.snapshot import snapshot
from retrace.jax_internals import losses, names
from retrace.jax_internals.jaxprs import Transcript, has_at_most, is_jaxpr, transcribe
from retrace.model.miss_fields import MissFields
from retrace.store.schema import encode_program

NESTED = 48
"""So few equations are walked at once where no compilation of their own follows."""
AHEAD = 1000
"""So few where none may follow at all, and JAX may drop them at once: it took fifteen times
as long to trace them."""


def _is_library(filename: str) -> bool | None:
    match owner(filename):
        case Owner.USER:
            return False
        case Owner.LIBRARY:
            return True
        case _:
            return None


def transcript(jaxpr: Any, *, with_names: bool = True) -> Transcript:
    """A program written down, with its source lines.

    Args:
        jaxpr: the program.
        with_names: whether the names of functions that are called inside are told.
    """
    found = transcribe(jaxpr, _is_library, shown, _plain, with_names=with_names)
    calls = callbacks(found.program.listing, found.listings)
    return found._replace(program=found.program._replace(callbacks=calls)) if calls else found


def described(found: Transcript, number_of: Callable[[object], int | None]) -> MissFields:
    """What a line tells of a program that was written down.

    Args:
        found: the program.
        number_of: gives the number of an object in this process.
    """
    arrays = tuple(map(number_of, found.arrays))
    held = tuple(map(number_of, found.held))
    program = found.program._replace(arrays=arrays, held=held)
    return cast(MissFields, encode_program(program))


def _plain(value: object) -> str | None:
    """The content of what a rule holds, where a snapshot of it is whole."""
    found = snapshot(value, _no_token)
    return f"{found.type} {found.text} {found.data}" if found.exact else None


def _no_token(_: object) -> None:
    return None


class Programs:
    """The work that waits for a compilation."""

    def __init__(
        self,
        known: Callable[[int, Transcript], None],
        lose: Callable[[str], None],
        background: Background,
    ) -> None:
        self._known = known
        self._lose = lose
        self._background = background
        self._waiting: dict[int, weakref.ref[Any]] = {}

    def add(self, number: int, jaxpr: Any, at_once: int = 0) -> None:
        """Write down a miss's program while it compiles; one of so few equations at once."""
        if not names.shows(losses.PROGRAMS) or not is_jaxpr(jaxpr):
            return
        if not names.shows(losses.COMPILATIONS):
            at_once = max(at_once, AHEAD)  # nothing tells for how long JAX keeps it
        if at_once and has_at_most(jaxpr, at_once):
            self._known(number, transcript(jaxpr))
        else:
            self._waiting[number] = weakref.ref(jaxpr)
            self._background.program(partial(self._walk, number))

    def waiting(self, number: int) -> Any:
        """A miss's program, where it is still to be written down; else None."""
        reference = self._waiting.get(number)
        return None if reference is None else reference()

    def now(self, number: int) -> None:
        """Write down a miss's program before it is compiled, for who has to know it by then."""
        self._walk(number)

    def compiled(self, number: int) -> None:
        """Its compilation is over: JAX may drop the program now, where the thread is late."""
        if (reference := self._waiting.get(number)) is None:
            return
        jaxpr = reference()
        if jaxpr is not None and has_at_most(jaxpr, AHEAD):
            self._walk(number)

    def _walk(self, number: int) -> None:
        if (reference := self._waiting.pop(number, None)) is None:
            return
        if (jaxpr := reference()) is None:
            self._lose("a program that JAX dropped before it was written down")
        else:
            self._known(number, transcript(jaxpr))

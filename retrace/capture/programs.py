"""What can wait until XLA compiles: the text of programs, and lines of the recording.

XLA releases the GIL, so a second thread does this work meanwhile, at no cost to the
program. A jaxpr that waits is held weakly, since it may hold the user's arrays: what JAX
let go of meanwhile is lost, and counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from retrace.capture.background import Background
from retrace.capture.cell import shown
from retrace.capture.place import Owner, owner
from retrace.jax_internals.jaxprs import Transcript, transcribe

_SMALL = 48
"""So few equations are walked at once where no compilation follows."""


def _is_library(filename: str) -> bool | None:
    match owner(filename):
        case Owner.USER:
            return False
        case Owner.LIBRARY:
            return True
        case _:
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

    def add(self, number: int, jaxpr: Any, *, compiles: bool = True) -> None:
        """Write down a miss's program, as a rule while it compiles."""
        equations = getattr(getattr(jaxpr, "jaxpr", jaxpr), "eqns", None)
        if equations is None:
            return
        if not compiles and len(equations) <= _SMALL:
            self._known(number, transcribe(jaxpr, _is_library, shown))
        else:
            self._background.program(partial(self._walk, number, weakref.ref(jaxpr)))

    def _walk(self, number: int, reference: weakref.ref[Any]) -> None:
        jaxpr = reference()
        if jaxpr is None:
            self._lose("a program that JAX dropped before it was written down")
        else:
            self._known(number, transcribe(jaxpr, _is_library, shown))

"""Work that can wait until XLA compiles: writing down the text of programs.

XLA releases the GIL, so a second thread does this work in the meantime at no cost to the
program. A waiting jaxpr is referenced weakly, since it may hold the user's arrays. If JAX
drops it first, it is lost, and the loss is counted.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

from retrace.capture.background import Background
from retrace.capture.callbacks import callbacks
from retrace.capture.named import prints_itself
from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.capture.snapshot import snapshot
from retrace.capture.weak import ByObject
from retrace.jax_internals import losses, names
from retrace.jax_internals.jaxprs import is_jaxpr, transcribe
from retrace.jax_internals.source_stacks import Frames
from retrace.jax_internals.transcript import TooLargeError, Transcript
from retrace.model import Listing, Program, Stack

DROPPED = "a program that JAX dropped before it was written down"
"""The name of this loss."""
NESTED = 48
"""Programs of up to this size are written at once if they are not compiled separately."""
AHEAD = 1000
"""The same if there may be no compilation at all, since JAX may drop them right away. Tracing
them took fifteen times as long."""
_MAX_PART = 200
"""Maximum number of equations of a sub-jaxpr whose text is kept while JAX keeps the jaxpr."""
_MAX_PARTS = 4096


def _is_library(filename: str) -> bool | None:
    match owner(filename):
        case Owner.USER:
            return False
        case Owner.LIBRARY:
            return True
        case _:
            return None


_frames: ByObject[Frames] = ByObject()
"""The frames of functions in earlier programs, by instruction."""


def _frames_of(code: CodeType) -> Frames:
    return _frames.of(code, dict) if _names_stay() else {}


_MAX_STACKS = 2048
_stacks: dict[Any, tuple[str, Stack]] = {}
"""The tracebacks in earlier programs. Where functions are traced again, nearly all are met again.
They hold no frames, so that nothing but code lives longer, and of that a bounded number."""


def _known_stacks() -> dict[Any, tuple[str, Stack]] | None:
    if not _names_stay():
        return None
    if len(_stacks) >= _MAX_STACKS:
        _stacks.clear()
    return _stacks


def _names_stay() -> bool:
    """Whether files keep their names: a notebook's cell has that of its latest run."""
    return "IPython" not in sys.modules


class _Parts(ByObject[tuple[Listing, ...]]):
    """Sub-jaxprs that were written down: JAX uses those of `jnp` in many programs."""

    def put(self, thing: Any, value: tuple[Listing, ...]) -> bool:
        if value[-1].size > _MAX_PART:
            return False
        if len(self) >= _MAX_PARTS:
            self.clear()
        return super().put(thing, value)


_parts = _Parts()


def transcript(
    jaxpr: Any,
    *,
    is_part: bool = False,
    with_callbacks: bool = False,
    with_names: bool = True,
    with_unused: bool = True,
    most: float = math.inf,
) -> Transcript:
    """Write down a program, with its source lines.

    Args:
        jaxpr: the program.
        is_part: whether it will be part of a program that is still being traced.
        with_callbacks: whether to include the content of host callbacks.
        with_names: whether to include the names of functions called inside, and the digits of
            numbers that their dtypes do not hold.
        with_unused: whether to include captured arrays that nothing uses.
        most: the largest number of equations to write down, without parts that were met before.

    Raises:
        TooLargeError: there are more.
    """
    as_usual = with_names and with_unused and not with_callbacks
    known = _parts if as_usual and _names_stay() else None
    found = transcribe(
        jaxpr,
        _is_library,
        shown,
        _plain,
        frames=_frames_of,
        stacks=_known_stacks(),
        known=known,
        is_part=is_part,
        with_callbacks=with_callbacks,
        with_names=with_names,
        with_unused=with_unused,
        most=most,
    )
    calls = callbacks(found.program.listing, found.listings)
    return found._replace(program=found.program._replace(callbacks=calls)) if calls else found


def numbered(found: Transcript, number_of: Callable[[object], int | None]) -> Program:
    """The program, with the numbers of the objects that it holds instead of the objects.

    Args:
        found: the program as it was written down.
        number_of: returns the number of an object in this process.
    """
    # A large array of NumPy is compared with no other: its content may change in place.
    arrays = (*map(number_of, found.arrays), *[None] * len(found.large))
    return found.program._replace(arrays=arrays, held=tuple(map(number_of, found.held)))


def _plain(value: object) -> str | None:
    """The content of a value held by a rule, if its snapshot is complete."""
    found = snapshot(value, _no_token)
    whole = found.exact or prints_itself(type(value))
    return f"{found.type} {found.text} {found.data}" if whole else None


def _no_token(_: object) -> None:
    return None


class Programs:
    """The programs that wait to be written down."""

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
        """Write down a miss's program while it compiles, or now if it is at most that large."""
        if losses.PROGRAMS in names.gone or not is_jaxpr(jaxpr):
            return
        if losses.COMPILATIONS in names.gone:
            at_once = max(at_once, AHEAD)  # it is unknown how long JAX keeps it
        if at_once and len(getattr(jaxpr, "jaxpr", jaxpr).eqns) <= at_once:
            try:
                found = transcript(jaxpr, is_part=at_once == NESTED, most=at_once)
            except TooLargeError:
                pass
            else:
                self._known(number, found)
                return
        self._wait(number, weakref.ref(jaxpr))

    def _wait(self, number: int, reference: weakref.ref[Any]) -> None:
        self._waiting[number] = reference
        self._background.program(partial(self._walk, number))

    def waiting(self, number: int) -> Any:
        """The program of a miss if it is not written down yet; else None."""
        reference = self._waiting.get(number)
        return None if reference is None else reference()

    def now(self, number: int) -> None:
        """Write down a miss's program now, because it is needed before it is compiled."""
        self._walk(number)

    def compiled(self, number: int) -> None:
        """The compilation is over. JAX may now drop the program, so do not wait any longer."""
        if (reference := self._waiting.get(number)) is not None and reference() is not None:
            self._walk(number, AHEAD)

    def _walk(self, number: int, most: float = math.inf) -> None:
        if (reference := self._waiting.pop(number, None)) is None:
            return
        if (jaxpr := reference()) is None:
            self._lose(DROPPED)
            return
        try:
            self._known(number, transcript(jaxpr, most=most))
        except TooLargeError:
            self._wait(number, reference)

"""Reads the stack of another thread without letting that thread run in the meantime.

Python switches threads between two instructions, wherever somebody waits for the GIL, so a stack
that is read in a loop belongs to several moments. And a frame that somebody refers to while its
function returns stays alive, with all its local variables; `gc.get_referrers` shows it, and so
does JAX's search for leaked tracers. So each function below reads in one call of `list.extend`,
through iterators that are all written in C, and no Python code of ours ever holds a frame.

Only a program's own audit hook may run in the middle, since Python announces that `f_code` is
read (filelock installs such a hook).

Up to Python 3.11 an allocation may start a garbage collection, and a collection runs Python code
(callbacks, finalizers), which may let the other thread run. It may then leave the very frame that
is being read: what Python made of the frame refers to freed memory from then on, and crashes the
program. So no collection starts in that call, and nobody can see that collections are off.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain, compress, islice, repeat, takewhile, tee
from operator import attrgetter, call, is_, is_not, methodcaller
from types import CodeType
from typing import Any, TypeAlias

At: TypeAlias = tuple[CodeType, int | None, int]
"""Where a function is: its code, the line and the index of the instruction."""

_COLLECTS_ANYWHERE = sys.version_info < (3, 12)
_KEEPS_LOCALS = sys.version_info < (3, 13)
"""Whether a frame keeps the dictionary of local variables that it was asked for."""
_IS_THERE: Any = partial(is_not, None)
_AT: Any = attrgetter("f_code", "f_lineno", "f_lasti")
_CODE: Any = attrgetter("f_code")
_LOCALS: Any = attrgetter("f_locals")
_IS_ON, _OFF, _ON = (gc.isenabled,), (gc.disable,), (gc.enable,)
# The only way to get the stack of another thread.
_FRAMES = (sys._current_frames,)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def stack(thread: int, most: int) -> list[At]:
    """Where each function of a thread is, the innermost first; empty if the thread has ended."""
    return _at_once(map(_AT, _frames(thread, 0, most)))


def local(thread: int, depth: int, code: CodeType, name: str) -> Any:
    """A local variable of the function at a depth of a thread's stack.

    Returns:
        None if the thread runs another function there by now, or the variable is not set.
    """
    if name not in code.co_varnames and name not in code.co_cellvars:
        return None  # asking for it would make Python format an error, and collect garbage there
    # Without names: what is read to its end is let go of at once.
    found = _at_once(
        chain(
            map(methodcaller("get", name), _locals(thread, depth, code)),
            _forgotten(thread, depth, code) if _KEEPS_LOCALS else (),
        )
    )
    return found[0] if found else None


def _frames(thread: int, first: int, end: int) -> Iterator[Any]:
    """The frames of a thread, from the innermost, while they are asked for."""
    innermost: Any = map(dict.get, map(call, _FRAMES), (thread,))
    outwards = accumulate(chain(innermost, repeat("f_back")), getattr)
    # `islice` lets go of the last one as soon as it is done.
    return islice(takewhile(_IS_THERE, outwards), first, end)


def _locals(thread: int, depth: int, code: CodeType) -> Iterator[Any]:
    """The local variables at a depth, if the thread still runs this code there."""
    frame, same = tee(_frames(thread, depth, depth + 1))
    return map(_LOCALS, compress(frame, map(is_, map(_CODE, same), (code,))))


def _forgotten(thread: int, depth: int, code: CodeType) -> Iterator[None]:
    """Take what a frame's dictionary holds out of it, but for the arguments.

    It would die when the dictionary is next brought up to date, and with it Python code may run
    in the middle of that. The arguments stay, which a hook may be reading in the other thread.
    """
    held: Any = chain.from_iterable(map(repeat, _locals(thread, depth, code)))
    names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    emptied: Any = map(dict.__setitem__, held, names, repeat(None))
    return emptied


def _at_once(read: Iterator[Any]) -> list[Any]:
    """Read an iterator to its end while no other thread runs."""
    found: list[Any] = []
    if not _COLLECTS_ANYWHERE:
        found.extend(read)
        return found
    was_on: list[bool] = []
    # These yield nothing: what they call returns None.
    off = chain(map(was_on.append, map(call, _IS_ON)), map(call, compress(_OFF, was_on)))
    on = map(call, compress(_ON, was_on))
    try:
        found.extend(chain(filter(None, off), read, filter(None, on)))
    finally:
        list(on)  # nothing is left of it, unless reading raised
    return found

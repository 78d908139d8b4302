"""A failure of ours: caught here, told, and kept away from the program under recording.

What retrace does there runs inside calls of the program's own: JAX's callbacks, an
import of jax, the start of a process. Each of them passes through `contain`.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar, cast

_OURS = os.path.join(os.path.dirname(__file__), "")
T = TypeVar("T")


def contain(told: Callable[[Exception], object], call: Callable[..., T], *args: Any) -> T | None:
    """Run something of ours, and let nothing that it raises go further.

    Args:
        told: given what was raised. Telling can fail for the same reason: the disk is
            full. Then there is nobody left to tell.
        call: what may fail.
        args: of the call.

    Returns:
        What the call returns, or None.

    Raises:
        Exception: what a signal handler or a debugger of the program's raised amid it.
    """
    try:
        return call(*args)
    except Exception as error:
        if _interrupts(error):
            raise
        if told is not unheard:
            contain(unheard, told, error)
        return None


def asked(call: Callable[..., T], *args: Any) -> T | None:
    """What code of the user's own answers, that we call; None where it raises.

    Args:
        call: asks it.
        args: of the call.
    """
    try:
        return call(*args)
    except Exception:  # noqa: BLE001 - it may raise anything
        return None


def unheard(error: Exception) -> None:
    """What becomes of a failure of which nobody can be told."""


def send(text: str, error: Exception) -> None:
    """Tell on stderr of a failure that nobody but the maintainers can mend.

    Args:
        text: what it means for the user, in one line.
        error: shown with its stack.
    """
    trace = "".join(traceback.format_exception(error)).rstrip()
    sys.stderr.write(f"retrace: {text}, please send this to the maintainers:\n{trace}\n")


def _interrupts(error: Exception) -> bool:
    """Whether a signal handler or a debugger of the program's raised it amid our work.

    They alone are called with a frame; what we call of the user's never is.
    """
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not frame.f_code.co_filename.startswith(_OURS) and any(map(_is_frame, _given(frame))):
            return True
        trace = trace.tb_next
    return False


def _given(frame: FrameType) -> Iterator[object]:
    """The arguments that a function was called with, and has not rebound."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    return (frame.f_locals.get(name) for name in code.co_varnames[:count])


def _is_frame(value: object) -> bool:
    return type(value) is FrameType or (
        type(value) is tuple
        and any(type(item) is FrameType for item in cast(tuple[object, ...], value))
    )

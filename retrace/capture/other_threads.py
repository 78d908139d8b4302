"""Reads the frames of another thread without letting that thread run in the meantime.

Up to Python 3.11 an allocation may start a garbage collection, and a collection runs Python code
(callbacks, finalizers), which may let the other thread run. It may then leave the very frame that
is being read: what Python made of the frame refers to freed memory from then on, and crashes the
program. Since 3.12 collections run only between two instructions.

So no collection may start during such a read. Nor may the other thread see that collections are
off: `_Steps` calls C functions by reading attributes, between which Python switches no threads.
It may do so after every call, so what each function below does cannot be one function.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from operator import methodcaller
from types import FrameType
from typing import Any

_COLLECTS_ANYWHERE = sys.version_info < (3, 12)


class _Steps:
    """C functions that are called when an attribute is read."""

    disable = gc.disable
    enable = gc.enable
    isenabled = gc.isenabled
    # The only way to get the stack of another thread.
    current_frames = sys._current_frames  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    is_on = property(methodcaller("isenabled"))
    off = property(methodcaller("disable"))
    on = property(methodcaller("enable"))
    frames = property(methodcaller("current_frames"))


_STEPS: Any = _Steps()


def innermost() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's identifier."""
    if not _COLLECTS_ANYWHERE or not _STEPS.is_on:
        return _STEPS.frames
    # No call until `on`: see above.
    _ = _STEPS.off
    try:
        return _STEPS.frames
    finally:
        _ = _STEPS.on


def back(frame: FrameType) -> FrameType | None:
    """The frame that called a frame."""
    if not _COLLECTS_ANYWHERE or not _STEPS.is_on:
        return frame.f_back
    _ = _STEPS.off
    try:
        return frame.f_back
    finally:
        _ = _STEPS.on


def local_of(frame: FrameType) -> Mapping[str, Any]:
    """The local variables of a frame of another thread."""
    if not _COLLECTS_ANYWHERE or not _STEPS.is_on:
        local = frame.f_locals
    else:
        _ = _STEPS.off
        try:
            local = frame.f_locals
        finally:
            _ = _STEPS.on
    if sys.version_info >= (3, 13):
        return local
    # Up to Python 3.12 the frame keeps this dictionary. What it held would die when it is next
    # brought up to date, and with it Python code may run in the middle of that. The arguments
    # stay, which a hook may be reading in the other thread.
    code = frame.f_code
    found: dict[str, Any] = dict(local)
    for name in code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]:
        local.pop(name, None)
    return found

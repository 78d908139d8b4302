"""A limit on the time that a function of the user's takes."""

from __future__ import annotations

import ctypes
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TooSlowError(BaseException):
    """A function took longer than it may. No `Exception`, so that it is not caught on its way."""


def limited(seconds: float, call: Callable[[], T]) -> T:
    """Call something, and give it up after some time.

    A thread of ours raises in this one, between two instructions of Python: what waits inside
    C code is given up when that returns.

    Raises:
        TooSlowError: it took longer.
    """
    thread = get_ident()
    guard = allocate_lock()
    over = allocate_lock()
    over.acquire()
    done = False

    def watch() -> None:
        if over.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            return
        with guard:
            if not done:
                _raise_in(thread, TooSlowError)

    try:
        start_new_thread(watch, ())
        try:
            return call()
        finally:
            with guard:
                done = True
            over.release()
            _raise_in(thread, None)
    except TooSlowError:
        _raise_in(thread, None)
        raise TooSlowError from None


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    given = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)

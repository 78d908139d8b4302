"""A limit on the time that a function of the user's takes."""

from __future__ import annotations

import ctypes
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TURNS = 1000
"""Turns of a loop, each of which lets land what another thread has sent; the first is enough."""


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
    done = sent = False

    def watch() -> None:
        nonlocal sent
        if over.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            return
        with guard:
            if not done:
                sent = True
                error = ctypes.py_object(TooSlowError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

    try:
        start_new_thread(watch, ())
        try:
            return call()
        finally:
            with guard:
                done = True
            over.release()
            # What was sent and has not landed lands here. It is never withdrawn: Python 3.11
            # and 3.12 go on looking for what was withdrawn, at every call and every turn of a
            # loop, and 3.11 spins for ever where a profiler or a debugger is switched on then.
            for _ in range(_TURNS if sent else 0):
                pass
    except TooSlowError:
        raise TooSlowError from None

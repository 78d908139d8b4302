"""A limit on the time that a function of the user's takes."""

from __future__ import annotations

import ctypes
import signal
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_TURNS = 1000
"""Turns of a loop, each of which lets land what another thread has sent; the first is enough."""
_AGAIN = 0.25
"""Seconds after which a function that goes on is given up once more."""
_WAKES: Any = getattr(signal, "SIGURG", None)
"""A signal that does nothing where nobody handles it; None where there is none."""


class TooSlowError(BaseException):
    """A function took longer than it may. No `Exception`, so that it is not caught on its way."""


def limited(seconds: float, call: Callable[[], T]) -> T:
    """Call something, and give it up after some time.

    A thread of ours raises in this one, between two instructions of Python. The main thread is
    woken for that where it sleeps or waits; what computes inside C code, or waits in another
    thread, is given up when that returns.

    Raises:
        TooSlowError: it took longer.
    """
    thread = get_ident()
    over = allocate_lock()
    over.acquire()
    sent = sending = done = late = False

    def watch() -> None:
        nonlocal sent, sending
        wait = max(0.0, min(seconds, threading.TIMEOUT_MAX))
        while not over.acquire(timeout=wait):
            sending = True
            if not done:
                sent = True
                error = ctypes.py_object(TooSlowError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
                if wakes:
                    signal.pthread_kill(thread, _WAKES)
            sending = False
            # It may have been caught, or been lost where Python ignores what is raised.
            wait = _AGAIN

    try:
        with _can_be_woken() as wakes:
            try:
                start_new_thread(watch, ())
                answer = call()
            finally:
                done = True  # nothing lands before this line, and nothing is sent after it
                while True:
                    try:
                        if over.locked():
                            over.release()
                        while sending:
                            pass
                        # What was sent and has not landed lands here. It is never withdrawn:
                        # Python 3.11 and 3.12 go on looking for what was withdrawn, at every
                        # call and every turn of a loop, and 3.11 spins for ever where a
                        # profiler or a debugger is switched on then.
                        for _ in range(_TURNS if sent else 0):
                            pass
                        break
                    except TooSlowError:
                        late = True
    except TooSlowError:
        raise TooSlowError from None
    if late:
        raise TooSlowError
    return answer


@contextmanager
def _can_be_woken() -> Generator[bool]:
    """Whether a signal wakes this thread: Python handles them in the main thread alone."""
    if (
        _WAKES is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(_WAKES) is not signal.SIG_DFL
    ):
        yield False
        return
    signal.signal(_WAKES, _woken)
    try:
        yield True
    finally:
        # What is under way arrives at a call of the system, while somebody handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if signal.getsignal(_WAKES) is _woken:
            signal.signal(_WAKES, signal.SIG_DFL)


def _woken(*_: object) -> None:
    """What was raised in the main thread lands at the latest here."""

"""A time limit for user functions."""

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
"""Loop iterations in which an exception from another thread can land; the first is enough."""
_RETRY_SECONDS = 0.25
"""After this many seconds the exception is sent again to a function that keeps running."""
_SOON = 0.001
"""In seconds: a timer of 0 never rings."""
_WAKE_SIGNAL: Any = getattr(signal, "SIGURG", None)
"""A signal that is ignored by default; None if the system has none."""


class TooSlowError(BaseException):
    """A function exceeded its time limit. No `Exception`, so that user code does not catch it."""


class RaisedError(Exception):
    """The user's function raised. Other errors are retrace's, and are told as such."""


def limited(seconds: float, call: Callable[[], T]) -> T:
    """Call something, and interrupt it after some time.

    Another thread raises in this one, between two Python instructions. If the main thread
    sleeps or waits, it is woken for that; C code, and waits in other threads, are only
    interrupted when they return. At the end of a program Python 3.12 starts no thread any more:
    there a timer of the system does it.

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
                    signal.pthread_kill(thread, _WAKE_SIGNAL)
            sending = False
            # It may have been caught, or lost where Python ignores exceptions.
            wait = _RETRY_SECONDS

    try:
        with _can_be_woken() as wakes:
            try:
                try:
                    start_new_thread(watch, ())
                except RuntimeError:
                    answer = _timed(seconds, call)
                else:
                    answer = call()
            finally:
                done = True  # from here on nothing more is sent
                while True:
                    try:
                        if over.locked():
                            over.release()
                        while sending:
                            pass
                        # An exception that was sent but has not landed lands here. It is never
                        # withdrawn: Python 3.11 and 3.12 would keep checking for it at every call
                        # and loop iteration, and 3.11 would spin forever once a profiler or
                        # debugger is switched on.
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


def _timed(seconds: float, call: Callable[[], T]) -> T:
    """Call something in the main thread, and interrupt it by a signal.

    Raises:
        TooSlowError: it took longer.
        RuntimeError: the program uses this signal itself, or this is another thread.
    """
    alarm, timer = getattr(signal, "SIGALRM", None), getattr(signal, "ITIMER_REAL", None)
    if (
        alarm is None
        or timer is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(alarm) is not signal.SIG_DFL
        or signal.getitimer(timer) != (0.0, 0.0)
    ):
        raise RuntimeError("there is no thread and no timer for a time limit")
    done = late = False

    def ring(*_: object) -> None:
        if not done:
            raise TooSlowError

    signal.signal(alarm, ring)
    try:
        signal.setitimer(timer, max(seconds, _SOON), _RETRY_SECONDS)
        return call()
    finally:
        while True:
            try:
                done = True
                signal.setitimer(timer, 0.0)
                signal.signal(alarm, signal.SIG_DFL)
                break
            except TooSlowError:
                late = True
        if late:
            raise TooSlowError


@contextmanager
def _can_be_woken() -> Generator[bool]:
    """Whether a signal can wake this thread: Python handles signals only in the main thread."""
    if (
        _WAKE_SIGNAL is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(_WAKE_SIGNAL) is not signal.SIG_DFL
    ):
        yield False
        return
    signal.signal(_WAKE_SIGNAL, _woken)
    try:
        yield True
    finally:
        # A pending signal arrives at this system call, while our handler is installed.
        signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if signal.getsignal(_WAKE_SIGNAL) is _woken:
            signal.signal(_WAKE_SIGNAL, signal.SIG_DFL)


def _woken(*_: object) -> None:
    """Do nothing: an exception sent to the main thread lands here at the latest."""

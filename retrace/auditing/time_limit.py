"""A time limit for user functions."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_TURNS = 1000
"""Loop iterations in which an exception from another thread can land; the first is enough."""
_RETRY_SECONDS = 0.25
"""After this many seconds the exception is sent again to a function that keeps running."""
_SOON = 0.001
"""In seconds: a timer of 0 never rings."""
_PATIENCE = 4
"""So many exceptions may be caught, before one is raised at a line where the function is."""
_LINES = 24
"""The lines at which it is raised, one after the other: it may be caught at some."""
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
    interrupted when they return. If the main thread catches what is raised, always where it
    sleeps, it is raised at its next lines instead. At the end of a program Python 3.12 starts
    no thread any more: there a timer of the system does it.

    Raises:
        TooSlowError: it took longer.
    """
    sender = _Sender()
    try:
        with _can_be_woken(sender.woken) as wakes:
            sender.wakes = wakes
            try:
                try:
                    start_new_thread(sender.watch, (seconds,))
                except RuntimeError:
                    answer = _timed(seconds, call)
                else:
                    answer = call()
            finally:
                sender.done = True  # from here on nothing more is sent
                late = False
                while True:
                    try:
                        sender.settle()
                        break
                    except TooSlowError:
                        late = True
    except TooSlowError:
        raise TooSlowError from None
    if late:
        raise TooSlowError
    return answer


class _Sender:
    """Raises in the thread that made it, from another one, until it is told to end."""

    def __init__(self) -> None:
        self.wakes = False
        """Whether a signal wakes the thread."""
        self._thread = get_ident()
        self._over = allocate_lock()
        self._over.acquire()
        self.done = self._sending = False
        self._sent = 0

    def watch(self, seconds: float) -> None:
        """Raise after some time, and again as long as it goes on."""
        wait = max(0.0, min(seconds, threading.TIMEOUT_MAX))
        while not self._over.acquire(timeout=wait):
            self._sending = True
            if not self.done:
                self._sent += 1
                if self._sent <= _PATIENCE or not self.wakes:
                    error = ctypes.py_object(TooSlowError)
                    thread = ctypes.c_ulong(self._thread)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
                if self.wakes:
                    signal.pthread_kill(self._thread, _WAKE_SIGNAL)
            self._sending = False
            # It may have been caught, or lost where Python ignores exceptions.
            wait = _RETRY_SECONDS

    def woken(self, _: int, frame: FrameType | None) -> None:
        """Where the signal arrives: raise at a later line, if exceptions were caught."""
        if self._sent > _PATIENCE and not self.done and sys.gettrace() is None:
            _raise_at_a_line(frame, self._sent % _LINES, lambda: self.done)

    def settle(self) -> None:
        """End the other thread; raises what was sent but has not landed."""
        if self._over.locked():
            self._over.release()
        while self._sending:
            pass
        # It is never withdrawn: Python 3.11 and 3.12 would keep checking for it at every call
        # and loop iteration, and 3.11 would spin forever once a profiler or debugger is switched
        # on.
        for _ in range(_TURNS if self._sent else 0):
            pass


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
def _can_be_woken(woken: Callable[[int, FrameType | None], None]) -> Generator[bool]:
    """Whether a signal can wake this thread: Python handles signals only in the main thread.

    An exception sent to it lands in `woken` at the latest.
    """
    if (
        _WAKE_SIGNAL is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(_WAKE_SIGNAL) is not signal.SIG_DFL
    ):
        yield False
        return
    signal.signal(_WAKE_SIGNAL, woken)
    try:
        yield True
    finally:
        # A pending signal arrives at this system call, while our handler is installed.
        signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if signal.getsignal(_WAKE_SIGNAL) is woken:
            signal.signal(_WAKE_SIGNAL, signal.SIG_DFL)


def _raise_at_a_line(frame: FrameType | None, skip: int, is_over: Callable[[], bool]) -> None:
    """Raise in this thread at one of the next lines that a frame, or one around it, runs."""

    def trace(at: FrameType, event: str, _: Any) -> Any:
        nonlocal skip
        if is_over():
            sys.settrace(None)
            return None
        if event == "line" and at.f_code.co_filename != __file__:
            skip -= 1
            if skip < 0:
                sys.settrace(None)
                raise TooSlowError
        return trace

    while frame is not None and frame.f_code.co_filename != __file__:
        frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(trace)

"""The processor time that is spent inside retrace: by the thread that misses, and by ours."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import thread_time
from typing import Any

from retrace.capture.session import flush
from retrace.jax_internals.hooks import Hooks


class Inside:
    """Seconds of processor time; garbage collections, which are the whole heap's, apart."""

    def __init__(self) -> None:
        self.missing = 0.0
        """Of the thread that misses, inside `Hooks.guarded`."""
        self.collected = 0.0
        """Of the main thread, in garbage collections."""
        self._depth = 0
        self._began = 0.0
        self._aside = 0.0
        """Of our own thread, in garbage collections."""

    def enter(self) -> float:
        self._depth += 1
        return thread_time() - self.collected

    def leave(self, began: float) -> None:
        self._depth -= 1
        if not self._depth:
            self.missing += thread_time() - self.collected - began

    def collecting(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = thread_time()
        elif threading.current_thread() is threading.main_thread():
            self.collected += thread_time() - self._began
        else:
            self._aside += thread_time() - self._began

    def both(self) -> float:
        """Of both threads, once all that waited is written."""
        flush()
        return self.missing + _background() - self._aside


def _background() -> float:
    for thread in threading.enumerate():
        if thread.name == "retrace" and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return 0.0


@contextmanager
def measured() -> Generator[Inside]:
    """Measure from here on; the main thread misses."""
    inside = Inside()
    guarded = Hooks.guarded

    def timed(self: Hooks, call: Callable[..., None], *args: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            guarded(self, call, *args)
            return
        began = inside.enter()
        try:
            guarded(self, call, *args)
        finally:
            inside.leave(began)

    Hooks.guarded = timed
    gc.callbacks.append(inside.collecting)
    try:
        yield inside
    finally:
        gc.callbacks.remove(inside.collecting)
        Hooks.guarded = guarded

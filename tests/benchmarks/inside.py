"""Processor time spent inside retrace, by the missing thread and by retrace's own."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from time import thread_time
from typing import Any

from retrace.capture.background import Task
from retrace.capture.session import flush, session


class Inside:
    """Seconds of processor time; garbage collections of the whole heap are counted separately."""

    def __init__(self) -> None:
        self.missing = 0.0
        """In the thread that misses, inside `Hooks.guarded`."""
        self.collected = 0.0
        """In garbage collections on the main thread."""
        self._depth = 0
        self._began = 0.0
        self._aside = 0.0
        """In garbage collections on retrace's own thread."""
        self._writing = 0.0
        """On retrace's own thread, without these."""

    def enter(self) -> float:
        """Begin a window: its beginning, moved by what reading the clock itself takes.

        That is a call of the system of 1 to 5 us, ten times a miss. It is read once more here,
        just before, when the caches of the processor are as cold as at the beginning.
        """
        self._depth += 1
        first = thread_time()
        began = thread_time()
        return began + (began - first) - self.collected

    def leave(self, began: float) -> None:
        self._depth -= 1
        if not self._depth:
            self.missing += thread_time() - self.collected - began

    def collecting(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = thread_time()
        elif _is_main():
            self.collected += thread_time() - self._began
        else:
            self._aside += thread_time() - self._began

    def write(self, guarded: Callable[[Task], None], task: Task) -> None:
        """Do the work that waits for the writing thread."""
        if _is_main():
            guarded(task)
            return
        began = thread_time() - self._aside
        try:
            guarded(task)
        finally:
            self._writing += thread_time() - self._aside - began

    def both(self) -> float:
        """On both threads, once everything waiting has been written."""
        flush()
        return self.missing + self._writing


def _is_main() -> bool:
    # Not with `current_thread`, which would register retrace's thread under a name.
    return threading.get_ident() == threading.main_thread().ident


@contextmanager
def measured() -> Generator[Inside]:
    """Measure from here on; the main thread misses."""
    inside = Inside()
    hooks: Any = vars(session())["_hooks"]
    guarded = hooks.guarded

    def timed(call: Callable[..., Any], *args: Any) -> Any:
        if not _is_main():
            return guarded(call, *args)
        began = inside.enter()
        try:
            return guarded(call, *args)
        finally:
            inside.leave(began)

    background = vars(vars(session().recorder)["_background"])
    given = background["_guarded"]
    background["_guarded"] = partial(inside.write, given)
    hooks.guarded = timed
    gc.callbacks.append(inside.collecting)
    try:
        yield inside
    finally:
        gc.callbacks.remove(inside.collecting)
        hooks.guarded = guarded
        background["_guarded"] = given

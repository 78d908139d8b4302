"""Writes how much processor time XLA's compiler took, on all threads, without retrace's own.

A pytest plugin (`-p suite_xla`), loaded in every way of running. XLA does the same work in each,
but its time varies by more from run to run than recording costs. SUITE_XLA names the file.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from jax._src import compiler

_compiler: Any = compiler
_NAME = next(n for n in ("backend_compile_and_load", "backend_compile") if hasattr(compiler, n))
_compile: Any = getattr(_compiler, _NAME)
_seconds = 0.0
_found: list[Any] = []


def _writing() -> tuple[int, float]:
    """The thread of retrace that writes, if there is one, and its processor time so far."""
    module = sys.modules.get("retrace.capture.background")
    if module is None:
        return 0, 0.0
    if not _found:
        _found.extend(one for one in gc.get_objects() if type(one) is module.Background)
    for one in _found:
        thread = cast(int, vars(one)["_thread"] or 0)
        try:
            return thread, time.clock_gettime(time.pthread_getcpuclockid(thread)) if thread else 0
        except OSError:  # it has just ended
            continue
    return 0, 0.0


def _timed(*args: Any, **kwargs: Any) -> Any:
    global _seconds
    thread, before = _writing()
    began = time.process_time()
    try:
        return _compile(*args, **kwargs)
    finally:
        spent = time.process_time() - began
        later, after = _writing()
        _seconds += spent - (after - (before if later == thread else 0.0))


setattr(_compiler, _NAME, _timed)


def pytest_unconfigure() -> None:
    Path(os.environ["SUITE_XLA"]).write_text(str(_seconds))

"""Who observes JAX here: the recorder behind the hooks, or public events where JAX is unknown."""

from __future__ import annotations

import os
from typing import Any

from retrace.capture import interpreter
from retrace.capture.public import PublicEvents


def observers() -> tuple[Any, Any]:
    """Who observes, and the hooks that tell it; on an unknown JAX or Python one that is both."""
    if interpreter.lacks(interpreter.PUBLIC):
        public = PublicEvents(interpreter.PUBLIC)
        return public, public
    try:
        from retrace.capture.recorder import Recorder
        from retrace.jax_internals.hooks import Hooks
    except (ImportError, AttributeError) as error:
        if not _is_of_jax(error):
            raise
        public = PublicEvents(error)
        return public, public
    recorder = Recorder()
    hooks = Hooks(recorder)
    recorder.guarded = hooks.guarded
    if (over := _slow_from()) is not None:
        recorder.observe_slow(over)
    return recorder, hooks


def _slow_from() -> float | None:
    """From how many seconds on a miss is slow, as the environment says; None for no more."""
    try:
        over = float(os.environ.get("RETRACE_SLOW", ""))
    except ValueError:
        return None
    return over if 0 < over < 1e9 else None


def _is_of_jax(error: ImportError | AttributeError) -> bool:
    """Whether it is JAX that lacks something, and not we."""
    module = getattr(getattr(error, "obj", None), "__name__", None) or error.name or ""
    return module.partition(".")[0] in ("jax", "jaxlib")

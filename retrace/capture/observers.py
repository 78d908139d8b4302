"""Chooses the observer of JAX: the recorder with its hooks, or only public events."""

from __future__ import annotations

from typing import Any

from retrace.capture import interpreter
from retrace.capture.process import slow_from
from retrace.capture.public import PublicEvents


def observers() -> tuple[Any, Any]:
    """Return the observer and its hooks; with an unknown JAX or Python one object is both."""
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
    if (over := slow_from()) is not None:
        recorder.observe_slow(over)
    return recorder, hooks


def _is_of_jax(error: ImportError | AttributeError) -> bool:
    """Whether the missing name belongs to JAX rather than to retrace."""
    module = getattr(getattr(error, "obj", None), "__name__", None) or error.name or ""
    return module.partition(".")[0] in ("jax", "jaxlib")

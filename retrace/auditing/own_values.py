"""What functions read that is not the same everywhere: of a thread, or of a context."""

from __future__ import annotations

import threading
from contextvars import ContextVar, copy_context
from typing import Any

from retrace.auditing.effects import outside_values
from retrace.capture.objects import derives, kind_of

_OF_THREAD = frozenset(
    map(id, (threading.current_thread, threading.get_ident, threading.get_native_id))
)


def of_thread(functions: list[tuple[Any, Any]]) -> str | None:
    """What functions read that each thread has of its own; None if there is nothing."""
    for function, receiver in functions:
        for place, value in outside_values(function, receiver):
            if derives(kind_of(value), threading.local, ContextVar) or id(value) in _OF_THREAD:
                return str(place)
    return None


def of_context(functions: list[tuple[Any, Any]]) -> str | None:
    """A context variable that functions read and that is not set here; None if there is none."""
    here = copy_context()
    for function, receiver in functions:
        for place, value in outside_values(function, receiver):
            if kind_of(value) is ContextVar and value not in here:
                return str(place)
    return None

"""What functions read that is not the same everywhere: of a thread, or of a context."""

from __future__ import annotations

import inspect
import sys
import threading
import traceback
from contextvars import ContextVar, copy_context
from typing import Any

from retrace.auditing.effects import outside_values
from retrace.capture.objects import derives, kind_of

_OF_THREAD = frozenset(
    map(id, (threading.current_thread, threading.get_ident, threading.get_native_id))
)
_OF_DECIMAL = ("getcontext", "localcontext", "Decimal")
"""What depends on the precision of a thread."""
_OF_STACK = frozenset(
    map(
        id,
        (
            *(vars(sys)["_getframe"], inspect.currentframe, inspect.stack),
            *(traceback.extract_stack, traceback.format_stack, traceback.walk_stack),
        ),
    )
)
"""Functions that show who calls: an audit calls from elsewhere."""


def of_thread(functions: list[tuple[Any, Any]]) -> str | None:
    """What functions read that each thread has of its own; None if there is nothing."""
    known = sys.modules.get("decimal")  # it may be the user's own
    settings = [getattr(known, name, None) for name in _OF_DECIMAL]
    of_thread = _OF_THREAD | {id(one) for one in settings if one is not None}
    for function, receiver in functions:
        for place, value in outside_values(function, receiver):
            if derives(kind_of(value), threading.local, ContextVar) or id(value) in of_thread:
                return str(place)
    return None


def of_context(functions: list[tuple[Any, Any]]) -> str | None:
    """What functions read that depends on where they are called; None if there is nothing.

    This is a context variable that is not set here, or the stack.
    """
    here = copy_context()
    for function, receiver in functions:
        for place, value in outside_values(function, receiver):
            is_unset = kind_of(value) is ContextVar and value not in here
            if is_unset or id(value) in _OF_STACK:
                return str(place)
    return None

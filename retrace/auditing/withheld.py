"""Withholds what acts outside the program while a function is traced again.

Bytecode shows most of it before (`effects`), but not what a library or an unknown object does.
Python's audit hooks would hear all of it, but cannot be removed again.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import socket
import subprocess
from _thread import get_ident
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from retrace.auditing.outward import OS_FUNCTIONS
from retrace.jax_internals.retracing import computes_at_trace, lowering

_NONE = object()
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ActsError(BaseException):
    """A function was about to act outside. No `Exception`, which its own code may catch."""


@contextmanager
def withheld() -> Generator[None]:
    """Raise ActsError in this thread instead of acting outside."""
    here = get_ident()
    found: list[str] = []
    is_over = False

    def instead(original: Any, name: str, acts: Callable[..., bool] | None) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            # A module that is imported meanwhile may keep it, as by `from os import rename`.
            if is_over or get_ident() != here:
                return original(*args, **kwargs)
            if acts is None or acts(*args, **kwargs):
                found.append(name)
                raise ActsError(name)
            return original(*args, **kwargs)

        return call

    undo: list[tuple[Any, str, Any, Any]] = []
    try:
        for owner, attribute, name, acts in _acting():
            # What is inherited is not there before, and is taken away again.
            before = cast(dict[str, Any], vars(owner)).get(attribute, _NONE)
            ours = instead(getattr(owner, attribute), name, acts)
            setattr(owner, attribute, ours)
            undo.append((owner, attribute, before, ours))
        yield
        if found:  # and the function went on after it
            raise ActsError(found[0])
    finally:
        is_over = True
        for owner, attribute, before, ours in reversed(undo):
            if getattr(owner, attribute) is not ours:
                continue
            if before is _NONE:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, before)


def _acting() -> Iterator[tuple[Any, str, str, Callable[..., bool] | None]]:
    """Where such a function is, its name, and whether a call of it acts; None if always."""
    yield builtins, "open", "open", _writes
    yield io, "open", "open", _writes
    yield os, "open", "os.open", _may_write
    for name in OS_FUNCTIONS:
        if hasattr(os, name):
            yield os, name, f"os.{name}", None
    yield subprocess.Popen, "__init__", "subprocess.Popen", None
    for name in ("connect", "connect_ex", "bind", "sendto"):
        yield socket.socket, name, f"socket.{name}", None
    if (where := lowering()) is not None:
        # What was compiled before is computed all the same: that leaves nothing behind.
        yield *where, "lower", None
        yield *where, "jax.ensure_compile_time_eval", _computes


def _computes(*_: Any, **__: Any) -> bool:
    return computes_at_trace()


def _writes(*given: Any, mode: Any = "r", **_: Any) -> bool:
    mode = given[1] if len(given) > 1 else mode
    return type(mode) is str and not {*"wax+"}.isdisjoint(mode)


def _may_write(*given: Any, flags: Any = 0, **_: Any) -> bool:
    flags = given[1] if len(given) > 1 else flags
    return type(flags) is int and bool(flags & _WRITING)

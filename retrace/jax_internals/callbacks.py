"""Frames in which a program calls back into the user's Python."""

from __future__ import annotations

import os
from types import CodeType

import jax

_CALLBACKS = (
    os.path.join(os.path.dirname(jax.__file__), "_src", "callback.py"),
    os.path.join(os.path.dirname(jax.__file__), "_src", "debugging.py"),
)


def is_host_callback(code: CodeType) -> bool:
    """Whether this frame runs the user's Python for a program that calls back into it."""
    return code.co_filename in _CALLBACKS

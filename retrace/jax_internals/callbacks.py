"""Frames of JAX's that call the user's Python: for a program, or for each leaf of a tree."""

from __future__ import annotations

import os
from types import CodeType

import jax

_CALLBACKS = (
    os.path.join(os.path.dirname(jax.__file__), "_src", "callback.py"),
    os.path.join(os.path.dirname(jax.__file__), "_src", "debugging.py"),
)


_MAPS = frozenset(
    getattr(function, "__wrapped__", function).__code__
    for function in (jax.tree_util.tree_map, jax.tree_util.tree_map_with_path)
)


def is_tree_map(code: CodeType) -> bool:
    """Whether this frame runs the user's Python for each leaf of a tree."""
    return code in _MAPS


def is_host_callback(code: CodeType) -> bool:
    """Whether this frame runs the user's Python for a program that calls back into it."""
    return code.co_filename in _CALLBACKS

"""JAX frames that call user code: host callbacks, and functions mapped over a pytree."""

from __future__ import annotations

import functools
import os
from types import CodeType, FunctionType

import jax

_CALLBACKS = frozenset(
    os.path.join(os.path.dirname(jax.__file__), "_src", name)
    for name in ("callback.py", "debugging.py")
)

CALLBACKS = ("pure_callback", "io_callback", "debug_callback")
"""The primitives that call into Python."""

_MAPS: dict[str, CodeType] = {
    code.co_qualname: code
    for code in (
        getattr(function, "__wrapped__", function).__code__
        for function in (jax.tree_util.tree_map, jax.tree_util.tree_map_with_path)
    )
}
"""By qualified name: hashing a code object hashes all of its content each time."""


def is_tree_map(code: CodeType) -> bool:
    """Whether this frame calls user code for each leaf of a pytree."""
    return _MAPS.get(code.co_qualname) is code


def printed(callback: FunctionType) -> str:
    """The text that a JAX callback prints with, for example the format of a `jax.debug.print`.

    Later releases of JAX have a primitive for printing, which holds the format.
    """
    if not is_host_callback(callback.__code__):
        return ""
    for cell in callback.__closure__ or ():
        try:
            held: object = cell.cell_contents
        except ValueError:
            continue
        if type(held) is functools.partial:
            code = getattr(held.func, "__code__", None)
            if code is not None and is_host_callback(code):
                return "".join([f" {each!r}" for each in held.args if type(each) is str])
    return ""


def is_host_callback(code: CodeType) -> bool:
    """Whether this frame runs a host callback of a compiled program."""
    return code.co_filename in _CALLBACKS

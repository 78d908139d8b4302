"""Wrappers of JAX functions that send no events; they report to the observer."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

from retrace.jax_internals.names_hooks import HIDE_IN_TRACEBACKS
from retrace.jax_internals.traces import leave

if TYPE_CHECKING:
    from retrace.jax_internals.hooks import Hooks

if (_hide := HIDE_IN_TRACEBACKS.get()) is not None:
    _hide(__file__)

# Each function here makes a wrapper of `original`. Once the hooks of `installation` are removed,
# the wrapper reports nothing.


def of_jit(original: Any, hooks: Hooks, installation: object) -> Any:
    """Wrap what makes a jitted function: reports the function and the calling frame."""

    def _cpp_pjit(fun: Any, *args: Any, **kwargs: Any) -> Any:
        if hooks.is_current(installation):
            hooks.guarded(hooks.observer.jitted, fun, sys._getframe(1))
        return original(fun, *args, **kwargs)

    return _cpp_pjit


def of_update(original: Any, hooks: Hooks, installation: object) -> Any:
    """Wrap `jax.config.update`: reports the option that was set."""

    def update(self_: Any, name: str, val: Any) -> None:
        original(self_, name, val)
        if hooks.is_current(installation):
            hooks.guarded(hooks.observer.configured, name, sys._getframe(1))

    for name in ("__doc__", "__module__", "__qualname__"):
        setattr(update, name, getattr(original, name, None))
    return update


class _Kept:
    """Hashes the content that it is given, and keeps it."""

    def __init__(self, hashed: Any) -> None:
        self.hashed = hashed
        self.content = b""

    def update(self, content: Any) -> None:
        self.hashed.update(content)
        self.content += content


def of_cache_key(original: Any, hooks: Hooks, installation: object) -> Any:
    """Wrap what logs the key of the on-disk cache: reports each part as it is added."""
    unasked: Any = None  # a key that nobody needs: JAX computes it even without a cache

    def _log_cache_key_hash(hash_obj: Any, last_serialized: str, hashfn: Any) -> None:
        nonlocal unasked
        try:
            original(hash_obj, last_serialized, hashfn)
        except BaseException as error:
            leave(error)
            raise
        if hash_obj is unasked or not hooks.is_current(installation):
            return

        def digest() -> str:
            return hash_obj.copy().hexdigest()

        def alone() -> tuple[str, bytes]:
            own = _Kept(hashlib.new(hash_obj.name))
            hashfn(own)
            return own.hashed.hexdigest(), own.content

        def report_part() -> bool:
            return hooks.observer.cache_key_part(last_serialized, digest, alone)

        if hooks.guarded(report_part) is False:
            unasked = hash_obj

    return _log_cache_key_hash


def of_lower(original: Any, hooks: Hooks, installation: object) -> Any:
    """Wrap `Traced.lower`: reports its result."""

    def lower(traced: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            lowered = original(traced, *args, **kwargs)
        except BaseException as error:
            leave(error)
            raise
        if hooks.is_current(installation):
            hooks.guarded(hooks.observer.lowered, lowered)
        return lowered

    lower.__doc__ = original.__doc__
    return lower

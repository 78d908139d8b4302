"""What JAX's on-disk compilation cache did for one compilation.

JAX tells three things, and the rest follows from its configuration:

    look-up    compile_requests_use_cache    also without a directory to look into
    found      cache_hits
    written    cache_misses                  just before the file is written

An entry that is then not on disk, or not whole, could not be written: JAX warns, and leaves
what had found room.

An entry that is looked up in vain and not written has, in this order of JAX's own
tests, a host callback in the program (up to jax 0.10), taken less time to compile
than the least, or fewer bytes than the least (jax/_src/compiler.py, `_cache_write`).
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

import jax
from jax._src import compilation_cache, compiler, distributed, lru_cache

from retrace.model import PersistentCache

_EVENTS = "/jax/compilation_cache/"
_DEEPEST = 8
_DIGITS = 16
_SLACK = 0.05
"""Seconds that the stage may take longer than what JAX holds against its limit."""
_WRITES = "put_executable_and_time"
_BYTES_TO_WRITE = "entry_size"
"""Where JAX says that it will write an entry, and a local of it: how long the entry is."""
_suffix: str | None = getattr(lru_cache, "_CACHE_SUFFIX", None)


class Lookup:
    """What was seen of the cache between the start and the end of one compilation."""

    __slots__ = ("_callbacks", "_found", "_key", "_least", "_looked_up", "_parts", "_written")

    def __init__(self) -> None:
        self._looked_up = False
        self._found = False
        self._written = False
        self._callbacks = False
        self._key: str | None = None
        self._least = 0
        """Bytes that the file has when it is whole, as far as JAX's frame showed them."""
        self._parts: list[tuple[str, str]] = []

    def part(self, name: str, digest: str) -> None:
        """Take in the hash over an ingredient of the key and over all before it."""
        self._parts.append((name, digest[:_DIGITS]))

    def event(self, name: str, frame: FrameType) -> None:
        """Take in one of JAX's events; of the frame, a few locals of its callers are read."""
        match name.removeprefix(_EVENTS):
            case "compile_requests_use_cache":
                self._looked_up = True
                self._read(frame)
            case "cache_hits":
                self._found = True
            case "cache_misses":
                self._written = True
                self._least = self._size_to_be(frame)
            case _:
                pass

    def outcome(self, compile_seconds: float) -> PersistentCache:
        """What became of it, once the compilation took `compile_seconds`."""
        return self._outcome(compile_seconds)._replace(ingredients=tuple(self._parts))

    def _outcome(self, compile_seconds: float) -> PersistentCache:
        if not self._looked_up:
            return PersistentCache("off")
        if self._found:
            return PersistentCache("hit", self._key)
        cache: Any = compilation_cache._cache  # pyright: ignore[reportPrivateUsage]
        if cache is None:
            if compilation_cache.is_persistent_cache_enabled():
                # There is a directory, but it could not be made or opened.
                return PersistentCache("not-stored", self._key, "write-failed")
            return PersistentCache("off")
        if self._written:
            path = _path(cache, self._key)
            # An empty one, of whatever size it was to be, cannot be read by anybody.
            if path is not None and (size := _size(path)) < max(1, self._least):
                why = "write-failed" if size >= 0 else _why_missing(cache, self._least)
                return PersistentCache("not-stored", self._key, why)
            return PersistentCache("miss", self._key)
        return PersistentCache("not-stored", self._key, self._why(compile_seconds))

    def _read(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        for _ in range(_DEEPEST):
            if caller is None:
                return
            if caller.f_code.co_name == "compile_or_get_cached":
                key = caller.f_locals.get("cache_key")
                self._key = key if isinstance(key, str) else None
                self._callbacks = bool(caller.f_locals.get("host_callbacks"))
                return
            caller = caller.f_back

    def _size_to_be(self, frame: FrameType) -> int:
        caller: FrameType | None = frame
        for _ in range(_DEEPEST):
            if caller is None:
                break
            if caller.f_code.co_name == _WRITES:
                cache: Any = compilation_cache._cache  # pyright: ignore[reportPrivateUsage]
                path = _path(cache, self._key)
                if path is not None and _size(path) >= 0:
                    return 0  # another process was quicker, and JAX lets its file be
                size = caller.f_locals.get(_BYTES_TO_WRITE)
                return size if isinstance(size, int) else 0
            caller = caller.f_back
        return 0

    def _why(self, seconds: float) -> str:
        state: Any = distributed.global_state
        if state.process_id != 0:
            return "other"  # only the first process writes
        if self._callbacks and _refuses_callbacks():
            return "host-callback"
        least_seconds = _option("jax_persistent_cache_min_compile_time_secs")
        if seconds < least_seconds:
            return "min-compile-time"
        if _option("jax_persistent_cache_min_entry_size_bytes") > 0:
            return "min-entry-size"
        if seconds < least_seconds * 1.1 + _SLACK and least_seconds > 0:
            return "min-compile-time"
        return "other"


def _option(name: str) -> float:
    values: dict[str, Any] = jax.config.values
    return values.get(name) or 0.0


def _refuses_callbacks() -> bool:
    write: Any = compiler._cache_write  # pyright: ignore[reportPrivateUsage]
    return "host_callbacks" in write.__code__.co_varnames


def _path(cache: Any, key: str | None) -> str | None:
    """The file of an entry; None where it takes a network to look at it."""
    folder = str(getattr(cache, "_path", "://"))
    # Other caches than JAX's own may be registered, and know other names.
    if key is None or "://" in folder or _suffix is None:
        return None
    return os.path.join(folder, key + _suffix)


def _size(path: str) -> int:
    """Bytes of a file; -1 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _why_missing(cache: Any, size: int) -> str:
    # A cache of bounded size refuses an entry larger than itself, without an error.
    inner = getattr(cache, "_base_cache", cache)
    most = getattr(inner, "max_size", -1) if getattr(inner, "eviction_enabled", False) else -1
    return "other" if most >= 0 and (not size or size > most) else "write-failed"

"""What JAX's on-disk compilation cache did for one compilation.

JAX sends three events, and the rest follows from its configuration:

    look-up    compile_requests_use_cache    even if there is no cache directory
    found      cache_hits
    written    cache_misses                  just before the file is written

If the entry is then missing on disk or incomplete, writing it failed: JAX warns, and leaves
a partial file. If an entry exists but is not found, it cannot be read: every process compiles
the program again until somebody deletes the file.

If an entry is neither found nor written, JAX skipped it, checking in this order: a host
callback in the program (up to jax 0.10), a compile time below the minimum, a size below the
minimum (jax/_src/compiler.py, `_cache_write`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax

from retrace.jax_internals import losses, names
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.compile_options import Fields, fields_of
from retrace.jax_internals.names_hooks import FOUND, LOOKED_UP, WRITTEN
from retrace.jax_internals.names_values import (
    BASE_CACHE,
    CACHE,
    EVICTION,
    FOLDER,
    GLOBAL_STATE,
    IS_ENABLED,
    MAX_BYTES,
    PROCESS,
    SUFFIX,
    WRITE,
)
from retrace.jax_internals.row import code_of, looked_up, resolve
from retrace.model import PersistentCache

_MAX_FRAMES = 8
_OPTIONS = "compile_options"
"""JAX's name for the ingredient whose fields are recorded."""
_DIGEST_LENGTH = 16
_OFF = PersistentCache("off")
_MODULE, _CACHE = resolve(CACHE.where), CACHE.name
_TOLERANCE = 0.05
"""Seconds by which the stage may exceed the time that JAX compares to its limit."""


class Lookup:
    """What the cache did during one compilation."""

    __slots__ = (
        "_callbacks",
        "_found",
        "_key",
        "_least",
        "_looked_up",
        "_off",
        "_options",
        "_own",
        "_parts",
        "_saved",
        "_there",
        "_written",
    )

    def __init__(self) -> None:
        self._looked_up = False
        self._found = False
        self._written = False
        self._there = False
        """Whether the entry was on disk when it was looked up."""
        self._callbacks = False
        self._key: str | None = None
        self._least = 0
        """Expected size of the complete file in bytes, if JAX's frame shows it."""
        self._parts: list[tuple[str, str]] = []
        self._own: list[str] = []
        self._options: Fields = ()
        self._saved: float | None = None
        self._off: bool | None = None
        """Whether the cache is off; None until checked."""

    def part(
        self, name: str, digest: Callable[[], str], alone: Callable[[], tuple[str, bytes]]
    ) -> bool:
        """Record an ingredient of the key; False if no cache is used.

        Args:
            name: JAX's name for it.
            digest: returns the hash of this ingredient and all earlier ones.
            alone: returns the hash of this ingredient by itself, and the hashed bytes.
        """
        if self._off is None:
            # If this JAX shows only part of the cache, nothing is recorded: see `outcome`.
            shown = losses.DISK not in names.gone
            self._off = not shown or (
                getattr(_MODULE, _CACHE, None) is None and not looked_up[IS_ENABLED]()
            )
        if self._off:
            return False
        until_here = digest()
        # The first is the program, the slowest to hash; its digest covers nothing else.
        if self._parts:
            digest_alone, content = alone()
            if name == _OPTIONS:
                self._options = fields_of(content, digest_alone)
        else:
            digest_alone = until_here
        self._own.append(digest_alone[:_DIGEST_LENGTH])
        self._parts.append((name, until_here[:_DIGEST_LENGTH]))
        return True

    def event(self, name: str, frame: FrameType) -> None:
        """Record one of JAX's events, reading a few locals from the callers of `frame`."""
        if name == LOOKED_UP.name:
            self._looked_up = True
            if self._off:
                return
            self._read(frame)
            if names.shows(losses.DISK):
                path = _path(CACHE.value(), self._key)
                self._there = path is not None and _is_readable(path)
        elif name == FOUND.name:
            self._found = True
        elif name == WRITTEN.name:
            self._written = True
            self._least = self._size_to_be(frame)

    def saved(self, seconds: float) -> None:
        """Record how much longer compiling took than reading the entry."""
        self._saved = seconds

    def outcome(self, compile_seconds: float) -> PersistentCache | None:
        """What the cache did for a compilation that took `compile_seconds`.

        None if this JAX does not show enough.
        """
        if losses.DISK in names.gone:
            return None
        if self._off and not self._found:
            return _OFF
        found = self._outcome(compile_seconds)
        if not self._parts and self._saved is None:
            return found
        return found._replace(
            ingredients=tuple(self._parts),
            own=tuple(self._own),
            saved=self._saved,
            options=self._options,
        )

    def _outcome(self, compile_seconds: float) -> PersistentCache:
        if not self._looked_up:
            return _OFF
        if self._found:
            return PersistentCache("hit", self._key)
        cache: Any = CACHE.value()
        if cache is None:
            if IS_ENABLED.get()():
                # A directory is configured, but could not be created or opened.
                return PersistentCache("not-stored", self._key, "write-failed")
            return _OFF
        path = _path(cache, self._key)
        if self._there and path is not None and _is_readable(path):
            # JAX warned that it cannot read the entry; it never overwrites one.
            return PersistentCache("not-stored", self._key, "corrupt-entry")
        if self._written:
            # An empty file is unreadable, whatever the expected size.
            if path is not None and (size := _size(path)) < max(1, self._least):
                why = "write-failed" if size >= 0 else _why_missing(cache, self._least)
                return PersistentCache("not-stored", self._key, why)
            return PersistentCache("miss", self._key)
        return PersistentCache("not-stored", self._key, self._why(compile_seconds))

    def _read(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        looks_up = at.DISK.get()
        for _ in range(_MAX_FRAMES):
            if caller is None:
                return
            if caller.f_code is looks_up:
                key = at.DISK_KEY.among(caller.f_locals)
                self._key = key if isinstance(key, str) else None
                self._callbacks = bool(at.DISK_CALLBACKS.among(caller.f_locals))
                return
            caller = caller.f_back

    def _size_to_be(self, frame: FrameType) -> int:
        caller: FrameType | None = frame
        writes = at.WRITES.get()
        for _ in range(_MAX_FRAMES):
            if caller is None:
                break
            if caller.f_code is writes:
                cache: Any = CACHE.value()
                path = _path(cache, self._key)
                if path is not None and _size(path) >= 0:
                    return 0  # another process wrote it first; JAX keeps that file
                size = at.BYTES_TO_WRITE.among(caller.f_locals)
                return size if isinstance(size, int) else 0
            caller = caller.f_back
        return 0

    def _why(self, seconds: float) -> str:
        if PROCESS.of(GLOBAL_STATE.get()) != 0:
            return "other"  # only the first process writes
        if self._callbacks and _refuses_callbacks():
            return "host-callback"
        least_seconds = _option("jax_persistent_cache_min_compile_time_secs")
        if seconds < least_seconds:
            return "min-compile-time"
        if _option("jax_persistent_cache_min_entry_size_bytes") > 0:
            return "min-entry-size"
        if seconds < least_seconds * 1.1 + _TOLERANCE and least_seconds > 0:
            return "min-compile-time"
        return "other"


def _option(name: str) -> float:
    return getattr(jax.config, name, None) or 0.0


def _refuses_callbacks() -> bool:
    write = code_of(WRITE.get())
    return write is not None and at.DISK_CALLBACKS.name in write.co_varnames


def _path(cache: Any, key: str | None) -> str | None:
    """The file of an entry; None if reading it needs the network."""
    if cache is None:  # JAX opens the cache at the first look-up
        # Not `jax.config.values`, which reads two hundred options.
        folder = str(getattr(jax.config, "jax_compilation_cache_dir", None) or "://")
    else:
        folder = str(FOLDER.of(cache, "://"))
    # A custom cache may be registered, which may name its entries differently.
    if key is None or "://" in folder:
        return None
    return os.path.join(folder, key + SUFFIX.get())


def _size(path: str) -> int:
    """Size of a file in bytes; -1 if it does not exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _is_readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _why_missing(cache: Any, size: int) -> str:
    # A cache of limited size rejects an entry larger than the limit, without an error.
    inner = BASE_CACHE.of(cache, cache)
    most = MAX_BYTES.of(inner, -1) if EVICTION.of(inner, False) else -1
    return "other" if most >= 0 and (not size or size > most) else "write-failed"

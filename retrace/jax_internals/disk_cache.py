"""What JAX's on-disk compilation cache did for one compilation.

JAX tells three things, and the rest follows from its configuration:

    look-up    compile_requests_use_cache    also without a directory to look into
    found      cache_hits
    written    cache_misses                  just before the file is written

An entry that is then not on disk, or not whole, could not be written: JAX warns, and leaves
what had found room. One that was there and was not found cannot be read: each process compiles
what it should hold, until somebody removes it.

An entry that is looked up in vain and not written has, in this order of JAX's own
tests, a host callback in the program (up to jax 0.10), taken less time to compile
than the least, or fewer bytes than the least (jax/_src/compiler.py, `_cache_write`).
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
    MOST_BYTES,
    PROCESS,
    SUFFIX,
    WRITE,
)
from retrace.jax_internals.row import code_of
from retrace.model import PersistentCache

_DEEPEST = 8
_OPTIONS = "compile_options"
"""What JAX calls the ingredient whose fields are told."""
_DIGITS = 16
_OFF = PersistentCache("off")
_SLACK = 0.05
"""Seconds that the stage may take longer than what JAX holds against its limit."""


class Lookup:
    """What was seen of the cache between the start and the end of one compilation."""

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
        """Bytes that the file has when it is whole, as far as JAX's frame showed them."""
        self._parts: list[tuple[str, str]] = []
        self._own: list[str] = []
        self._options: Fields = ()
        self._saved: float | None = None
        self._off: bool | None = None
        """Whether there is no cache to look into, once that was asked."""

    def part(self, name: str, digest: str, alone: Callable[[], tuple[str, bytes]]) -> bool:
        """Take in an ingredient of the key; False where no cache is looked into.

        Args:
            name: what JAX calls it.
            digest: the hash over it and over all before it.
            alone: makes the hash of it alone, and tells what was hashed.
        """
        if self._off is None:
            # Nothing is told of a cache that is shown in part: `outcome`.
            shown = names.shows(losses.DISK)
            self._off = not shown or (CACHE.value() is None and not IS_ENABLED.get()())
        if self._off:
            return False
        # The first is the program, which takes longest; nothing is before it.
        if self._parts:
            digest_alone, content = alone()
            if name == _OPTIONS:
                self._options = fields_of(content, digest_alone)
        else:
            digest_alone = digest
        self._own.append(digest_alone[:_DIGITS])
        self._parts.append((name, digest[:_DIGITS]))
        return True

    def event(self, name: str, frame: FrameType) -> None:
        """Take in one of JAX's events; of the frame, a few locals of its callers are read."""
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
        """Take in how much longer it took to compile than to read."""
        self._saved = seconds

    def outcome(self, compile_seconds: float) -> PersistentCache | None:
        """What became of it, once the compilation took `compile_seconds`.

        None where this JAX does not show enough of it.
        """
        if not names.shows(losses.DISK):
            return None
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
        if not self._looked_up or (self._off and not self._found):
            return _OFF
        if self._found:
            return PersistentCache("hit", self._key)
        cache: Any = CACHE.value()
        if cache is None:
            if IS_ENABLED.get()():
                # There is a directory, but it could not be made or opened.
                return PersistentCache("not-stored", self._key, "write-failed")
            return _OFF
        path = _path(cache, self._key)
        if self._there and path is not None and _is_readable(path):
            # JAX warned that it cannot read it; it writes over no entry.
            return PersistentCache("not-stored", self._key, "corrupt-entry")
        if self._written:
            # An empty one, of whatever size it was to be, cannot be read by anybody.
            if path is not None and (size := _size(path)) < max(1, self._least):
                why = "write-failed" if size >= 0 else _why_missing(cache, self._least)
                return PersistentCache("not-stored", self._key, why)
            return PersistentCache("miss", self._key)
        return PersistentCache("not-stored", self._key, self._why(compile_seconds))

    def _read(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        looks_up = at.DISK.get()
        for _ in range(_DEEPEST):
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
        for _ in range(_DEEPEST):
            if caller is None:
                break
            if caller.f_code is writes:
                cache: Any = CACHE.value()
                path = _path(cache, self._key)
                if path is not None and _size(path) >= 0:
                    return 0  # another process was quicker, and JAX lets its file be
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
        if seconds < least_seconds * 1.1 + _SLACK and least_seconds > 0:
            return "min-compile-time"
        return "other"


def _option(name: str) -> float:
    return getattr(jax.config, name, None) or 0.0


def _refuses_callbacks() -> bool:
    write = code_of(WRITE.get())
    return write is not None and at.DISK_CALLBACKS.name in write.co_varnames


def _path(cache: Any, key: str | None) -> str | None:
    """The file of an entry; None where it takes a network to look at it."""
    if cache is None:  # JAX opens it at the first look-up
        # Not `jax.config.values`, which reads two hundred options.
        folder = str(getattr(jax.config, "jax_compilation_cache_dir", None) or "://")
    else:
        folder = str(FOLDER.of(cache, "://"))
    # Other caches than JAX's own may be registered, and know other names.
    if key is None or "://" in folder:
        return None
    return os.path.join(folder, key + SUFFIX.get())


def _size(path: str) -> int:
    """Bytes of a file; -1 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _is_readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _why_missing(cache: Any, size: int) -> str:
    # A cache of bounded size refuses an entry larger than itself, without an error.
    inner = BASE_CACHE.of(cache, cache)
    most = MOST_BYTES.of(inner, -1) if EVICTION.of(inner, False) else -1
    return "other" if most >= 0 and (not size or size > most) else "write-failed"

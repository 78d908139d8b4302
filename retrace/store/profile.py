"""A profile written by `jax.profiler`: its start time and its events.

Only the needed fields are read from the file, which XProf calls an XSpace: planes (1), each with
its name (2), the names of its statistics (5) and the statistics (6).
"""

from __future__ import annotations

import gzip
import json
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrace.errors import UsageError
from retrace.model.protobuf import fields
from retrace.store import files

_PLANE, _NAME, _STAT_NAMES, _STATS = 1, 2, 5, 6
_ENVIRONMENT = b"Task Environment"
_START = b"profile_start_time"
_SUFFIX = ".xplane.pb"
_MAX_EVENT_BYTES = 1 << 28


class Profile(NamedTuple):
    """When a profile started, and its events in Chrome's format, with times since the start."""

    started: float
    """Microseconds since the epoch."""
    events: list[Any]

    def since(self, start: float) -> Iterator[Any]:
        """Yield the events with times relative to `start`."""
        for event in self.events:
            fields = cast("dict[str, Any]", event) if type(event) is dict else {}
            at = fields.get("ts")
            if isinstance(at, int | float):
                yield {**fields, "ts": round(at + self.started - start, 3)}
            else:
                yield event


def read(path: Path) -> Profile:
    """Read a profile.

    Args:
        path: the folder passed to the profiler, or a file in it.

    Raises:
        UsageError: there is no profile, or it has no start time.
    """
    space = _find_profile(path)
    try:
        with space.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # freed with its views
        started = _start_time(memoryview(data))
        events = _events(space)
    except (OSError, ValueError, IndexError, zlib.error, EOFError, RecursionError) as error:
        why = files.reason(error) if isinstance(error, OSError) else "it is damaged"
        raise UsageError(f"cannot read the profile {space}: {why}") from None
    if started is None:
        raise UsageError(f"the profile {space} has no start time")
    return Profile(started / 1000, events)


def _find_profile(path: Path) -> Path:
    try:
        if path.is_dir():
            # If there are several sessions, the newest; their folders are named by time.
            found = sorted(path.rglob(f"*{_SUFFIX}"), key=lambda one: (one.parent.name, one.name))
            last = [one for one in found if one.parent == found[-1].parent]
        elif path.name.endswith(_SUFFIX):
            last = [path]
        else:  # the events beside it
            last = sorted(path.parent.glob(f"*{_SUFFIX}"))
    except OSError:
        last = []
    if not last:
        raise UsageError(f"no profile in {path}: name the folder passed to jax.profiler")
    return last[0]


def _start_time(space: memoryview) -> int | None:
    """Nanoseconds since the epoch."""
    for number, plane in fields(space):
        if number != _PLANE or not isinstance(plane, memoryview):
            continue
        parts = list(fields(plane)) if len(plane) < 1 << 20 else []
        if (_NAME, _ENVIRONMENT) not in [(n, bytes(v)) for n, v in parts if _is_text(n, v)]:
            continue
        names: dict[int, bytes] = {}
        for number, value in parts:
            if number == _STAT_NAMES and isinstance(value, memoryview):
                entry = dict(fields(value))  # its number, and the name with that number
                named = dict(fields(cast(memoryview, entry[2])))
                names[cast(int, entry.get(1, 0))] = bytes(cast(memoryview, named[2]))
        for number, value in parts:
            if number == _STATS and isinstance(value, memoryview):
                stat = dict(fields(value))
                if names.get(cast(int, stat.get(1, 0))) == _START:
                    return next((v for n, v in stat.items() if n in (3, 4) and type(v) is int))
    return None


def _is_text(number: int, value: int | memoryview) -> bool:
    return number == _NAME and isinstance(value, memoryview)


def _events(space: Path) -> list[Any]:
    """The events in Chrome's file next to it; empty if there is none."""
    stem = space.name.removesuffix(_SUFFIX)
    beside = space.with_name(f"{stem}.trace.json.gz")
    if not beside.is_file():
        return []
    with gzip.open(beside) as file:
        data = file.read(_MAX_EVENT_BYTES + 1)
    if len(data) > _MAX_EVENT_BYTES:
        raise ValueError("too large")
    trace: Any = json.loads(data)
    found: Any = cast("dict[str, Any]", trace).get("traceEvents") if type(trace) is dict else None
    return cast("list[Any]", found) if isinstance(found, list) else []

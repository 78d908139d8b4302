"""Parses the prefix of a log line: when it was written, and by which process.

Prefixes come from handlers (absl, Python's logging) and from log collectors (Kubernetes, Slurm,
mpirun, torchrun, Ray, docker). Only known formats identify a process; other numbers or words in
front do not mean another process.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast


class Prefix(NamedTuple):
    """The parsed prefix of a line."""

    outer: str
    """The part from a log collector: a pod, a rank; all lines of a message share it."""
    process: str
    """The process within that; empty if unknown."""
    thread: str
    time: float | None


_OUTER = re.compile(
    r"""^(?:
    \[(pod/[^\]\s]+)\]\ ?                       # kubectl logs --prefix
    | \ *(\d{1,6}):(?:\ |$)                     # srun --label
    | \[(?:default)?(rank\d+|\d+)\]:\ ?         # torchrun
    | \[(\d+,\d+)\]<std(?:err|out)>:?\ ?        # mpirun --tag-output
    | \(([\w.<>-]+\ pid=\d+[^)]*)\)\ ?         # Ray
    | ([\w][\w.-]*)\ +\|\                      # docker compose
    | \w{3}\ +\d+\ [\d:]{8}\ (\S+\ [\w./-]+\[\d+\]):\ ?   # syslog
    | ([a-z][\w.-]*\d):\                       # pdsh, clush: a host
    )""",
    re.VERBOSE,
)
_CRI = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)) (?:stdout|stderr) ([FP]) ")
_STAMPED = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) ")
_ABSL = re.compile(
    r"([IWEFD])(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{1,9})\s+(?:(\d+) )?([\w./-]+):(\d+)\]"
)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d(?!\d))?"
)
_PID = re.compile(r"\bpid[=: ]\s*(\d+)|\bprocess[=: ]\s*(\d+)|^\s*\[(\d{2,7})\]")
_BARE_PID = re.compile(r"\[(\d{2,7})\]|(?:^|\s)(\d{3,7})(?=\s|$)")
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|jax\.\w[\w.]*)\b")
"""What a handler writes; without it, and without a time, a number is the program's own."""
_RANK = re.compile(r"\b(?:rank|proc|host|process_index)[=: _-]?(\d{1,6})\b", re.IGNORECASE)
_THREAD = re.compile(
    r"\b(MainThread|Thread-\d+(?: \([^)]*\))?|ThreadPoolExecutor-\d+_\d+|AnyIO worker thread)"
)
_MAX_PID = 1 << 22
"""Linux has no greater one; absl writes the number of a thread in the same place."""


class Reading:
    """Parses the prefixes of one log; `year` is for dates without a year."""

    def __init__(self, year: int) -> None:
        self._year = year
        self._second, self._moment = "", 0.0

    def of_jax(self, text: str) -> tuple[float, int] | None:
        """The time in a prefix of JAX's own handler, and where the prefix ends; else None."""
        # `WARNING:2026-11-22 14:29:51,067:`, its logger, `:191: `
        if not self._second or not text.startswith(self._second):
            at = text.find(":") + 20
            if not 25 <= at <= 29 or text[at : at + 1] != ",":
                return None
            moment = _seconds(text[at - 19 : at - 9], text[at - 8 : at])
            if moment is None:
                return None
            self._second, self._moment = text[: at + 1], moment
        at = len(self._second)
        if not text.startswith(":jax", at + 3) or (end := text.find(": ", at + 7)) < 0:
            return None
        try:
            return self._moment + int(text[at : at + 3]) / 1000, end + 2
        except ValueError:
            return None

    def outer(self, line: str) -> tuple[str, str, float | None, bool]:
        """A collector's prefix, the rest of the line, its time, and whether it continues."""
        at, more, stamp = "", False, None
        if line.startswith("{") and (found := _of_json(line)) is not None:
            at, line, stamp = found
            return at, line, stamp, False
        if line[10:11] == " " and line[4:5] == line[7:8] == "-" and line[:4].isdigit():
            return at, line, stamp, more  # the date of Python's logging
        if not line[:1].isalpha() or line[1:2].islower():
            found_outer = _OUTER.match(line)
            if found_outer is not None:
                at = next(part for part in found_outer.groups() if part is not None)
                line = line[found_outer.end() :]
        first = line[:1]
        if first.isdigit():
            if (cri := _CRI.match(line)) is not None:
                stamp, more = _when(cri[1]), cri[2] == "P"
                line = line[cri.end() :]
            elif (stamped := _STAMPED.match(line)) is not None:
                stamp = _when(stamped[1])
                line = line[stamped.end() :]
        return at, line, stamp, more

    def inner(self, outer: str, text: str, stamp: float | None) -> Prefix:
        """Parse the handler's prefix before the message."""
        if not text:
            return Prefix(outer, "", "", stamp)
        if (absl := _ABSL.search(text)) is not None:
            day = f"{self._year:04}-{absl[2]}-{absl[3]}"
            at = _seconds(day, absl[4])
            moment = None if at is None else at + int(absl[5]) / 10 ** len(absl[5])
            number = absl[6] or ""
            # C++ logs the thread, Python's absl the thread ident: only a small number from
            # Python is a process id.
            own = absl[7].endswith(".py")
            is_pid = own and number and int(number[:18]) < _MAX_PID
            thread = number if own and number and not is_pid else ""
            return Prefix(outer, number if is_pid else "", thread, moment)
        moment = stamp
        if (iso := _ISO.search(text)) is not None:
            at = _seconds(iso[1], iso[2], iso[4] or "")
            if at is not None:
                fraction = iso[3]
                moment = at + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)
            text = text[: iso.start()] + " " + text[iso.end() :]
        if text.startswith(("WARNING: :jax", "DEBUG: :jax", "INFO: :jax")):
            return Prefix(outer, "", "", moment)  # JAX's own handler
        process, thread = _process_and_thread(
            text, iso is not None or _LEVEL.search(text) is not None
        )
        return Prefix(outer, process, thread, moment)


@lru_cache(maxsize=4096)
def _process_and_thread(text: str, handled: bool) -> tuple[str, str]:
    """The process and the thread named in a prefix without its time."""
    text = re.sub(r"[\w.]+\.py:\d+|\bjax[\w.]*:?\d*|:\d+\b", " ", text)
    found = _THREAD.search(text)
    thread = found[1] if found else ""
    if found:
        text = text[: found.start()] + " " + text[found.end() :]
    named: list[str] = []
    if (rank := _RANK.search(text)) is not None:
        named.append(f"rank {rank[1]}")
    pid = _PID.search(text) or (_BARE_PID.search(text) if handled else None)
    if pid is not None:
        number = next(part for part in pid.groups() if part is not None)
        if int(number) < _MAX_PID:
            named.append(number)
        elif not thread:
            thread = number
    return " ".join(named), thread


_MESSAGES = ("log", "message", "msg", "textPayload", "text")
_TIMES = ("time", "timestamp", "ts", "asctime")
_PROCESSES = ("pod_name", "pod", "pod_id", "rank", "process", "pid", "hostname", "host")


def _of_json(line: str) -> tuple[str, str, float | None] | None:
    """Parse a line from docker or from a logger that writes JSON."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    flat = cast(dict[str, Any], fields)
    for inside in ("kubernetes", "labels", "resource"):
        nested = flat.get(inside)
        nested = (
            cast(dict[str, Any], nested).get("labels", nested)
            if isinstance(nested, dict)
            else None
        )
        if isinstance(nested, dict):
            flat = {**cast(dict[str, Any], nested), **flat}
    text = next((flat[name] for name in _MESSAGES if isinstance(flat.get(name), str)), None)
    if text is None:
        return None
    at = next((_json_time(flat[name]) for name in _TIMES if name in flat), None)
    named = [
        f"{name} {flat[name]}" for name in _PROCESSES if isinstance(flat.get(name), str | int)
    ]
    return " ".join(named)[:200], text.rstrip("\n"), at


def _json_time(value: object) -> float | None:
    if isinstance(value, str):
        return _when(value)
    return float(value) if isinstance(value, int | float) and 0 < value < 4e9 else None


def _when(text: str) -> float | None:
    found = _ISO.match(text)
    if found is None:
        return None
    at = _seconds(found[1], found[2], found[4] or "")
    if at is None or found[3] is None:
        return at
    return at + int(found[3]) / 10 ** len(found[3])


@lru_cache(maxsize=1024)
def _seconds(day: str, clock: str, zone: str = "") -> float | None:
    """Seconds since the epoch; a time without a zone counts as UTC."""
    try:
        # Ten times as fast as `strptime`, which matters for a log with a time in each line.
        at = datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()
    except ValueError:
        return None
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        at -= (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    return at

"""Parses log lines by JAX or XLA about tracing and compiling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias


class Traced(NamedTuple):
    """A trace ended, or was found in JAX's cache: the log does not say which."""

    name: str
    seconds: float
    nested_too: bool
    """Whether this release also logs nested traces (0.6 to 0.9)."""


class Lowered(NamedTuple):
    name: str
    seconds: float


class Compiled(NamedTuple):
    name: str
    seconds: float


class Compiling(NamedTuple):
    """Lowering of a program with these arguments began."""

    name: str
    types: str
    mapping: str
    pmap: bool = False


class Explained(NamedTuple):
    """The first line of `TRACING CACHE MISS`; more lines follow."""

    file: str
    line: int
    function: str
    after: bool
    """Whether it is logged after the trace (0.6 to 0.8) instead of before it."""


class OnDisk(NamedTuple):
    """A result of the persistent cache."""

    module: str
    outcome: Literal["hit", "miss", "not-stored"]
    key: str | None
    reason: str | None


class Ingredient(NamedTuple):
    """A part of the key of the persistent cache, with the hash up to it."""

    name: str
    digest: str


class Remark(NamedTuple):
    """A line that is only shown with the program being compiled."""

    by: str
    text: str
    module: str | None = None


Event: TypeAlias = (
    Traced | Lowered | Compiled | Compiling | Explained | OnDisk | Ingredient | Remark
)

_PMAP = re.compile(r"Compiling (.+?) \(\d+\) for \d+ devices with args (.*)\. \(num_replicas=")
_EXPLAINED = re.compile(
    r"TRACING CACHE MISS at (.+?):(\d+)(?::\d+)? \((.*?)\)( costing [0-9.e+-]+ ms because)?:?\s*$"
)
_DISK_MISS = re.compile(r"PERSISTENT COMPILATION CACHE MISS for '(.+?)' with key '?([\w.<>-]+)")
_DISK_HIT = re.compile(r"ersistent compilation cache hit for '(.+?)' with key '?([\w.<>-]+)")
_DISK_WROTE = re.compile(r"Writing (\S+) to persistent compilation cache with key '?([\w.<>-]+)")
_DISK: tuple[tuple[re.Pattern[str], Literal["hit", "miss"]], ...] = (
    (_DISK_MISS, "miss"),
    (_DISK_HIT, "hit"),
    (_DISK_WROTE, "miss"),
)
_DISK_NOT = re.compile(r"Not writing persistent cache entry for '(.+?)' because (.*)")
_INGREDIENT = re.compile(r"get_cache_key hash after serializing (.+?): ([0-9a-f]{16,128})")
_SLOW = re.compile(r"(?:Very slow compile|Compiling module|The operation took).*")
_MODULE = re.compile(r"(?:HLO module |module '?|Compiling module )'?(\w+)")

_STAGE = re.compile(r"(\w+) stage duration: [0-9.]+ ?\w*")
_FOLDING = re.compile(r"Constant folding .*")
_FINGERPRINT = re.compile(r"\(HLO module (\S+)\): Executable fingerprint")
_CAPTURED = re.compile(r"A large amount of constants were captured.*")
_REASONS = (
    ("it took <", "min-compile-time"),
    ("host callback", "host-callback"),
    ("entry size", "min-entry-size"),
    ("size", "min-entry-size"),
)


_MAX_CACHED_CHARACTERS = 1 << 12
"""Results for longer texts are not cached."""

_MAY_TELL = re.compile(
    "Finished |Compiling |TRACING CACHE MISS|ersistent c|PERSISTENT|get_cache_key hash after"
    "|never seen function:|previously seen cache keys"
    "|low compile|onstant folding|stage duration|xecutable fingerprint|constants were captured"
)


def may_tell(line: str) -> bool:
    """Whether a line may be one of these; fast, since most lines of most logs are not."""
    # One expression: searching for each separately takes four times as long.
    return _MAY_TELL.search(line) is not None


def plain_name(name: str) -> str:
    """Turn `jit(f)` into `f`."""
    if name.endswith(")") and name.startswith(("jit(", "pjit(", "pmap(")):
        return name[name.index("(") + 1 : -1]
    return name


def _explained(found: re.Match[str] | None) -> Explained | None:
    return found and Explained(found[1], int(found[2][:9]), found[3], found[4] is not None)


def _with_key(found: re.Match[str] | None, outcome: Literal["hit", "miss"]) -> OnDisk | None:
    return found and OnDisk(found[1], outcome, found[2], None)


HEAD = 7
"""How many characters suffice to recognise a message."""

BEGIN: Mapping[str, Callable[[str], Event | None]] = {
    "Finishe": lambda message: _finished(message, 9),
    "Compili": lambda message: _compiling(message, 10),
    "TRACING": lambda message: _explained(_EXPLAINED.match(message)),
    "PERSIST": lambda message: _with_key(_DISK_MISS.match(message), "miss"),
    "Persist": lambda message: _with_key(_DISK_HIT.match(message, 1), "hit"),
    "Writing": lambda message: _with_key(_DISK_WROTE.match(message), "miss"),
}
"""Parsers of most messages by JAX, by how these begin."""


def read_whole(message: str) -> Event | None:
    """The event of a message that begins as in `BEGIN`; None for any other."""
    reader = BEGIN.get(message[:HEAD])
    return None if reader is None else reader(message)


_UNMISTAKABLE = re.compile(
    r"TRACING CACHE MISS at |Finished (?:tracing |jaxpr to MLIR |XLA compilation of )"
    r"|Compiling (?:jit\(|pmap\()?\S+ with global shapes and types "
)


def starts(text: str) -> list[int]:
    """The positions of messages that a program would not print itself."""
    return [found.start() for found in _UNMISTAKABLE.finditer(text)]


def read(line: str) -> tuple[Event, int] | None:
    """The event in a line and where its text begins; None for any other line."""
    if (at := line.find("Finished ")) >= 0:
        event = _finished(line, at + 9)
        return None if event is None else (event, at)
    if (at := line.find("Compiling ")) >= 0:
        if (event := _compiling(line, at + 10)) is not None:
            return event, at
        if (found := _PMAP.search(line, at)) is not None:
            return Compiling(plain_name(found[1]), found[2], "", pmap=True), found.start()
    found = _EXPLAINED.search(line)
    if found is not None and (event := _explained(found)) is not None:
        return event, found.start()
    return _of_cache(line) or _remark(line)


def _finished(line: str, at: int) -> Event | None:
    # Everything but the seconds repeats, and is cached.
    end = line.rfind(" in ", at)
    if not 0 <= end - at <= _MAX_CACHED_CHARACTERS or (stage := _stage(line[at:end])) is None:
        return None
    kind, name, older = stage
    try:
        seconds = float(line[end + 4 : line.index(" sec", end)])
    except ValueError:
        return None
    if kind is None:
        return Traced(name, seconds, older)
    return kind(name, seconds)


@lru_cache(maxsize=1024)
def _stage(body: str) -> tuple[type[Lowered | Compiled] | None, str, bool] | None:
    """The stage that ended (None for the trace), its function, whether JAX is an older one."""
    if _UNMISTAKABLE.search(body) is not None:
        return None  # another message begins inside this one
    if body.startswith("tracing "):
        older = body.startswith("+ transforming ", 8)
        name, found, _ = body[23 if older else 8 :].rpartition(" for ")
        return (None, plain_name(name), older) if found else None
    if body.startswith("jaxpr to MLIR module conversion "):
        return Lowered, plain_name(body[32:]), False
    if body.startswith("XLA compilation of "):
        return Compiled, plain_name(body[19:]), False
    return None


_TYPES = " with global shapes and types "
_MAPPING = ". Argument mapping: "


def _compiling(line: str, at: int) -> Event | None:
    text = line[at:]
    return _program(text) if len(text) <= _MAX_CACHED_CHARACTERS else _program.__wrapped__(text)


@lru_cache(maxsize=512)
def _program(line: str) -> Event | None:
    end = line.find(_TYPES)
    if end < 0:
        return None
    mapped = line.find(_MAPPING, end)
    if mapped < 0 or _UNMISTAKABLE.search(line, mapped) is not None:
        return None
    name = line[:end]
    types = line[end + len(_TYPES) : mapped]
    return Compiling(plain_name(name), types, line[mapped + len(_MAPPING) :].rstrip().rstrip("."))


def _of_cache(line: str) -> tuple[Event, int] | None:
    for pattern, outcome in _DISK:
        found = pattern.search(line)
        if found is not None and (event := _with_key(found, outcome)) is not None:
            return event, found.start()
    if (found := _DISK_NOT.search(line)) is not None:
        why = next((code for mark, code in _REASONS if mark in found[2]), "other")
        return OnDisk(found[1], "not-stored", None, why), found.start()
    if (found := _INGREDIENT.search(line)) is not None:
        return Ingredient(found[1], found[2]), found.start()
    return None


def _remark(line: str) -> tuple[Event, int] | None:
    if (found := _CAPTURED.search(line)) is not None:
        return Remark("jax", found[0].strip()), found.start()
    if (found := _FINGERPRINT.search(line)) is not None:
        return Remark("xla", "Executable fingerprint", found[1]), found.start()
    for pattern in (_STAGE, _FOLDING, _SLOW):
        if (found := pattern.search(line)) is not None:
            named = _MODULE.search(line)
            return Remark("xla", line[found.start() :].strip(), named and named[1]), found.start()
    return None

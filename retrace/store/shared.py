"""Shares what several processes recorded identically: it is decoded once and stored once.

The processes of a job trace the same programs, so their files are identical except for times. A
recording of 256 processes needs little more memory than that of one, and most of its lines need
not be parsed.
"""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from retrace.model import Key, Miss
from retrace.regex import regex

Held = TypeVar("Held", bound=Hashable)

_PART = regex(r'\{"part":(\d{1,15}),"kind":"(\w{1,20})",(?:"like":(\d{1,15}),)?"value":')


class Beginning(NamedTuple):
    """The start of a part's line, as written by our writer, and its rest."""

    number: int
    kind: str
    like: int | None
    value: str
    """The rest of the line, which is the same in all files."""


def beginning(line: str) -> Beginning | None:
    """Split the line of a part; None for any other line."""
    if (found := _PART.match(line)) is None:
        return None
    number, kind, like = found.groups()
    rest = line[found.end() :].rstrip("\n")
    return Beginning(int(number), kind, None if like is None else int(like), rest)


class Shared:
    """Decoded parts by digest, and values by equality.

    However many files there are, it only keeps the contents of the current and the previous one.
    """

    def __init__(self) -> None:
        self._now: dict[Hashable, Any] = {}
        self._before: dict[Hashable, Any] = {}

    def next(self) -> None:
        """Start another file."""
        self._before, self._now = self._now, {}

    def part(self, digest: bytes) -> Any:
        """Return the part with this digest, if known."""
        found = self._now.get(digest)
        if found is None and (found := self._before.get(digest)) is not None:
            self._now[digest] = found
        return found

    def keep(self, digest: bytes, part: Any) -> None:
        """Remember a part."""
        self._now[digest] = part

    def same(self, value: Held) -> Held:
        """Return an equal value that is already known, or else the value."""
        name = type(value), value  # named tuples of different types can be equal
        found = self._now.get(name)
        if found is None:
            found = self._now[name] = self._before.get(name, value)
        return found

    def _key(self, key: Key) -> Key:
        # By the identity of its parts, because their contents may not be hashable.
        name = (Key, *map(id, key))
        found = self._now.get(name)
        if found is None:
            found = self._now[name] = self._before.get(name, key)
        return found

    def thin(self, miss: Miss) -> None:
        """Replace long values in a miss by equal ones that are already known."""
        miss.thread = self.same(miss.thread)
        if miss.lines is not None:
            miss.lines = self.same(miss.lines)
        miss.key = self._key(miss.key)
        miss.callers = self.same(miss.callers)
        if miss.entry is not None:
            miss.entry = self.same(miss.entry)
        if miss.program is not None:
            miss.program = self.same(miss.program)
        if (cache := miss.persistent_cache) is not None:
            # The time saved differs in each process.
            ingredients, own = self.same(cache.ingredients), self.same(cache.own)
            options = self.same(cache.options)
            cache = cache._replace(ingredients=ingredients, own=own, options=options)
            miss.persistent_cache = cache if cache.saved is not None else self.same(cache)


def digest(begun: Beginning, like: bytes) -> bytes:
    """Identify a part by its contents; `like` is the digest of the part it is written like."""
    text = f"{begun.kind} {begun.value}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=16, key=like).digest()

"""What several processes recorded alike: decoded once, and held once.

The processes of a job trace the same programs, so that all but the times in their files is the
same text. A recording of 256 of them takes little more memory than one of one process, and most
of its lines need not be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from retrace.model import Key, Miss

Held = TypeVar("Held", bound=Hashable)

_PART = re.compile(r'\{"part":(\d{1,15}),"kind":"(\w{1,20})",(?:"like":(\d{1,15}),)?"value":')


class Beginning(NamedTuple):
    """How the line of a part begins, as our own writer writes it."""

    number: int
    kind: str
    like: int | None
    value: str
    """The rest of the line, which is the same wherever the part is."""


def beginning(line: str) -> Beginning | None:
    """The parts of a line that tell of a part; None for any other line."""
    if (found := _PART.match(line)) is None:
        return None
    number, kind, like = found.groups()
    rest = line[found.end() :].rstrip("\n")
    return Beginning(int(number), kind, None if like is None else int(like), rest)


class Shared:
    """Parts that were decoded, by their text, and values that were made, by themselves.

    It holds those of two files at the most, the one that is read and the one before, however
    many there are: what is no longer said is let go of.
    """

    def __init__(self) -> None:
        self._now: dict[Hashable, Any] = {}
        self._before: dict[Hashable, Any] = {}

    def next(self) -> None:
        """Another file begins."""
        self._before, self._now = self._now, {}

    def part(self, digest: bytes) -> Any:
        """The part of this digest; None where it is not known."""
        found = self._now.get(digest)
        if found is None and (found := self._before.get(digest)) is not None:
            self._now[digest] = found
        return found

    def keep(self, digest: bytes, part: Any) -> None:
        """Remember a part."""
        self._now[digest] = part

    def same(self, value: Held) -> Held:
        """The value, or an equal one that is there already."""
        name = type(value), value  # a named tuple is equal to any other with the same fields
        found = self._now.get(name)
        if found is None:
            found = self._now[name] = self._before.get(name, value)
        return found

    def _key(self, key: Key) -> Key:
        # By its parts themselves, which it holds: what is in them need not be hashable.
        name = (Key, *map(id, key))
        found = self._now.get(name)
        if found is None:
            found = self._now[name] = self._before.get(name, key)
        return found

    def thin(self, miss: Miss) -> None:
        """Put into a miss what is there already of all that may be long."""
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
            # What it saved is another time in each process.
            ingredients, own = self.same(cache.ingredients), self.same(cache.own)
            options = self.same(cache.options)
            cache = cache._replace(ingredients=ingredients, own=own, options=options)
            miss.persistent_cache = cache if cache.saved is not None else self.same(cache)


def digest(begun: Beginning, like: bytes) -> bytes:
    """What tells a part from all others; `like` is that of the part that it is written like."""
    text = f"{begun.kind} {begun.value}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=16, key=like).digest()

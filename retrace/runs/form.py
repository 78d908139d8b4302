"""Splits a program into a form without numbers, and the numbers.

Two programs with the same form differ only in numbers. With numbers as arguments, they are one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from retrace.model import Listing
from retrace.model.row import Row
from retrace.regex import regex

_MAX_EQUATIONS = 20_000
_MAX_NUMBERS = 1024
_MAX_DEPTH = 40
"""Maximum nesting of programs: a damaged recording may nest one in itself."""
_NUMBER = regex(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)|#[0-9a-f]{12}", re.IGNORECASE)
"""Also matches the placeholder for a number in a redacted recording."""
_CONTENT = regex(r"(\w+\[[\d,]*\])=\(([^()]*)\)")
"""A small array inside a program: `int32[1]=(32)`."""
_INNER = regex(r"@([0-9a-f]{32})")


class Form(Row):
    """A program taken apart."""

    text: str
    """A digest that is equal for programs that differ only in numbers."""
    numbers: tuple[str, ...]
    """The numbers in order, as written in the program."""


def form(listing: Listing, listings: Mapping[str, Listing]) -> Form | None:
    """Take a program apart; None if it is too large or parts of it were not recorded.

    Args:
        listing: the program.
        listings: its sub-programs, by id.
    """
    if listing.size > _MAX_EQUATIONS:
        return None
    taken = _Taken(listings)
    if not taken.program(listing, 0) or len(taken.numbers) > _MAX_NUMBERS:
        return None
    return Form(taken.digest.hexdigest(), tuple(taken.numbers))


class _Taken:
    """A program being taken apart; each sub-program is visited once."""

    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self._listings = listings
        self._known: dict[str, int] = {}
        """The number of each sub-program's hash, in order of appearance."""
        self.numbers: list[str] = []
        self.digest = blake2b(digest_size=12)

    def program(self, listing: Listing, depth: int) -> bool:
        """Whether the whole program could be taken apart."""
        if depth > _MAX_DEPTH:
            return False
        self._say(repr((listing.inputs, listing.wires)))
        for constant in listing.constants:
            self._say(self._constant(constant))
        for output in listing.outputs:
            self._say(self._argument(output))
        return all(self._equation(listing, text, depth) for text in listing.equations)

    def _equation(self, listing: Listing, text: str, depth: int) -> bool:
        parts = text.split("\t")
        if len(parts) > 1:
            parts[1] = " ".join(map(self._argument, parts[1].split(" ")))
        # Numbers in parameters do not count: an array cannot supply them.
        inside = _INNER.findall(text) if "@" in text else []
        for name in inside:
            if name in self._known:
                continue
            self._known[name] = len(self._known)
            inner = self._listings.get(listing.inner.get(name, ""))
            if inner is None or not self.program(inner, depth + 1):
                return False
        said = "\t".join(parts)
        self._say(_INNER.sub(lambda found: f"@{self._known.get(found[1])}", said))
        return True

    def _argument(self, text: str) -> str:
        value, mark, kind = text.partition(":")
        if not _NUMBER.fullmatch(value):
            return text
        self.numbers.append(value)
        return f"#{mark}{kind}"

    def _constant(self, text: str) -> str:
        if (found := _CONTENT.fullmatch(text)) is None:
            return text
        items = [item.strip() for item in found[2].split(",") if item.strip()]
        if not all(map(_NUMBER.fullmatch, items)):
            return text
        self.numbers += items
        return f"{found[1]}=#{len(items)}"

    def _say(self, text: str) -> None:
        self.digest.update(text.encode("utf-8", "replace") + b"\n")

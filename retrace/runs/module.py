"""What of a program is part of the module that XLA is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from retrace.model import Listing

_MAX_KEPT = 20_000
_MAX_TEXT = 20_000
"""Equations of a program that is looked at; a larger one is taken as it is."""
_WEAK = re.compile(r"~(?=[a-z]+[0-9]*(?:_[a-z0-9]+)?\[)|(?<=\tweak_type=)(?:True|False)")
"""XLA knows no weak types: `~f32[]` is a `f32[]` there."""
_INNER = re.compile(r"@([0-9a-f]{32})")


class Modules:
    """Tells what programs have in common once they are lowered.

    JAX's key on disk is made of the lowered module, where no type is weak. Equations that differ
    in nothing else are one then, but JAX may have written one function for each of them: a
    program with such is taken as it is, so that two are never taken as one that are not.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, hash: str, listing: str | None, listings: Mapping[str, Listing]) -> str:
        """A digest that two programs share if (and, as far as known, only if) their modules do.

        Args:
            hash: the program's.
            listing: under which its text is found.
            listings: the texts.
        """
        if (known := self._known.get(hash)) is not None:
            return known
        found = None if listing is None else listings.get(listing)
        if found is None:
            return hash  # another process may still tell
        if len(self._known) >= _MAX_KEPT:
            self._known.clear()
        known = self._known[hash] = _digest(found, listings) or hash
        return known


def _digest(top: Listing, listings: Mapping[str, Listing]) -> str | None:
    """None where the hash of the program stands for it."""
    if top.size > _MAX_TEXT:
        return None
    texts: list[str] = []
    told: set[str] = set()
    plain: set[str] = set()
    numbers: dict[str, int] = {}
    waiting = [top]
    numbers[top.hash] = 0
    while waiting:
        listing = waiting.pop()
        for signature in _signatures(listing):
            told.add(signature)
            plain.add(_WEAK.sub("", signature))
        inner = "\n".join((*listing.inputs, *listing.equations, *listing.outputs))
        for found in _INNER.findall(inner):
            if found in numbers:
                continue
            child = listings.get(listing.inner.get(found, ""))
            if child is None:
                return None
            numbers[found] = len(numbers)
            waiting.append(child)
        shown = _WEAK.sub("", inner)
        shown = _INNER.sub(lambda match: f"@{numbers[match[1]]}", shown)
        texts.append(f"{numbers[listing.hash]} {listing.constants} {listing.wires}\n{shown}")
    if len(told) != len(plain):
        return None
    return blake2b("\n\n".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _signatures(listing: Listing) -> Iterator[str]:
    """Each equation with the types of what it takes."""
    types = list(listing.inputs)
    at = 0
    for text in listing.equations:
        _, arguments, results, *_ = text.split("\t", 3)
        count = arguments.split(" ").count("$")
        taken = listing.wires[at : at + count]
        at += count
        yield f"{text}\t{[types[wire] for wire in taken]}"
        types += results.split(" ") if results else []

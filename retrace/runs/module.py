"""Which parts of a program belong to the module that XLA is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from retrace.model import Listing
from retrace.regex import regex

_MAX_KEPT = 20_000
_MAX_TEXT = 20_000
"""Maximum number of equations in a program; a larger one is compared as it is."""
_WEAK = regex(r"~(?=[a-z]+[0-9]*(?:_[a-z0-9]+)?\[)|(?<=\tweak_type=)(?:True|False)")
"""XLA has no weak types: `~f32[]` becomes `f32[]`."""
_INNER = regex(r"@([0-9a-f]{32})")


class Modules:
    """Finds what programs have in common once they are lowered.

    JAX's on-disk key is computed from the lowered module, in which no type is weak. Equations
    that differ in nothing else become equal, but JAX may have emitted a function for each. Such a
    program is compared as it is, so that two different programs are never taken for one.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, hash: str, listing: str | None, listings: Mapping[str, Listing]) -> str:
        """A digest that two programs share if (and, as far as known, only if) their modules do.

        Args:
            hash: the hash of the program.
            listing: the id of its text.
            listings: the texts, by id.
        """
        if (known := self._known.get(hash)) is not None:
            return known
        found = None if listing is None else listings.get(listing)
        if found is None:
            return hash  # another process may still have the text
        if len(self._known) >= _MAX_KEPT:
            self._known.clear()
        known = self._known[hash] = _digest(found, listings) or hash
        return known


def _digest(top: Listing, listings: Mapping[str, Listing]) -> str | None:
    """A digest of the module, or None to use the program's hash."""
    if top.size > _MAX_TEXT:
        return None
    texts: list[str] = []
    signatures: set[str] = set()
    plain: set[str] = set()
    numbers: dict[str, int] = {}
    waiting = [top]
    numbers[top.hash] = 0
    while waiting:
        listing = waiting.pop()
        for signature in _signatures(listing):
            signatures.add(signature)
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
    if len(signatures) != len(plain):
        return None
    return blake2b("\n\n".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _signatures(listing: Listing) -> Iterator[str]:
    """Each equation with the types of its arguments."""
    types = list(listing.inputs)
    at = 0
    for text in listing.equations:
        _, arguments, results, *_ = text.split("\t", 3)
        count = arguments.split(" ").count("$")
        taken = listing.wires[at : at + count]
        at += count
        yield f"{text}\t{[types[wire] for wire in taken]}"
        types += results.split(" ") if results else []

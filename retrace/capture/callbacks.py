"""Where a program calls back into Python, which may make each call leave JAX's fast path.

Before compiling, JAX removes dead code, including any `pure_callback` whose result is unused.
So a `pure_callback` counts only if an output depends on it. All other callbacks have an effect
and always stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from retrace.model import Callback, Frame, Listing, Stack

_EFFECTS = frozenset(("debug_print", "debug_callback", "io_callback", "inspect_sharding"))
_CALLBACKS = _EFFECTS | {"pure_callback"}
_PREFIXES = tuple([f"{name}\t" for name in _CALLBACKS])
_KERNELS = frozenset(("pallas_call", "core_map"))
"""Inside these, the device itself prints."""
_INNER = re.compile("@([0-9a-f]{32})")
_CARRIED = re.compile(r"\tnum_(carry|consts)=(\d+)")
_MAX_CALLBACKS = 8


def callbacks(top: str | None, listings: Iterable[Listing]) -> tuple[Callback, ...]:
    """The first few callbacks of a program, including its sub-programs.

    Args:
        top: the id of the program's listing.
        listings: that listing, and those of the sub-programs.
    """
    known = {listing.id: listing for listing in listings}
    if top not in known or not any(
        text.startswith(_PREFIXES) for one in known.values() for text in one.equations
    ):
        return ()
    search = _Search(known)
    listing = known[top]
    search.needed(listing, frozenset(range(len(listing.outputs))), None)
    return tuple(reversed(search.found))[:_MAX_CALLBACKS]


class _Search:
    """One walk through a program, from its outputs to its inputs."""

    def __init__(self, listings: dict[str, Listing]) -> None:
        self.found: dict[Callback, None] = {}
        self._listings = listings
        self._seen: dict[tuple[str, frozenset[int]], set[int]] = {}
        self._with_effect: dict[str, bool] = {}

    def needed(self, listing: Listing, outputs: frozenset[int], outer: Frame | None) -> set[int]:
        """The variables that the effects and the given outputs need."""
        if (known := self._seen.get((listing.id, outputs))) is not None:
            return known
        live = self._seen[listing.id, outputs] = {
            int(text[1:])
            for index, text in enumerate(listing.outputs)
            if index in outputs and text.startswith("$")
        }
        end, made = len(listing.wires), len(listing.inputs)
        shapes = [_shape(text) for text in listing.equations]
        made += sum(results for _, results in shapes)
        for index in range(len(listing.equations) - 1, -1, -1):
            text = listing.equations[index]
            taken, results = shapes[index]
            begin, end = end - taken, end - taken
            made -= results
            wanted = frozenset(number for number in range(results) if made + number in live)
            if results and not wanted and not self._acts(listing, text):
                continue
            live.update(listing.wires[begin : begin + taken])
            place = _place(listing, index, outer)
            name = text.partition("\t")[0]
            if name in _CALLBACKS:
                at = (None, None) if place is None else (place.file, place.line)
                self.found[Callback(name, *at)] = None
            elif name not in _KERNELS:
                for id_ in _inner(listing, text):
                    self._inside(text, self._listings[id_], wanted, results, place)
        return live

    def _inside(
        self, text: str, inner: Listing, wanted: frozenset[int], results: int, place: Frame | None
    ) -> None:
        if len(inner.outputs) != results or text.startswith("while\t"):
            wanted = frozenset(range(len(inner.outputs)))
        carried = dict(_CARRIED.findall(text)) if text.startswith("scan\t") else {}
        first = len(inner.constants) + int(carried.get("consts", 0))
        while True:
            live = self.needed(inner, wanted, place)
            # The carry that one iteration needs must come from the iteration before.
            more = {n for n in range(int(carried.get("carry", 0))) if first + n in live}
            if more <= wanted:
                return
            wanted |= more

    def _has_effect(self, listing: Listing) -> bool:
        found = self._with_effect.get(listing.id)
        if found is None:
            found = self._with_effect[listing.id] = any(
                self._acts(listing, text) for text in listing.equations
            )
        return found

    def _acts(self, listing: Listing, text: str) -> bool:
        name = text.partition("\t")[0]
        inner = () if name in _KERNELS else _inner(listing, text)
        return name in _EFFECTS or any(self._has_effect(self._listings[id_]) for id_ in inner)


def _shape(text: str) -> tuple[int, int]:
    """How many variables an equation reads and defines."""
    _, arguments, results, *_ = text.split("\t", 3)
    return arguments.split(" ").count("$"), len(results.split(" ")) if results else 0


def _inner(listing: Listing, text: str) -> list[str]:
    """The ids of an equation's sub-programs."""
    return [listing.inner[hash_] for hash_ in _INNER.findall(text)] if "@" in text else []


def _place(listing: Listing, index: int, outer: Frame | None) -> Frame | None:
    """The innermost user line, else that of the enclosing program, else a library line."""
    stack: Stack = listing.stacks[listing.places[index]] if listing.places else ()
    own = next((frame for frame in stack if not frame.in_library), None)
    if own is not None:
        return own
    if outer is not None and not outer.in_library:
        return outer
    return stack[0] if stack else outer

"""What the programs say of a miss: wasted, shareable, or rightly separate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from retrace.compare.equation import primitive
from retrace.compare.outputs import unused_inputs
from retrace.compare.programs import Difference, Kind, compare
from retrace.model import Change, Component, Listing, Miss, Value, ValueChange

HELD = frozenset({Component.STATIC, Component.CLOSURE, Component.DEFAULTS})
"""What a Python value goes into a program by."""
_PRINTS = frozenset(("debug_callback", "debug_print"))
_CALLBACKS = frozenset(("pure_callback", "io_callback", "debug_callback"))


class Comparison:
    """The program of a miss compared with that of the nearest, when somebody asks for it."""

    def __init__(
        self,
        old: Miss,
        new: Miss,
        changes: tuple[Change, ...],
        listings: Mapping[str, Listing],
        known: Kind | None = None,
    ) -> None:
        self._misses = (old, new)
        self._changes = changes
        self._listings = listings
        self._known: Kind | None = known
        self._found: Difference | None = None
        self._asked = False

    @property
    def texts(self) -> Mapping[str, Listing]:
        """The programs that were recorded, by id."""
        return self._listings

    @property
    def is_wasted(self) -> bool:
        """Whether both are the same."""
        if self._known is not None:
            return self._known == "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None or old.hash != new.hash:
            return False
        if self.captures_others or self.holds_others:
            return False
        # What a callback into Python holds is in no program.
        return not (self._holds_other_values and self.calls_back)

    @property
    def captures_others(self) -> bool:
        """Whether arrays that the programs captured are other ones, or cannot be known again."""
        old, new = (miss.program for miss in self._misses)
        if self._known is not None or old is None or new is None:
            return False
        return old.arrays != new.arrays or None in new.arrays

    @property
    def holds_others(self) -> bool:
        """Whether custom rules hold other objects, or some that cannot be known again."""
        old, new = (miss.program for miss in self._misses)
        if self._known is not None or old is None or new is None:
            return False
        return old.held != new.held or None in new.held

    @property
    def _holds_other_values(self) -> bool:
        return any(change.component in HELD for change in self._changes)

    @cached_property
    def calls_back(self) -> bool:
        """Whether it runs Python, which may hold what no program shows."""
        found = self.listings()
        waiting, seen = [] if found is None else [found[1]], set[str]()
        while waiting:
            listing = waiting.pop()
            if any(primitive(text) in _CALLBACKS for text in listing.equations):
                return True
            for each in listing.inner.values():
                if each not in seen and each in self._listings:
                    waiting.append(self._listings[each])
                seen.add(each)
        return False

    @cached_property
    def differs_in_prints(self) -> bool:
        """Whether all that differs is what `jax.debug.print` and the like are given."""
        found = self.listings()
        if found is None or found[0].outputs != found[1].outputs:
            return False
        kept = [
            [text for text in listing.equations if primitive(text) not in _PRINTS]
            for listing in found
        ]
        return kept[0] == kept[1] and len(kept[0]) < len(found[0].equations)

    @property
    def kind(self) -> Kind | None:
        """How they differ; None where that cannot be told."""
        if (known := self._known) is not None:
            return known
        if self.is_wasted:
            return "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None:
            return None
        if old.hash == new.hash:
            if self.calls_back or self.holds_others:
                return None
            # Captured arrays were not fetched: made again, or other ones?
            return "constants-only" if self._holds_other_values else None
        found = self.difference
        return "different" if found is None else found.kind

    @property
    def difference(self) -> Difference | None:
        """The evidence; None where the text of a program was not recorded."""
        if not self._asked:
            self._asked = True
            old, new = (miss.program for miss in self._misses)
            before = old and self._listings.get(old.listing or "")
            after = new and self._listings.get(new.listing or "")
            if before is not None and after is not None:
                self._found = compare(before, after, self._listings)
        return self._found

    def listings(self) -> tuple[Listing, Listing] | None:
        """The text of both, the nearest's first."""
        programs = [miss.program for miss in self._misses]
        found = [p and self._listings.get(p.listing or "") for p in programs]
        if found[0] is None or found[1] is None:
            return None
        return found[0], found[1]

    @cached_property
    def unused(self) -> frozenset[int]:
        """The positions of the inputs that the later program does not use."""
        found = self.listings()
        return frozenset() if found is None else unused_inputs(found[1], self._listings)

    @property
    def constants(self) -> set[tuple[float | None, float | None]]:
        """The numbers in the programs that changed, from what to what."""
        found = self.difference
        told = () if found is None else found.constants
        return {(number(each.old), number(each.new)) for each in told} - {(None, None)}

    @property
    def fixed(self) -> frozenset[str]:
        """Primitives that hold a changed number where no array can stand."""
        found = self.difference
        return frozenset() if found is None else found.fixed


def numbers(change: Change) -> tuple[float | None, float | None]:
    """Both sides of a change as numbers; None where they are none."""
    if not isinstance(change, ValueChange):
        return None, None
    return _told(change.old), _told(change.new)


def _told(side: Value | None) -> float | None:
    if side is None:
        return None
    found = number(side.text)
    # Of `np.int64(3)` the content is the number.
    return number(str(side.data)) if found is None else found


def number(text: str) -> float | None:
    """What a text says, as a number; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None

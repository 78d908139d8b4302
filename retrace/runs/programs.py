"""How the programs of two recordings differ: which programs, which lines, which values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrace.compare.programs import Constant, Difference, compare
from retrace.model import FieldChange, Listing, Miss
from retrace.reason.evidence import values_of
from retrace.reason.program import HELD
from retrace.runs.misses import Pair
from retrace.runs.named import number, stand_for, texts
from retrace.runs.sides import Side


@dataclass(frozen=True, slots=True)
class Changed:
    """A program of one function that has changed."""

    pairs: tuple[Pair, ...]
    """The misses that it belongs to."""
    difference: Difference | None
    """None if a program's text was not recorded."""
    names: tuple[tuple[Constant, tuple[str, ...]], ...] = ()
    """The arguments or captured variables whose values are constants in it, where known."""

    @property
    def kind(self) -> str:
        """How they differ."""
        return "different" if self.difference is None else self.difference.kind

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds of the misses in the old and in the new recording."""
        return (
            sum(pair.old.miss.seconds for pair in self.pairs),
            sum(pair.new.miss.seconds for pair in self.pairs),
        )

    @property
    def is_shareable(self) -> bool:
        """Whether only numbers differ, so that as arguments they would leave one program."""
        found = self.difference
        if found is None or found.kind != "constants-only" or not found.constants:
            return False
        return all(None not in (number(one.old), number(one.new)) for one in found.constants)


class Texts(Mapping[str, Listing]):
    """The programs of two recordings by id."""

    def __init__(self, old: Mapping[str, Listing], new: Mapping[str, Listing]) -> None:
        self._sides = old, new

    def __getitem__(self, id: str) -> Listing:
        old, new = self._sides
        return old[id] if id in old else new[id]

    def __iter__(self) -> Iterator[str]:
        old, new = self._sides
        yield from old
        yield from (one for one in new if one not in old)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def changed(old: Side, new: Side, pairs: Sequence[Pair]) -> list[Changed]:
    """The distinct programs that differ, most expensive first."""
    texts = Texts(old.recording.listings, new.recording.listings)
    found: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        a, b = pair.old.miss.program, pair.new.miss.program
        if a is not None and b is not None and a.hash != b.hash:
            found.setdefault((pair.old.miss.function.site, a.hash, b.hash), []).append(pair)
    changes_found = [_changed(own, texts) for own in found.values()]
    return sorted(changes_found, key=lambda one: (_is_nested(one), -max(one.seconds)))


def _is_nested(one: Changed) -> bool:
    # A program nested in another miss's program is listed after that one.
    return all(pair.new.miss.parent is not None for pair in one.pairs)


def _changed(pairs: list[Pair], texts: Mapping[str, Listing]) -> Changed:
    first = pairs[0]
    listings = [_listing(verdict.miss, texts) for verdict in (first.old, first.new)]
    if listings[0] is None or listings[1] is None:
        return Changed(tuple(pairs), None)
    difference = compare(listings[0], listings[1], texts)
    values = list(_values(first))
    names = tuple(
        (constant, tuple(dict.fromkeys(name for name, sides in values if _is(constant, sides))))
        for constant in difference.constants
    )
    return Changed(tuple(pairs), difference, names)


def _listing(miss: Miss, texts: Mapping[str, Listing]) -> Listing | None:
    return None if miss.program is None else texts.get(miss.program.listing or "")


def _values(pair: Pair) -> Iterator[tuple[str, tuple[float, float]]]:
    """The numbers that the function was given or captured, by the user's names."""
    for change in pair.changes:
        if change.component in HELD or isinstance(change, FieldChange):
            sides = list(map(texts, values_of(change)))
            for within in dict.fromkeys((*sides[0], *sides[1])):
                old, new = number(sides[0].get(within, "")), number(sides[1].get(within, ""))
                if old is not None and new is not None and old != new:
                    yield f"{change.path or ''}{within}", (old, new)
    before = dict(pair.old.miss.function.reads)
    for name, value in pair.new.miss.function.reads:
        if name in before and before[name].text != value.text:
            old, new = number(before[name].text), number(value.text)
            if old is not None and new is not None:
                yield name, (old, new)


def _is(constant: Constant, sides: tuple[float, float]) -> bool:
    return stand_for((constant.old, constant.new), sides)

"""What iterations of an unrolled loop need from each other: nothing, one array, or more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

from retrace.compare.blocks import numberless
from retrace.compare.equation import inner, primitive
from retrace.compare.size import Unrolled
from retrace.costs.constants import each
from retrace.model import Listing

Way: TypeAlias = Literal["scan", "vmap", "set", "add"]
"""What can replace a loop: `vmap` if no iteration needs another, `set` and `add` if each only
stores into one array that none of them reads. `scan` works for any loop."""

WAYS = frozenset(get_args(Way))
_STORES: Mapping[str, Way] = {"scatter": "set", "scatter-add": "add", "scatter_add": "add"}
_INDEX_PRIMITIVES = frozenset(
    ("broadcast_in_dim", "concatenate", "convert_element_type", "reshape", "squeeze")
)
"""Primitives that turn numbers into indices without changing the numbers."""
_SIDE_EFFECTS = ("callback", "debug_", "print", "cond", "while", "infeed", "outfeed")
"""Primitives with side effects, or that `vmap` would run where the loop does not."""
_DIMENSIONS = re.compile(r"ScatterDimensionNumbers\(\([\d,]*\),\(([\d,]*)\),\(([\d,]*)\)")
_MAX_INDEX_EQUATIONS = 64
"""Maximum number of equations that compute one index."""


class _Equation(NamedTuple):
    text: str
    taken: tuple[int | None, ...]
    """The variable of each argument, or None for a literal."""
    made: range


def way(blocks: Sequence[Unrolled], listings: Mapping[str, Listing]) -> Way:
    """What can replace the iterations of one loop, as far as the program proves it.

    Args:
        blocks: the loop's equations in programs.
        listings: the programs of the recording, by id.
    """
    known: dict[str, _Program] = {}
    found: set[Way] = set()
    for block in blocks:
        listing = listings.get(block.program)
        if listing is None:
            return "scan"
        if block.program not in known:
            known[block.program] = _Program(listing)
        one = _Rounds(block, known[block.program], listings).way()
        if one == "scan":
            # The block that was found may start and end in the middle of iterations.
            whole = _whole(block, known[block.program])
            one = (
                "scan" if whole is None else _Rounds(whole, known[block.program], listings).way()
            )
        if one == "scan":
            return "scan"
        found.add(one)
    found = found - {"vmap"} or found
    return found.pop() if len(found) == 1 else "scan"


class _Program:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.equations = list(_equations(listing))
        self.tokens = numberless(listing)
        self.readers = Counter(
            variable for one in self.equations for variable in one.taken if variable is not None
        )
        """How often each variable is read; being a result counts as well."""
        self.readers.update(int(text[1:]) for text in listing.outputs if text[:1] == "$")


def _whole(block: Unrolled, program: _Program) -> Unrolled | None:
    """The block shifted to the start of an iteration, or None if it starts there already."""
    tokens, length = program.tokens, len(block.primitives)
    start, stop = block.rows.start, block.rows.stop
    while block.rows.start - start < length - 1 and start:
        if tokens[start - 1] != tokens[start - 1 + length]:
            break
        start -= 1
    while stop < len(tokens) and tokens[stop] == tokens[stop - length]:
        stop += 1
    rows = range(start, stop - (stop - start) % length)
    return None if start == block.rows.start else block._replace(rows=rows)


class _Rounds:
    def __init__(
        self, block: Unrolled, program: _Program, listings: Mapping[str, Listing]
    ) -> None:
        self._rows = block.rows
        self._length = len(block.primitives)
        self._listing = program.listing
        self._listings = listings
        self._all = program.equations
        self._readers = program.readers
        self._by = {
            variable: row
            for row in self._rows
            if row < len(self._all)
            for variable in self._all[row].made
        }
        """For each variable made in the iterations, its row."""

    def way(self) -> Way:
        if len(self._all) < self._rows.stop or any(map(self._is_ordered, self._first)):
            return "scan"
        chained: dict[int, int] = {}
        for row in self._rows:
            for place, variable in enumerate(self._all[row].taken):
                maker = None if variable is None else self._by.get(variable)
                if maker is None:
                    continue
                if not place and self._store(row) and self._store(maker) == self._store(row):
                    chained[row] = maker
                elif self._round(maker) != self._round(row):
                    return "scan"
        if not any(self._round(row) != self._round(maker) for row, maker in chained.items()):
            return "vmap"
        # Reading the array between two stores reveals what was stored so far.
        if any(self._readers[self._all[row].made[0]] > 1 for row in chained.values()):
            return "scan"
        ways: set[Way | None] = {self._store(row) for row in chained}
        found, *others = ways
        if found is None or others or (found == "set" and not self._are_apart(chained)):
            return "scan"
        return found

    @property
    def _first(self) -> Sequence[int]:
        return self._rows[: self._length]

    def _round(self, row: int) -> int:
        return (row - self._rows.start) // self._length

    def _store(self, row: int) -> Way | None:
        return _STORES.get(primitive(self._all[row].text))

    def _is_ordered(self, row: int) -> bool:
        text = self._all[row].text
        names = [primitive(text)]
        for hash_ in inner(text):
            sub = self._listings.get(self._listing.inner.get(hash_, ""))
            if sub is None:
                return True
            for one in each(sub, self._listings):
                names += {primitive(own) for own in one.equations}
        return any(word in name for name in names for word in _SIDE_EFFECTS)

    def _are_apart(self, chained: Mapping[int, int]) -> bool:
        """Whether no two stores of a chain write to the same place, where the last would win."""
        heads: dict[int, int] = {}
        seen: set[tuple[int, tuple[str, ...]]] = set()
        for row in self._rows:
            if self._store(row) is None:
                continue
            head = heads[row] = heads.get(chained.get(row, -1), row)
            index = self._index(row)
            if index is None or (head, index) in seen:
                return False
            seen.add((head, index))
        return True

    def _index(self, row: int) -> tuple[str, ...] | None:
        """The equations that compute the index of a store; None unless they only use numbers."""
        dimensions = _DIMENSIONS.search(self._all[row].text)
        taken = self._all[row].taken
        # A window that starts at one index may overlap the next one.
        if dimensions is None or dimensions[1] != dimensions[2] or len(taken) < 2:
            return None
        if taken[1] is None:
            return _numbers([self._all[row].text.split("\t")[1].split(" ")[1]])
        waiting, found = [taken[1]], list[str]()
        while waiting:
            maker = self._by.get(waiting.pop())
            if maker is None or len(found) >= _MAX_INDEX_EQUATIONS:
                return None
            one = self._all[maker]
            if primitive(one.text) not in _INDEX_PRIMITIVES:
                return None
            found.append(one.text.split("\t")[1])
            waiting += [variable for variable in one.taken if variable is not None]
        return _numbers(found)


def _numbers(found: list[str]) -> tuple[str, ...] | None:
    """The numbers as written; None if two different ones may be the same index."""
    return None if any("-" in text or "#" in text for text in found) else tuple(found)


def _equations(listing: Listing) -> Iterator[_Equation]:
    wires, made = iter(listing.wires), len(listing.inputs)
    for text in listing.equations:
        _, arguments, results, *_ = f"{text}\t\t".split("\t", 3)
        taken = tuple(next(wires, None) if one == "$" else None for one in arguments.split(" "))
        number = len(results.split(" ")) if results else 0
        yield _Equation(text, taken, range(made, made + number))
        made += number

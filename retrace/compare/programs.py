"""Compare two programs: was the second one wasted, could one serve both, or are both needed?

identical       the same content
shapes-only     equation for equation the same, but for the sizes of axes
constants-only  the same, but for literals and captured constants
repeated        the same block n times in place of m, and all else equal: an unrolled loop
different       equations added, removed or changed
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from retrace.compare.alignment import Alignment, align
from retrace.compare.blocks import repeated
from retrace.compare.equation import (
    RULED,
    Relation,
    follows,
    inner,
    primitive,
    relate,
    relate_types,
)
from retrace.compare.repeats import Repeat
from retrace.compare.rounds import Rounds
from retrace.compare.source_lines import LineChange, Listings, line_changes, place
from retrace.model import Dim, Frame, Listing
from retrace.store.sizes import sizes_of

Kind: TypeAlias = Literal["identical", "shapes-only", "constants-only", "repeated", "different"]

_DEEPEST = 40
"""Programs inside programs, as far as they are compared."""
_CHANGED_BLOCK = 64
"""Primitives of a repeated block that are named at most."""


class Size(NamedTuple):
    """The size of an axis, from what to what."""

    old: Dim
    new: Dim
    equations: int
    """How many equations follow it."""
    inputs: tuple[tuple[int, int], ...]
    """The inputs of the program that have it: position and axis."""


class Constant(NamedTuple):
    """A literal or captured constant that changed."""

    old: str
    new: str
    place: Frame | None
    times: int = 1


class Repeated(NamedTuple):
    """A block that runs another number of times."""

    primitives: tuple[str, ...]
    old: int | None
    """None on both sides where it is not told how often."""
    new: int | None
    place: Frame | None
    loop: bool = False
    """Whether JAX's own loop runs it; else it stands in the program so often."""


class Difference(NamedTuple):
    """How a program differs from another one, with the evidence."""

    kind: Kind
    old: int
    """Equations."""
    new: int
    sizes: tuple[Size, ...] = ()
    constants: tuple[Constant, ...] = ()
    repeats: tuple[Repeated, ...] = ()
    lines: tuple[LineChange, ...] = ()
    minimal: bool = True
    """Whether this is certainly the smallest number of edits."""
    rewired: bool = False
    """The same equations, over other variables."""
    unsure: bool = False
    """Captured device arrays are other objects; whether they are equal was not looked at."""
    fixed: frozenset[str] = frozenset()
    """Primitives that hold a changed constant as a parameter, where no array can stand, or in
    a rule, where it may be anything."""


def compare(old: Listing, new: Listing, listings: Listings) -> Difference:
    """How `new` differs from `old`.

    Args:
        old: the earlier program.
        new: the later one.
        listings: where the sub-programs of both are found, by id.
    """
    if old.hash == new.hash:
        return Difference("identical", old.size, new.size)
    paired = _Pairs(listings)
    if paired.program(old, new):
        kind = paired.kind()
        if kind is not None:
            return Difference(
                kind,
                old.size,
                new.size,
                paired.sizes(new),
                paired.told_constants(),
                paired.repeats(),
                fixed=frozenset(paired.fixed),
            )
    lines, minimal = line_changes(old, new, paired.alignment(old, new), listings)
    return Difference(
        "different",
        old.size,
        new.size,
        paired.sizes(new),
        paired.told_constants(),
        paired.repeats(),
        lines=lines,
        minimal=minimal,
        rewired=not lines,
    )


class _Pairs:
    """Two programs taken equation by equation, their sub-programs as well."""

    def __init__(self, listings: Listings) -> None:
        self._listings = listings
        self._depth = 0
        self._known: dict[tuple[str, str], bool] = {}
        self._relations: dict[tuple[str, str], Relation | None] = {}
        self._dims: set[tuple[Dim, Dim]] = set()
        self._numbers: set[tuple[str, str]] = set()
        self._followers: Counter[tuple[Dim, Dim]] = Counter()
        self._constants: dict[tuple[str, str, Frame | None], int] = {}
        self._inputs: list[tuple[tuple[Dim, Dim], int, int]] = []
        self._repeats: dict[Repeated, None] = {}
        self._alignments: dict[tuple[str, str], Alignment] = {}
        self.fixed: set[str] = set()

    def alignment(self, old: Listing, new: Listing) -> Alignment:
        """What the equations of two programs share."""
        key = old.hash, new.hash
        if (found := self._alignments.get(key)) is None:
            found = self._alignments[key] = align(old.equations, new.equations)
        return found

    def repeats(self) -> tuple[Repeated, ...]:
        """The blocks that run another number of times for themselves."""
        return tuple([block for block in self._repeats if not self._is_sized(block)])

    def _is_sized(self, block: Repeated) -> bool:
        # A scan over an array runs as often as that has rows.
        return block.loop and (block.old, block.new) in self._dims

    def program(self, old: Listing, new: Listing, outer: Frame | None = None) -> bool:
        """Whether both are of one form; what differs is kept."""
        known = self._known.get((old.hash, new.hash))
        if known is None:
            # A hostile recording may hold a program inside itself, or in a chain without end.
            self._known[old.hash, new.hash] = False
            self._depth += 1
            if self._depth > _DEEPEST:
                known = False
            elif len(old.equations) == len(new.equations):
                known = self._program(old, new, outer)
            else:
                known = self._unrolled(old, new, outer)
            self._depth -= 1
            self._known[old.hash, new.hash] = known
        return known

    def _program(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        if (
            old.wires != new.wires
            or len(old.equations) != len(new.equations)
            or len(old.inputs) != len(new.inputs)
            or len(old.constants) != len(new.constants)
            or not self._outputs(old, new, outer)
        ):
            return False
        for index, (a, b) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            found = relate_types(a, b)
            if found is None:
                return False
            self._dims.update(found.dims)
            if outer is None and found.dims:
                self._note_input(index, a, b)
        return self._captured(old, new, outer) and all(
            a is b or a == b or self._equation(old, a, new, b, place(new, index) or outer)
            for index, (a, b) in enumerate(zip(old.equations, new.equations, strict=True))
        )

    def _equation(self, old: Listing, a: str, new: Listing, b: str, at: Frame | None) -> bool:
        if (a, b) not in self._relations:
            self._relations[a, b] = relate(a, b)
        found = self._relations[a, b]
        if found is None:
            return False
        self._keep(found, at)
        for trips in found.trips:
            block = Repeated(self._body(new, b), *(trips or _UNTOLD), _somewhere(at), True)
            self._repeats[block] = None
        for x, y in found.inner:
            before, after = self._inner(old, x), self._inner(new, y)
            if before is None or after is None:
                return False
            if not self.program(before, after, at or _NOWHERE):
                return False
        return True

    def _unrolled(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        if not (blocks := repeated(old, new, self.alignment(old, new))):
            return False
        told = dict.fromkeys(_told(old, new, block, outer) for block in blocks)
        if not _takes_as_much(old, new):
            # One more array for each round, as for each layer, or a loop over an axis:
            # the numbers of variables say nothing then.
            self._repeats.update(told)
            return True
        rounds = Rounds(old, new, blocks)
        if (pairs := rounds.outside()) is None or not self._outputs(old, new, outer, rounds):
            return False
        self._repeats.update(told)
        equations = ((old.equations[x], new.equations[y], y) for x, y in pairs)
        return self._captured(old, new, outer) and all(
            a == b or self._equation(old, a, new, b, place(new, y) or outer)
            for a, b, y in equations
        )

    def _captured(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        used = None if old.constants == new.constants else _first_uses(new)
        for index, (a, b) in enumerate(zip(old.constants, new.constants, strict=True)):
            found = relate_types(a, b)
            if found is None:
                return False
            at = place(new, used[index]) if used and index in used else outer
            self._keep(found, at or outer, counts=False)
        return True

    def _outputs(
        self, old: Listing, new: Listing, outer: Frame | None, rounds: Rounds | None = None
    ) -> bool:
        if len(old.outputs) != len(new.outputs):
            return False
        for a, b in zip(old.outputs, new.outputs, strict=True):
            if rounds is not None and _VARIABLE.fullmatch(a) and _VARIABLE.fullmatch(b):
                if rounds.same(int(a[1:]), int(b[1:])):
                    continue
                return False
            if a == b:
                continue
            if a.startswith("$") or b.startswith("$"):
                return False
            found = relate(f"\t{a}\t", f"\t{b}\t")
            if found is None:
                return False
            self._keep(found, outer, counts=False)
        return True

    def _inner(self, listing: Listing, hash_: str) -> Listing | None:
        return self._listings.get(listing.inner.get(hash_, ""))

    def _body(self, listing: Listing, text: str) -> tuple[str, ...]:
        body = next((self._inner(listing, hash_) for hash_ in inner(text)), None)
        rows = [text] if body is None else body.equations[:_CHANGED_BLOCK]
        return tuple(map(primitive, rows))

    def _keep(self, found: Relation, at: Frame | None, *, counts: bool = True) -> None:
        self._dims.update(found.dims)
        if counts:
            self._followers.update(set(found.dims))
        self._numbers.update(found.numbers)
        self.fixed.update(found.fixed)
        for old, new in found.constants:
            key = (old, new, _somewhere(at))
            self._constants[key] = self._constants.get(key, 0) + 1

    def _note_input(self, index: int, old: str, new: str) -> None:
        before, after = (
            sizes_of(text[text.find("[") + 1 : text.find("]")]) for text in (old, new)
        )
        for axis, (a, b) in enumerate(zip(before, after, strict=True)):
            if a != b:
                self._inputs.append(((a, b), index, axis))

    def kind(self) -> Kind | None:
        """What kind of difference this is; None where it is more than one of them."""
        dims = self._dims
        if not all(follows(old, new, dims) for old, new in self._numbers):
            return None
        repeated, constants = self.repeats(), self._own_constants()
        if (dims or repeated) and any(held.startswith(RULED) for held in self.fixed):
            return None
        if dims:
            return None if constants or repeated else "shapes-only"
        if repeated:
            return None if constants else "repeated"
        return "constants-only" if constants else None

    def _own_constants(self) -> list[tuple[str, str, Frame | None]]:
        # A mean divides by the size of the batch: that constant is part of the shape.
        trips = {(b.old, b.new) for b in self._repeats if b.old is not None and b.new is not None}
        changed = self._dims | trips
        return [key for key in self._constants if not follows(key[0], key[1], changed)]

    def told_constants(self) -> tuple[Constant, ...]:
        """The constants that changed for themselves."""
        return tuple(Constant(*key, self._constants[key]) for key in self._own_constants())

    def sizes(self, new: Listing) -> tuple[Size, ...]:
        """The sizes that changed, those that most equations follow first."""
        found = [
            Size(
                *pair,
                self._followers[pair],
                tuple((index, axis) for size, index, axis in self._inputs if size == pair),
            )
            for pair in self._dims
        ]
        return tuple(
            sorted(
                found,
                key=lambda size: (-size.equations, *_ordered(size.old), *_ordered(size.new)),
            )
        )


def _ordered(size: Dim) -> tuple[int, str]:
    return (size, "") if isinstance(size, int) else (-1, size)


_NOWHERE = Frame("", 0, "", 0, True)
_UNTOLD = (None, None)
_VARIABLE = re.compile(r"\$[0-9]{1,18}")


def _somewhere(at: Frame | None) -> Frame | None:
    return None if at is _NOWHERE else at


def _first_uses(listing: Listing) -> dict[int, int]:
    """The equation that takes each variable first."""
    found: dict[int, int] = {}
    position = 0
    for index, text in enumerate(listing.equations):
        taken = text.split("\t", 2)[1].split(" ").count("$")
        for variable in listing.wires[position : position + taken]:
            found.setdefault(variable, index)
        position += taken
    return found


def _takes_as_much(old: Listing, new: Listing) -> bool:
    return old.inputs == new.inputs and len(old.constants) == len(new.constants)


def _told(old: Listing, new: Listing, block: Repeat, outer: Frame | None) -> Repeated:
    longer, start = (new, block.new) if block.new_times > 1 else (old, block.old)
    end = start + min(block.length, _CHANGED_BLOCK)
    named = tuple(primitive(text) for text in longer.equations[start:end])
    at = next(filter(None, (place(longer, i) for i in range(start, end))), outer)
    return Repeated(named, block.old_times, block.new_times, _somewhere(at))

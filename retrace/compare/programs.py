"""Compare two programs: was the second one wasted, could one serve both, or are both needed?

identical       the same content
shapes-only     the same equations, except for the sizes of axes
constants-only  the same equations, except for literals and captured constants
repeated        a block repeated n times instead of m, all else equal: an unrolled loop
different       equations were added, removed or changed
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

from retrace.compare.alignment import Alignment, align
from retrace.compare.blocks import repeated
from retrace.compare.equation import (
    CUSTOM_RULE,
    Relation,
    follows,
    inner,
    primitive,
    relate,
    relate_types,
)
from retrace.compare.repeats import Repeat
from retrace.compare.rewired import Rewired, rewired
from retrace.compare.rounds import Rounds
from retrace.compare.source_lines import LineChange, Listings, line_changes, place
from retrace.compare.untraced import static_argument, untraced
from retrace.model import Dim, Frame, Listing
from retrace.model.row import Row
from retrace.regex import regex
from retrace.store.sizes import sizes_of

Kind: TypeAlias = Literal["identical", "shapes-only", "constants-only", "repeated", "different"]

_MAX_DEPTH = 40
"""How deep programs inside programs are compared."""
_MAX_PRIMITIVES = 64
"""Maximum number of primitives that are named for a repeated block."""


class Size(Row):
    """The size of an axis, old and new."""

    old: Dim
    new: Dim
    equations: int
    """How many equations follow this size."""
    inputs: tuple[tuple[int, int], ...]
    """The inputs of the program that have this size: position and axis."""
    numbers: bool = False
    """Whether numbers in the program follow it too."""


class Constant(Row):
    """A literal or captured constant that changed."""

    old: str
    new: str
    place: Frame | None
    times: int = 1


class Repeated(Row):
    """A block that runs a different number of times."""

    primitives: tuple[str, ...]
    old: int | None
    """None on both sides if unknown."""
    new: int | None
    place: Frame | None
    loop: bool = False
    """Whether a JAX loop runs it; otherwise the program contains that many copies."""


class Difference(Row):
    """How a program differs from another, with the evidence."""

    kind: Kind
    old: int
    """Number of equations."""
    new: int
    sizes: tuple[Size, ...] = ()
    constants: tuple[Constant, ...] = ()
    repeats: tuple[Repeated, ...] = ()
    lines: tuple[LineChange, ...] = ()
    minimal: bool = True
    """Whether this is certainly the smallest number of edits."""
    rewired: Rewired | None = None
    """Where the same equations take other variables; None if equations differ."""
    unsure: bool = False
    """Captured device arrays are other objects; whether they are equal was not checked."""
    fixed: frozenset[str] = frozenset()
    """Primitives that hold a changed constant as a parameter, where no array is possible, or in
    a rule, where it may be anything."""


def compare(old: Listing, new: Listing, listings: Listings) -> Difference:
    """Tell how `new` differs from `old`.

    Args:
        old: the earlier program.
        new: the later one.
        listings: the sub-programs of both, by id.
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
                paired.constants(),
                paired.repeats(),
                fixed=frozenset(paired.fixed),
            )
    lines, minimal = line_changes(old, new, paired.alignment(old, new), listings)
    return Difference(
        "different",
        old.size,
        new.size,
        paired.sizes(new),
        paired.constants(),
        paired.repeats(),
        lines=lines,
        minimal=minimal,
        rewired=None if lines else rewired(old, new, listings),
    )


class _Pairs:
    """Two programs compared equation by equation, including their sub-programs."""

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
        self._static = ""
        """The function of JAX whose own program is compared."""

    def alignment(self, old: Listing, new: Listing) -> Alignment:
        """Align the equations of two programs."""
        key = old.hash, new.hash
        if (found := self._alignments.get(key)) is None:
            found = self._alignments[key] = align(old.equations, new.equations)
        return found

    def repeats(self) -> tuple[Repeated, ...]:
        """The blocks that run a different number of times, not just because of a changed size."""
        return tuple([block for block in self._repeats if not self._is_sized(block)])

    def _is_sized(self, block: Repeated) -> bool:
        # A scan over an array runs once for each of its rows.
        return block.loop and (block.old, block.new) in self._dims

    def program(self, old: Listing, new: Listing, outer: Frame | None = None) -> bool:
        """Whether both have the same form; differences are noted."""
        known = self._known.get((old.hash, new.hash))
        if known is None:
            # A hostile recording may nest a program inside itself, or nest without end.
            self._known[old.hash, new.hash] = False
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                known = False
            elif len(old.equations) == len(new.equations):
                known = self._same_length(old, new, outer)
            else:
                known = self._unrolled(old, new, outer)
            self._depth -= 1
            self._known[old.hash, new.hash] = known
        return known

    def _same_length(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        if (
            old.wires != new.wires
            or len(old.equations) != len(new.equations)
            or len(old.inputs) != len(new.inputs)
            or len(old.constants) != len(new.constants)
            or not self._outputs_match(old, new, outer)
        ):
            return False
        for index, (a, b) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            found = relate_types(a, b)
            if found is None:
                return False
            self._dims.update(found.dims)
            if outer is None and found.dims:
                self._note_input(index, a, b)
        return self._constants_match(old, new, outer) and all(
            a is b or a == b or self._equations_match(old, a, new, index, outer)
            for index, (a, b) in enumerate(zip(old.equations, new.equations, strict=True))
        )

    def _equations_match(
        self, old: Listing, a: str, new: Listing, index: int, outer: Frame | None
    ) -> bool:
        b, at = new.equations[index], place(new, index) or outer
        if (a, b) not in self._relations:
            self._relations[a, b] = relate(a, b)
        found = self._relations[a, b]
        if found is None:
            return False
        self._note(found, at)
        if found.constants:
            self.fixed.update(untraced(new, index), filter(None, (self._static,)))
        for trips in found.trips:
            block = Repeated(self._body(new, b), *(trips or _UNKNOWN), _known_place(at), True)
            self._repeats[block] = None
        for x, y in found.inner:
            before, after = self._inner(old, x), self._inner(new, y)
            if before is None or after is None:
                return False
            outer_static = self._static
            is_shown = place(new, index) is not None
            static = static_argument(b, shown=is_shown, inner=_has_places(after))
            self._static = outer_static if static is None else static
            same = self.program(before, after, at or _NOWHERE)
            self._static = outer_static
            if not same:
                return False
        return True

    def _unrolled(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        if not (blocks := repeated(old, new, self.alignment(old, new))):
            return False
        found = dict.fromkeys(_as_repeated(old, new, block, outer) for block in blocks)
        if not _take_the_same_inputs(old, new):
            # There is one more array for each round (a layer, a row), so the numbers of
            # variables cannot be compared.
            self._repeats.update(found)
            return True
        rounds = Rounds(old, new, blocks)
        if (pairs := rounds.outside()) is None or not self._outputs_match(
            old, new, outer, rounds
        ):
            return False
        self._repeats.update(found)
        return self._constants_match(old, new, outer) and all(
            old.equations[x] == new.equations[y]
            or self._equations_match(old, old.equations[x], new, y, outer)
            for x, y in pairs
        )

    def _constants_match(self, old: Listing, new: Listing, outer: Frame | None) -> bool:
        used = None if old.constants == new.constants else _first_uses(new)
        for index, (a, b) in enumerate(zip(old.constants, new.constants, strict=True)):
            found = relate_types(a, b)
            if found is None:
                return False
            at = place(new, used[index]) if used and index in used else outer
            self._note(found, at or outer, counts=False)
        return True

    def _outputs_match(
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
            self._note(found, outer, counts=False)
        return True

    def _inner(self, listing: Listing, hash_: str) -> Listing | None:
        return self._listings.get(listing.inner.get(hash_, ""))

    def _body(self, listing: Listing, text: str) -> tuple[str, ...]:
        body = next((self._inner(listing, hash_) for hash_ in inner(text)), None)
        rows = [text] if body is None else body.equations[:_MAX_PRIMITIVES]
        return tuple(map(primitive, rows))

    def _note(self, found: Relation, at: Frame | None, *, counts: bool = True) -> None:
        self._dims.update(found.dims)
        if counts:
            self._followers.update(set(found.dims))
        self._numbers.update(found.numbers)
        self.fixed.update(found.fixed)
        for old, new in found.constants:
            key = (old, new, _known_place(at))
            self._constants[key] = self._constants.get(key, 0) + 1

    def _note_input(self, index: int, old: str, new: str) -> None:
        before, after = (
            sizes_of(text[text.find("[") + 1 : text.find("]")]) for text in (old, new)
        )
        for axis, (a, b) in enumerate(zip(before, after, strict=True)):
            if a != b:
                self._inputs.append(((a, b), index, axis))

    def kind(self) -> Kind | None:
        """What kind of difference this is; None if it is of more than one kind."""
        dims = self._dims
        if not all(follows(old, new, dims) for old, new in self._numbers):
            return None
        repeated, constants = self.repeats(), self._independent_constants()
        if (dims or repeated) and any(held.startswith(CUSTOM_RULE) for held in self.fixed):
            return None
        if dims:
            return None if constants or repeated else "shapes-only"
        if repeated:
            return None if constants else "repeated"
        return "constants-only" if constants else None

    def _independent_constants(self) -> list[tuple[str, str, Frame | None]]:
        # A mean divides by the batch size: such a constant belongs to the shape.
        trips = {(b.old, b.new) for b in self._repeats if b.old is not None and b.new is not None}
        changed = self._dims | trips
        return [key for key in self._constants if not follows(key[0], key[1], changed)]

    def constants(self) -> tuple[Constant, ...]:
        """The constants that changed, not just because of a changed size."""
        return tuple(
            Constant(*key, self._constants[key]) for key in self._independent_constants()
        )

    def sizes(self, new: Listing) -> tuple[Size, ...]:
        """The sizes that changed; those that most equations follow come first."""
        found = [
            Size(
                *pair,
                self._followers[pair],
                tuple((index, axis) for size, index, axis in self._inputs if size == pair),
                any(follows(old, new, {pair}) for old, new, _ in self._constants),
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
_UNKNOWN = (None, None)
_VARIABLE = regex(r"\$[0-9]{1,18}")


def _known_place(at: Frame | None) -> Frame | None:
    return None if at is _NOWHERE else at


def _has_places(listing: Listing) -> bool:
    return any(place(listing, at) is not None for at in range(len(listing.equations)))


def _first_uses(listing: Listing) -> dict[int, int]:
    """The first equation that uses each variable."""
    found: dict[int, int] = {}
    position = 0
    for index, text in enumerate(listing.equations):
        taken = text.split("\t", 2)[1].split(" ").count("$")
        for variable in listing.wires[position : position + taken]:
            found.setdefault(variable, index)
        position += taken
    return found


def _take_the_same_inputs(old: Listing, new: Listing) -> bool:
    return old.inputs == new.inputs and len(old.constants) == len(new.constants)


def _as_repeated(old: Listing, new: Listing, block: Repeat, outer: Frame | None) -> Repeated:
    longer, start = (new, block.new) if block.new_times > 1 else (old, block.old)
    end = start + min(block.length, _MAX_PRIMITIVES)
    named = tuple(primitive(text) for text in longer.equations[start:end])
    at = next(filter(None, (place(longer, i) for i in range(start, end))), outer)
    return Repeated(named, block.old_times, block.new_times, _known_place(at))

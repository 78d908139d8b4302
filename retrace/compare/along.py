"""What a program does along an axis: can rows be added at its end, and what must be masked?

Two programs of one function, traced for two sizes, are compared equation by equation. Any axis
whose size differs between them would be padded, so no axis has to be followed through the
program. What an equation does along such an axis shows whether the existing rows keep their
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from retrace.compare.axes import ADDS_AT, Effect, effect
from retrace.compare.equation import inner
from retrace.compare.from_end import indices_from_end
from retrace.compare.paired import Equation, arity, equation
from retrace.compare.source_lines import place
from retrace.model import Frame, Key, Listing
from retrace.model.row import Row

_MAX_DEPTH = 40
_MAX_EQUATIONS = 100_000
"""Maximum number of equations compared."""
_MAX_STEPS = 200


class Step(Row):
    """An equation that works along the axis."""

    primitive: str | None
    """None if the equation computes with the size itself, as a mean does."""
    place: Frame | None
    """The user's line, if known."""
    dtype: str = ""
    """Of a largest or smallest value: the type of what is compared, as JAX shortens it."""
    beside: bool = False
    """Whether the number that differs may follow from what else differs between the programs, not
    from the size."""

    @property
    def is_draw(self) -> bool:
        """Whether it draws random numbers."""
        return self.primitive is not None and self.primitive.startswith("random_")


class Along(Row):
    """What a program does along an axis."""

    masked: tuple[Step, ...] = ()
    """Sums, products and comparisons over the axis: added rows can be masked."""
    ordered: tuple[Step, ...] = ()
    """Equations that depend on the position or number of rows: loops over them, cumulative sums,
    sorts, convolutions, random numbers for each row."""
    whole: bool = True
    """Whether all equations are understood; if not, there may be more of both."""
    returned: bool = False
    """Whether a result has the axis, so that added rows come back."""
    counts: bool = False
    """Whether a result is computed from the size alone, as the number of rows."""
    twice: bool = False
    """Whether a result has the axis twice, as one for each pair of rows: it has added columns."""
    ends: tuple[int, ...] = ()
    """The axes of the results on which added rows come last, if they do in all results that have
    them. Empty if that is not so, as where the result of `jnp.repeat` is twice as long."""
    filled: tuple[Frame | None, ...] = ()
    """The user's lines that look up rows by padded indices, and get NaN for one past the end."""
    added: tuple[Frame | None, ...] = ()
    """Those that add rows where padded indices say."""
    wrapped: tuple[Frame | None, ...] = ()
    """Those that would count from the end of the rows, if an index were negative there."""

    @property
    def draws(self) -> bool:
        """Whether other random numbers are drawn for another size."""
        return any(step.is_draw for step in self.ordered)

    @property
    def sized(self) -> bool:
        """Whether the size itself is used where nothing goes over the rows, as a mean does.

        No mask changes it there, and it may decide a branch of Python.
        """
        over = {step.place and step.place[:2] for step in self.masked if step.primitive}
        return any(
            step.primitive is None and (step.place is None or step.place[:2] not in over)
            for step in self.masked
        )

    @property
    def separate(self) -> bool:
        """Whether each row keeps its results, whatever is added after the last row."""
        changes = self.masked or self.ordered or self.counts or self.twice
        return self.whole and not changes

    def beside_others(self) -> Along:
        """The same of two programs that do not only differ in sizes."""
        return self._replace(
            masked=tuple(map(_beside, self.masked)), ordered=tuple(map(_beside, self.ordered))
        )

    def union(self, other: Along) -> Along:
        """Return what either of the two does."""
        return Along(
            _shortened((*self.masked, *other.masked)),
            _shortened((*self.ordered, *other.ordered)),
            self.whole and other.whole,
            self.returned or other.returned,
            self.counts or other.counts,
            self.twice or other.twice,
            _same_ends([one.ends for one in (self, other) if one.returned]),
            tuple(dict.fromkeys((*self.filled, *other.filled)))[:_MAX_STEPS],
            tuple(dict.fromkeys((*self.added, *other.added)))[:_MAX_STEPS],
            tuple(dict.fromkeys((*self.wrapped, *other.wrapped)))[:_MAX_STEPS],
        )


UNKNOWN = Along(whole=False)

EXTREMES = frozenset(("argmax", "argmin", "reduce_max", "reduce_min"))
"""Operations in which only the least or the greatest value of a type changes no result."""


class _Done(NamedTuple):
    """What an equation does along the axis."""

    effect: Effect
    primitive: str | None
    dtype: str = ""
    indices: Literal["", "look up", "add"] = ""
    """What padded indices are for, if JAX treats one past the end in its own way."""


def is_drawn_by_position(key: Key) -> bool:
    """Whether a random number depends only on its position, not on how many are drawn."""
    drawn = dict(key.config).get("jax_threefry_partitionable")
    return drawn is not None and drawn.data is True


def along(
    old: Listing, new: Listing, listings: Mapping[str, Listing], *, stable: bool = False
) -> Along:
    """Tell what a function, traced for two sizes, does along the axes that differ.

    Args:
        old: one program.
        new: the other, which differs only in sizes.
        listings: the sub-programs, by id.
        stable: the result of `is_drawn_by_position`.

    Returns:
        what they do; `UNKNOWN` if they differ in more than sizes, or not at all.
    """
    return UNKNOWN if old.inputs == new.inputs else _Walk(listings, stable).programs(old, new)


class _Walk:
    def __init__(self, listings: Mapping[str, Listing], stable: bool) -> None:
        self._listings = listings
        self._stable = stable
        self._seen: set[tuple[str, str, Frame | None]] = set()
        self._walked = 0
        self._counted_from_end: dict[str, dict[int, bool]] = {}
        self._known: dict[tuple[object, ...], _Done | None] = {}
        """What equations do. Layers repeat, so most are known from an earlier one."""

    def programs(
        self, old: Listing, new: Listing, depth: int = 0, outer: Frame | None = None
    ) -> Along:
        """What two programs do; `outer` is the user's line around them, as that of a `std`."""
        if (old.id, new.id, outer) in self._seen:
            return Along()
        self._seen.add((old.id, new.id, outer))
        self._walked += len(old.equations)
        if not _have_same_wiring(old, new) or depth > _MAX_DEPTH or self._walked > _MAX_EQUATIONS:
            return UNKNOWN
        # An output may be the size itself, or differ between the sizes.
        same = old.outputs == new.outputs
        counts = not same and depth == 0 and _have_same_wires(old.outputs, new.outputs)
        found = Along(whole=same or counts, counts=counts)
        before, after = list(old.inputs), list(new.inputs)
        for index, what in enumerate(self._equations(old, new, before, after)):
            if what is None:
                return UNKNOWN
            done, name, dtype, indices = what
            at = _own(place(new, index)) or outer or place(new, index)
            if indices:
                of_indices = Along(filled=(at,)) if indices == "look up" else Along(added=(at,))
                found = found.union(of_indices)
            if done == "unknown":
                found = found._replace(whole=False)
            elif name is None and done != "nothing" and index in self._from_end(new):
                if self._from_end(new)[index]:
                    found = found.union(Along(wrapped=(at,)))
            elif done != "nothing":
                step = (Step(name, at, dtype),)
                found = found.union(Along(step) if done == "masked" else Along(ordered=step))
            if "@" in new.equations[index]:
                around = _own(place(new, index)) or outer
                found = found.union(self._sub_programs(old, new, index, depth, around))
        wires = [int(one[1:]) for one in new.outputs if one.startswith("$")] if depth == 0 else ()
        resized = [(before[wire], after[wire]) for wire in wires if before[wire] != after[wire]]
        twice = any(len(_resized(*types)) > 1 for types in resized)
        found = found._replace(returned=bool(resized), twice=twice)
        if depth == 0 and not _takes_indices(old, new):
            found = found._replace(added=())  # the program counts them itself
        if found.ordered or not found.whole:
            return found
        # Rows keep their places: where a result has the sizes of an argument, it has its rows.
        lengths = {
            size
            for types in zip(old.inputs, new.inputs, strict=True)
            for size in _resized(*types).values()
        }
        ends = [
            tuple(own) if lengths.issuperset((own := _resized(*types)).values()) else ()
            for types in resized
        ]
        return found._replace(ends=_same_ends(ends))

    def _from_end(self, listing: Listing) -> dict[int, bool]:
        if listing.id not in self._counted_from_end:
            self._counted_from_end[listing.id] = indices_from_end(listing)
        return self._counted_from_end[listing.id]

    def _equations(
        self, old: Listing, new: Listing, before: list[str], after: list[str]
    ) -> Iterator[_Done | None]:
        """What each equation does; None if the two equations do not match.

        Adds the types of its results to `before` and `after`.
        """
        position = 0
        for a, b in zip(old.equations, new.equations, strict=True):
            taken, made = arity(a)
            wires = old.wires[position : position + taken]
            position += taken
            if len(wires) < taken or max(wires, default=-1) >= min(len(before), len(after)):
                yield None
                return
            types = [(before[wire], after[wire]) for wire in wires]
            key = (a, b, *types)
            if key not in self._known:
                self._known[key] = self._what_it_does(a, b, types)
            yield self._known[key]
            before += made
            after += arity(b)[1]

    def _what_it_does(self, a: str, b: str, types: list[tuple[str, str]]) -> _Done | None:
        one = equation(a, b, types)
        if one is None:
            return None
        done = effect(one, self._stable)
        by_size = one.literal or (one.is_by_size and done == "masked")
        if by_size:
            return _Done(done, None)
        dtype = types[0][1].partition("[")[0] if types and one.name in EXTREMES else ""
        return _Done(done, one.name, dtype, _indices(one))

    def _sub_programs(
        self, old: Listing, new: Listing, index: int, depth: int, around: Frame | None
    ) -> Along:
        found = Along()
        names = inner(old.equations[index]), inner(new.equations[index])
        for a, b in zip(*names, strict=False):
            before = self._listings.get(old.inner.get(a, ""))
            after = self._listings.get(new.inner.get(b, ""))
            if before is None or after is None:
                return UNKNOWN
            if before.id != after.id:
                found = found.union(self.programs(before, after, depth + 1, around))
        return found


def _indices(one: Equation) -> Literal["", "look up", "add"]:
    if len(one.given) < 2 or not one.given[1].axes:
        return ""
    if one.name in ADDS_AT:
        return "add"
    fills = one.name == "gather" and "FILL" in one.old.get("mode", "")
    return "look up" if fills and one.old.get("fill_value") != "0" else ""  # 0 in derivatives


def _takes_indices(old: Listing, new: Listing) -> bool:
    """Whether an array that would be padded is of integers."""
    pairs = zip(old.inputs, new.inputs, strict=True)
    return any(new.startswith(("i", "u")) for old, new in pairs if old != new)


def _resized(old: str, new: str) -> dict[int, tuple[str, str]]:
    """The axes that differ between two types: 0, with 3 and 8, for `f32[3,2]` and `f32[8,2]`."""
    sides = [one.partition("[")[2].rstrip("]").split(",") for one in (old, new)]
    return {axis: (a, b) for axis, (a, b) in enumerate(zip(*sides, strict=False)) if a != b}


def _same_ends(ends: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return ends[0] if len(set(ends)) == 1 else ()


def _beside(step: Step) -> Step:
    return step._replace(beside=True) if step.primitive is None else step


def _own(frame: Frame | None) -> Frame | None:
    """The frame, if it is of the user."""
    return None if frame is None or frame.in_library else frame


def _shortened(steps: tuple[Step, ...] | list[Step]) -> tuple[Step, ...]:
    # Of all that may change results, masking helps least against other random numbers.
    found = sorted(dict.fromkeys(steps), key=lambda step: not step.is_draw)
    return tuple(found[:_MAX_STEPS])


def _have_same_wires(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the outputs differ in literals alone."""
    return len(old) == len(new) and all(
        a == b or not (a.startswith("$") or b.startswith("$"))
        for a, b in zip(old, new, strict=True)
    )


def _have_same_wiring(old: Listing, new: Listing) -> bool:
    """Whether two programs have the same wiring."""
    return (
        len(old.equations) == len(new.equations)
        and old.wires == new.wires
        and len(old.inputs) == len(new.inputs)
        # A captured array whose size follows may have different rows.
        and old.constants == new.constants
    )

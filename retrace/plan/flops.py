"""What programs of other sizes would compute, estimated from the recorded ones.

For one axis, interpolate between the recorded sizes. For several axes that vary together there is
nothing to interpolate, because a corner may be longer on every axis than any call was. There, use
the polynomial that reproduces the count of every recorded program, if there is only one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import isclose, prod
from typing import TYPE_CHECKING, TypeAlias

from retrace.compare.work import Work
from retrace.model import Verdict
from retrace.plan.corners import Corners, Size, corner_of
from retrace.plan.sizes import Choice, covering

if TYPE_CHECKING:
    from fractions import Fraction

_MIN_POINTS = 2
"""Number of sizes that a line needs."""
_MAX_DEGREE = 3
"""Maximum total degree of a term."""
_MAX_POINTS = 24
"""Maximum number of programs used for a fit."""
_MAX_TERMS = {2: 6, 3: 3}
"""Maximum number of terms, by number of axes."""
_EXACT = 1e-9
_TOLERANCE = 1e-3
"""Two polynomials whose shares differ by less than this agree."""

_Term: TypeAlias = tuple[int, ...]
"""The power of each axis."""
_Polynomial: TypeAlias = tuple[tuple[_Term, float], ...]


def counted(rows: Iterable[tuple[Verdict, Size]], work: Work) -> dict[Size, float]:
    """The operations that the programs of each size compute, counted from their equations."""
    found: dict[Size, float] = {}
    for verdict, size in rows:
        program = verdict.miss.program
        listing = None if program is None else work.listings.get(program.listing or "")
        number = None if listing is None else work.of(listing)
        if number:
            found[size] = max(found.get(size, 0.0), number)
    return found


class Flops:
    """What the programs compute, as a function of the size of one axis."""

    def __init__(self, known: Mapping[Size, float]) -> None:
        self._known: list[tuple[int, float]] = []
        highest = 0.0
        for (size,) in sorted(known):
            highest = max(highest, known[size,])  # a larger size never computes less
            self._known.append((size, highest))

    def with_flops(self, choice: Choice, weights: Mapping[int, float]) -> Choice:
        """The choice, with the fraction of the computation that is padding."""
        if len(self._known) < _MIN_POINTS:
            return choice
        paid = sum(n * self._at(covering(size, choice.sizes)) for size, n in weights.items())
        real = sum(n * self._at(size) for size, n in weights.items())
        return choice._replace(flops=(paid - real) / paid if paid > 0 else None)

    def _at(self, size: int) -> float:
        """The count for a recorded size; otherwise on the line through its two neighbours."""
        after = bisect_left(self._known, (size, 0.0))
        if after < len(self._known) and self._known[after][0] == size:
            return self._known[after][1]
        after = min(max(after, 1), len(self._known) - 1)
        (a, low), (b, high) = self._known[after - 1], self._known[after]
        return max(0.0, low + (high - low) * (size - a) / (b - a))


class JointFlops:
    """What the programs compute, as a function of the sizes of several axes."""

    def __init__(self, known: Mapping[Size, float]) -> None:
        self._fits = _fits(known)

    def with_flops(self, choice: Corners, weights: Mapping[Size, float]) -> Corners:
        """The corners, with the fraction of the computation that is padding."""
        shares: list[float] = []
        for fit in self._fits:
            paid = sum(
                n * _value(fit, corner_of(size, choice.sizes)) for size, n in weights.items()
            )
            real = sum(n * _value(fit, size) for size, n in weights.items())
            if paid > 0:
                shares.append((paid - real) / paid)
        if not shares or max(shares) - min(shares) > _TOLERANCE:
            return choice  # several polynomials fit, and they disagree
        return choice._replace(flops=shares[0])


def _fits(known: Mapping[Size, float]) -> tuple[_Polynomial, ...]:
    """All polynomials with the fewest terms, or one more, that reproduce every count.

    Two counts are spare for the fewest terms: `2 + a * b` gives what `1 + a + b` does where one
    of them is 1, so only what both say of other sizes is known.
    """
    if not known or len(axes := next(iter(known))) not in _MAX_TERMS:
        return ()
    sizes = _spread(sorted(known))
    terms = list(_terms(len(axes)))
    fits: list[_Polynomial] = []
    for number in range(1, min(_MAX_TERMS[len(axes)] + 1, len(sizes) - 1) + 1):
        is_last = bool(fits)
        found = [_fit(own, sizes, known) for own in combinations(terms, number)]
        fits += [one for one in found if one is not None]
        if is_last:
            return tuple(fits)
    return ()


def _spread(sizes: Sequence[Size]) -> list[Size]:
    """Enough of the sizes for a fit, evenly spread from the smallest to the largest."""
    if len(sizes) <= _MAX_POINTS:
        return list(sizes)
    step = (len(sizes) - 1) / (_MAX_POINTS - 1)
    return [sizes[round(step * at)] for at in range(_MAX_POINTS)]


def _terms(axes: int) -> Iterator[_Term]:
    """Products of axes, at most one of them squared, as in attention over a batch of texts."""
    for powers in product(range(3), repeat=axes):
        if powers.count(2) <= 1 and sum(powers) <= _MAX_DEGREE:
            yield powers


def _fit(
    terms: Sequence[_Term], sizes: Sequence[Size], known: Mapping[Size, float]
) -> _Polynomial | None:
    """The polynomial of these terms, if it is unique and reproduces each count."""
    from fractions import Fraction  # 3 ms, and few reports need it

    rows = ([Fraction(_term_value(term, size)) for term in terms] for size in sizes)
    solved = _solved(
        len(terms), zip(rows, map(Fraction, map(known.__getitem__, sizes)), strict=True)
    )
    if solved is None or any(one <= 0 for one in solved):
        return None
    found = tuple(zip(terms, map(float, solved), strict=True))
    near = all(isclose(_value(found, size), known[size], rel_tol=_EXACT) for size in sizes)
    return found if near else None


def _solved(
    number: int, rows: Iterable[tuple[list[Fraction], Fraction]]
) -> list[Fraction] | None:
    """The coefficients from the first independent rows, or None if they are not determined."""
    reduced: list[tuple[int, list[Fraction]]] = []
    for row, value in rows:
        own = [*row, value]
        for at, other in reduced:
            if own[at]:
                factor = own[at]
                own = [a - factor * b for a, b in zip(own, other, strict=True)]
        lead = next((at for at in range(number) if own[at]), None)
        if lead is None:
            continue
        own = [one / own[lead] for one in own]
        reduced = [
            (at, [a - other[lead] * b for a, b in zip(other, own, strict=True)])
            for at, other in reduced
        ]
        reduced.append((lead, own))
        if len(reduced) == number:
            return [own[-1] for _, own in sorted(reduced)]
    return None


def _term_value(term: _Term, size: Size) -> int:
    return prod(one**power for one, power in zip(size, term, strict=True))


def _value(polynomial: _Polynomial, size: Size) -> float:
    return sum(factor * _term_value(term, size) for term, factor in polynomial)

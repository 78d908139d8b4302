"""What programs of other sizes would compute, from those that were recorded.

Of one axis it is read off between the sizes that were seen. Of several that vary together there
is nothing to read off: a corner may be longer on each axis than any call was. There it is the
one polynomial that gives the count of each recorded program, and nothing where several do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import isclose, prod
from typing import TypeAlias

from retrace.compare.work import Work
from retrace.model import Verdict
from retrace.plan.corners import Corners, Size, corner_of
from retrace.plan.sizes import Choice, covering

_LINE = 2
"""Sizes that a line needs."""
_AXES = 3
"""Of more axes no polynomial is looked for."""
_POINTS = 24
"""So many programs tell it."""
_TERMS = {2: 6, 3: 3}
"""So many terms at most, by the number of axes."""
_EXACT = 1e-9
_EQUAL = 1e-3
"""Two polynomials that are so near each other tell the same."""

_Term: TypeAlias = tuple[int, ...]
"""The power of each axis."""
_Polynomial: TypeAlias = tuple[tuple[_Term, float], ...]


def counted(rows: Iterable[tuple[Verdict, Size]], work: Work) -> dict[Size, float]:
    """What the programs of each size compute, by their own equations."""
    found: dict[Size, float] = {}
    for verdict, size in rows:
        program = verdict.miss.program
        listing = None if program is None else work.listings.get(program.listing or "")
        number = None if listing is None else work.of(listing)
        if number:
            found[size] = max(found.get(size, 0.0), number)
    return found


class Flops:
    """What the programs of an axis compute, by its size."""

    def __init__(self, known: Mapping[Size, float]) -> None:
        self._known: list[tuple[int, float]] = []
        most = 0.0
        for (size,) in sorted(known):
            most = max(most, known[size,])  # a larger size computes no less
            self._known.append((size, most))

    def told(self, choice: Choice, weights: Mapping[int, float]) -> Choice:
        """The choice with the share of what is computed that is padding."""
        if len(self._known) < _LINE:
            return choice
        paid = sum(n * self._at(covering(size, choice.sizes)) for size, n in weights.items())
        real = sum(n * self._at(size) for size, n in weights.items())
        return choice._replace(flops=(paid - real) / paid if paid > 0 else None)

    def _at(self, size: int) -> float:
        """Of a size that was seen as counted; between two, and beyond, on the line of these."""
        after = bisect_left(self._known, (size, 0.0))
        if after < len(self._known) and self._known[after][0] == size:
            return self._known[after][1]
        after = min(max(after, 1), len(self._known) - 1)
        (a, low), (b, high) = self._known[after - 1], self._known[after]
        return max(0.0, low + (high - low) * (size - a) / (b - a))


class JointFlops:
    """What the programs of several axes compute, by how long these are together."""

    def __init__(self, known: Mapping[Size, float]) -> None:
        self._fits = _fits(known)

    def told(self, choice: Corners, weights: Mapping[Size, float]) -> Corners:
        """The corners with the share of what is computed that is padding."""
        shares: list[float] = []
        for fit in self._fits:
            paid = sum(
                n * _value(fit, corner_of(size, choice.sizes)) for size, n in weights.items()
            )
            real = sum(n * _value(fit, size) for size, n in weights.items())
            if paid > 0:
                shares.append((paid - real) / paid)
        if not shares or max(shares) - min(shares) > _EQUAL:
            return choice  # more than one law, and they tell other shares
        return choice._replace(flops=shares[0])


def _fits(known: Mapping[Size, float]) -> tuple[_Polynomial, ...]:
    """All polynomials of as few terms as will do that give every count, and one more."""
    if not known or len(axes := next(iter(known))) not in _TERMS:
        return ()
    sizes = _spread(sorted(known))
    terms = list(_terms(len(axes)))
    for number in range(1, min(_TERMS[len(axes)], len(sizes) - 1) + 1):
        found = [_fit(own, sizes, known) for own in combinations(terms, number)]
        if fits := tuple(one for one in found if one is not None):
            return fits
    return ()


def _spread(sizes: Sequence[Size]) -> list[Size]:
    """So many of them that they tell it, from the least to the largest."""
    if len(sizes) <= _POINTS:
        return list(sizes)
    step = (len(sizes) - 1) / (_POINTS - 1)
    return [sizes[round(step * at)] for at in range(_POINTS)]


def _terms(axes: int) -> Iterator[_Term]:
    """Each axis by itself and with others, one of them squared: a batch of texts attends so."""
    for powers in product(range(3), repeat=axes):
        if powers.count(2) <= 1 and sum(powers) <= _AXES:
            yield powers


def _fit(
    terms: Sequence[_Term], sizes: Sequence[Size], known: Mapping[Size, float]
) -> _Polynomial | None:
    """The polynomial of these terms, where it is one and gives each count."""
    rows = ([Fraction(_of_term(term, size)) for term in terms] for size in sizes)
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
    """The factors that the first independent rows tell; None where the rows leave them open."""
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


def _of_term(term: _Term, size: Size) -> int:
    return prod(one**power for one, power in zip(size, term, strict=True))


def _value(polynomial: _Polynomial, size: Size) -> float:
    return sum(factor * _of_term(term, size) for term, factor in polynomial)

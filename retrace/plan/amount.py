"""Numbers that are known exactly or only within a range."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A number, or the range it lies in."""

    low: float = 0.0
    high: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether the range is a single number."""
        return self.low == self.high

    def plus(self, other: Span) -> Span:
        """The sum of two independent numbers."""
        return Span(self.low + other.low, self.high + other.high)

    def minus(self, other: Span) -> Span:
        """What remains of this number after subtracting `other`."""
        return Span(max(0.0, self.low - other.high), max(0.0, self.high - other.low))

    def hull(self, other: Span) -> Span:
        """The narrowest range that contains both."""
        return Span(min(self.low, other.low), max(self.high, other.high))


def exactly(number: float) -> Span:
    """A known number."""
    return Span(number, number)


class Amount(NamedTuple):
    """A count of outermost misses and of eager operations, and the seconds they took."""

    calls: Span = Span()
    eager: Span = Span()
    seconds: Span = Span()

    def plus(self, other: Amount) -> Amount:
        """The sum."""
        return Amount(*(a.plus(b) for a, b in zip(self, other, strict=True)))

    def minus(self, other: Amount) -> Amount:
        """What remains after subtracting `other`."""
        return Amount(*(a.minus(b) for a, b in zip(self, other, strict=True)))

    def hull(self, other: Amount) -> Amount:
        """The range that covers both, number by number."""
        return Amount(*(a.hull(b) for a, b in zip(self, other, strict=True)))

    @property
    def is_nothing(self) -> bool:
        """Whether every number could be zero."""
        return not any(span.high > 0 for span in self)

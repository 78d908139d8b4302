"""Numbers that are known exactly, or only within a range."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A number, or a range where it cannot be known."""

    low: float = 0.0
    high: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether there is just one number."""
        return self.low == self.high

    def plus(self, other: Span) -> Span:
        """The sum of two independent numbers."""
        return Span(self.low + other.low, self.high + other.high)

    def minus(self, other: Span) -> Span:
        """What is left of this when `other` is taken away."""
        return Span(max(0.0, self.low - other.high), max(0.0, self.high - other.low))

    def hull(self, other: Span) -> Span:
        """The narrowest range that holds both."""
        return Span(min(self.low, other.low), max(self.high, other.high))


def exactly(number: float) -> Span:
    """A number that is known."""
    return Span(number, number)


class Amount(NamedTuple):
    """So many outermost misses, eager operations and seconds."""

    calls: Span = Span()
    eager: Span = Span()
    seconds: Span = Span()

    def plus(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(*(a.plus(b) for a, b in zip(self, other, strict=True)))

    def minus(self, other: Amount) -> Amount:
        """What is left of this when `other` is taken away."""
        return Amount(*(a.minus(b) for a, b in zip(self, other, strict=True)))

    def hull(self, other: Amount) -> Amount:
        """Where the two differ, a range."""
        return Amount(*(a.hull(b) for a, b in zip(self, other, strict=True)))

    @property
    def is_nothing(self) -> bool:
        """Whether nothing of it can be told from zero."""
        return not any(span.high > 0 for span in self)

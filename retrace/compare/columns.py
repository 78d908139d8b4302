"""Count, for thousands of earlier keys at once, in how many places each differs from a new one.

The keys are rows, the (component, path) pairs are columns. A set of rows is one
int with a bit for each, so that a column costs one operation over all rows:

    rows        3210
    shape x     0100   row 2 differs in the shape of x
    dtype x     0110   rows 1 and 2 differ in its dtype
    counts      0210   kept as two ints, the ones (0010) and the twos (0100)
"""

from __future__ import annotations

from collections.abc import Hashable


class Column:
    """The values of one place in all rows; most rows hold that of the first."""

    __slots__ = ("_rows", "others")

    def __init__(self) -> None:
        self.others = 0
        """The rows that hold something else than the first."""
        self._rows: dict[Hashable, int] = {}

    def add(self, value: Hashable, row: int) -> None:
        """Say that a row holds this value, unequal to the first row's."""
        self.others |= 1 << row
        held = self._rows.get(value)
        # A value seen once is kept as the inverted number of its row: a shape that
        # grows at each call would else cost a row of bits for each of its values.
        if held is None:
            self._rows[value] = ~row
        else:
            self._rows[value] = _bits(held) | 1 << row

    def holding(self, value: Hashable) -> int:
        """The rows that hold this value, unequal to the first row's."""
        held = self._rows.get(value)
        return 0 if held is None else _bits(held)


def _bits(held: int) -> int:
    return 1 << ~held if held < 0 else held


class Counts:
    """A number for each row, its binary digits kept as one set of rows each."""

    __slots__ = ("_digits",)

    def __init__(self) -> None:
        self._digits: list[int] = []

    def add(self, rows: int) -> None:
        """Add one to each of these rows."""
        for index, digit in enumerate(self._digits):
            if not rows:
                return
            self._digits[index] = digit ^ rows
            rows &= digit
        if rows:
            self._digits.append(rows)

    def least(self, among: int) -> tuple[int, int]:
        """The smallest number that one of these rows has, and the rows that have it."""
        number = 0
        for index in reversed(range(len(self._digits))):
            zeros = among & ~self._digits[index]
            if zeros:
                among = zeros
            else:
                number |= 1 << index
        return number, among

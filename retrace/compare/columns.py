"""Count, for thousands of earlier keys at once, in how many places each differs from a new one.

Keys are rows, (component, path) pairs are columns. A set of rows is one int with a bit for each
row, so a column costs one operation for all rows:

    rows        3210
    shape x     0100   row 2 differs in the shape of x
    dtype x     0110   rows 1 and 2 differ in its dtype
    counts      0210   stored as two ints, the ones (0010) and the twos (0100)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping


class Column:
    """The values of one place in all rows; most rows hold the value of the first."""

    __slots__ = ("_rows", "others")

    def __init__(self) -> None:
        self.others = 0
        """The rows whose value differs from the first row's."""
        self._rows: dict[Hashable, int] = {}

    def add(self, value: Hashable, row: int) -> None:
        """Note that a row holds this value, which differs from the first row's."""
        self.others |= 1 << row
        held = self._rows.get(value)
        # A value seen once is stored as the inverted number of its row. Otherwise a shape
        # that grows at each call would need a full set of bits for each of its values.
        if held is None:
            self._rows[value] = ~row
        else:
            self._rows[value] = _bits(held) | 1 << row

    def copy(self) -> Column:
        """Return an independent column with the same values."""
        other = Column()
        other.others, other._rows = self.others, self._rows.copy()
        return other

    def holding(self, value: Hashable) -> int:
        """Return the rows that hold this value, which differs from the first row's."""
        held = self._rows.get(value)
        return 0 if held is None else _bits(held)


def _bits(held: int) -> int:
    return 1 << ~held if held < 0 else held


def least(counts: Mapping[int, int], among: int, everyone: int) -> tuple[int, int]:
    """Find the rows with the smallest sum.

    Args:
        counts: for each set of rows, the number to add to each of them.
        among: the rows to choose from, at least one.
        everyone: all rows.

    Returns:
        The smallest sum and the rows that have it.
    """
    smallest = counts.get(everyone, 0)
    digits: list[int] = []
    for rows, number in counts.items():
        for place in range(number.bit_length() if rows != everyone else 0):
            if number >> place & 1:
                _add(digits, rows, place)
    for place in reversed(range(len(digits))):
        zeros = among & ~digits[place]
        if zeros:
            among = zeros
        else:
            smallest += 1 << place
    return smallest, among


def _add(digits: list[int], rows: int, place: int) -> None:
    """Add `2 ** place` to each of the rows, in binary with carry."""
    while rows:
        while place >= len(digits):
            digits.append(0)
        digits[place], rows = digits[place] ^ rows, digits[place] & rows
        place += 1

"""Two programs that repeat blocks a different number of times: do they agree on all else?

A variable outside the blocks has one counterpart. A variable defined in a block corresponds to
that of the round at the same distance from the end, or from the beginning. If the other program
has no such round, it corresponds to the initial value of the loop: what its first round took in
that place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from retrace.compare.repeats import Repeat
from retrace.model import Listing
from retrace.model.row import Row

_MAX_USES = 8


class _Place(Row):
    """Where a variable is defined."""

    block: int
    """-1 outside the blocks."""
    round: int
    equation: int
    """Index within the block, or among the equations outside; -1 for inputs."""
    result: int


class _Use(Row):
    """Where a later round uses a variable of a block."""

    rounds: int
    """How many rounds later."""
    equation: int
    argument: int


class _Side:
    """A program, split into the equations inside and outside the blocks."""

    def __init__(self, listing: Listing, blocks: Sequence[tuple[int, int, int]]) -> None:
        """Each block is a start, a length and a number of rounds; blocks are in order."""
        self.blocks = blocks
        self._inputs = len(listing.inputs)
        self._wires = listing.wires
        self._defined = [self._inputs]
        """The first variable that each equation defines, then the total number."""
        self._taken = [0]
        """The first wire of each equation, then the total number."""
        shapes: dict[str, tuple[int, int]] = {}
        for text in listing.equations:
            if (shape := shapes.get(text)) is None:
                _, arguments, results, *_ = text.split("\t", 3)
                results = len(results.split(" ")) if results else 0
                shape = shapes[text] = arguments.split(" ").count("$"), results
            self._taken.append(self._taken[-1] + shape[0])
            self._defined.append(self._defined[-1] + shape[1])
        self._starts = [start for start, _, _ in blocks]
        self._inside = [0]
        for _, length, times in blocks:
            self._inside.append(self._inside[-1] + length * times)
        self._uses: dict[int, dict[tuple[int, int], list[_Use]]] = {}

    def outside(self) -> list[int]:
        """The equations outside the blocks."""
        found: list[int] = []
        at = 0
        for start, length, times in self.blocks:
            found += range(at, start)
            at = start + length * times
        return [*found, *range(at, len(self._taken) - 1)]

    def wires(self, equation: int) -> list[int]:
        """The variables that an equation takes."""
        return self._wires[self._taken[equation] : self._taken[equation + 1]]

    def place(self, variable: int) -> _Place:
        """Where a variable is defined."""
        if variable < self._inputs or variable >= self._defined[-1]:
            return _Place(-1, 0, -1, variable)
        equation = bisect_right(self._defined, variable) - 1
        result = variable - self._defined[equation]
        block = bisect_right(self._starts, equation) - 1
        if block >= 0:
            start, length, times = self.blocks[block]
            if equation < start + length * times:
                return _Place(block, *divmod(equation - start, length), result)
        return _Place(-1, 0, equation - self._inside[block + 1], result)

    def carried(self, at: _Place, back: int) -> int | None:
        """The variable that a block's variable was `back` rounds before the first."""
        start, length, _ = self.blocks[at.block]
        for use in self._uses_of(at.block).get(at[2:], ()):
            if use.rounds >= back:
                equation = start + (use.rounds - back) * length + use.equation
                variable = self.wires(equation)[use.argument]
                if self.place(variable).block < at.block:
                    return variable
        return None

    def _uses_of(self, block: int) -> dict[tuple[int, int], list[_Use]]:
        if (known := self._uses.get(block)) is not None:
            return known
        found = self._uses[block] = {}
        start, length, times = self.blocks[block]
        for equation in range(length):
            for argument, wire in enumerate(self.wires(start + (times - 1) * length + equation)):
                at = self.place(wire)
                if at.block == block and at.round < times - 1:
                    uses = found.setdefault(at[2:], [])
                    if len(uses) < _MAX_USES:
                        uses.append(_Use(times - 1 - at.round, equation, argument))
        return found


class Rounds:
    """Two programs, and the blocks that are repeated a different number of times."""

    def __init__(self, old: Listing, new: Listing, blocks: Sequence[Repeat]) -> None:
        self._old = _Side(old, [(b.old, b.length, b.old_times) for b in blocks])
        self._new = _Side(new, [(b.new, b.length, b.new_times) for b in blocks])

    def outside(self) -> list[tuple[int, int]] | None:
        """The equations outside the blocks, paired; None if they use other variables."""
        old, new = self._old.outside(), self._new.outside()
        if len(old) != len(new):
            return None
        pairs = list(zip(old, new, strict=True))
        return pairs if all(self._take_the_same(*pair) for pair in pairs) else None

    def _take_the_same(self, old: int, new: int) -> bool:
        before, after = self._old.wires(old), self._new.wires(new)
        return len(before) == len(after) and all(map(self.same, before, after))

    def same(self, old: int, new: int) -> bool:
        """Whether two variables, one of each program, correspond."""
        while True:
            a, b = self._old.place(old), self._new.place(new)
            if a.block == b.block == -1:
                return a == b
            block = max(a.block, b.block)
            times = self._old.blocks[block][2], self._new.blocks[block][2]
            ends = times[0] - a.round, times[1] - b.round
            if (
                a.block == b.block
                and a[2:] == b[2:]
                and (a.round == b.round or ends[0] == ends[1])
            ):
                return True
            # The later block must have received it from before.
            carried: int | None = None
            if a.block == block and ends[0] > times[1]:
                carried = self._old.carried(a, ends[0] - times[1])
                old = old if carried is None else carried
            elif b.block == block and ends[1] > times[0]:
                carried = self._new.carried(b, ends[1] - times[0])
                new = new if carried is None else carried
            if carried is None:
                return False

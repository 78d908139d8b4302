"""Everything known about where one miss spent its seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from retrace.compare.size import Unrolled, unrolled
from retrace.costs import tracing
from retrace.costs.by_line import by_line
from retrace.costs.constants import Constant, constants, each
from retrace.costs.copies import Copies, copies
from retrace.costs.donation import Donated, donated
from retrace.costs.folding import FOLDING, Folded, folded
from retrace.costs.growth import Growth, growth
from retrace.costs.heavy import Heavy, heavy
from retrace.costs.independent import WAYS, Way, way
from retrace.costs.nested import Nest, nest
from retrace.costs.repeated import Repeated, repeated
from retrace.model import Frame, Listing, Miss, Recording, Stage
from retrace.model.slow import Anew, Compiling, Kernel, Loop, Memory, Pass

SLOW_FROM = 5.0
"""A miss that takes at least this many seconds is slow, unless the recording says otherwise."""
_MIN_SHARE = 0.1
"""Fraction of a miss's seconds that is worth advice."""
_MIN_CONSTANT_BYTES = 1 << 20
"""Smaller constants are not worth advice."""
_MIN_OUTSIDE = 0.25
"""Fraction of a trace spent in code outside JAX that is worth advice."""
_MAX_ADVICE = 6
_DOMINANT = 0.8
"""Fraction of a compiled program's instructions that one line must hold for XLA's work on the
whole program to be attributed to it."""


Code: TypeAlias = Literal[
    Way, "jit", "argument", "folding", "equality", "flatten", "python", "collection"
]


class Advice(NamedTuple):
    """Something to change, with the numbers that support it."""

    code: Code
    frame: Frame | None
    times: int = 0
    """The iterations of an unrolled loop, or the calls of a function."""
    before: int = 0
    """Current equations or bytes."""
    after: int = 0
    seconds: float = 0.0
    """Seconds known to be spent on it, or 0 if unknown."""


class Account(NamedTuple):
    """Where one miss spent its seconds and bytes."""

    miss: Miss
    trace: tracing.TraceSummary | None
    compiling: Compiling | None
    constants: tuple[Constant, ...]
    unrolled: tuple[Unrolled, ...]
    repeated: tuple[Repeated, ...]
    nest: Nest | None
    heavy: tuple[Heavy, ...]
    folded: Folded | None
    """The line that made XLA fold constants, if that took time and one line stands out."""
    own: frozenset[tuple[str, int]]
    """The lines of the program, including library lines; empty if they were not recorded."""
    memory: Memory | None
    donated: Donated | None
    copies: Copies | None
    growth: tuple[Growth, ...]
    advice: tuple[Advice, ...]

    @property
    def passes(self) -> list[Pass]:
        """Passes over the whole program."""
        return [one for one in self._passes() if one.kind == "pass"]

    @property
    def code(self) -> list[Pass]:
        """The steps that generated code."""
        return [one for one in self._passes() if one.kind == "code"]

    @property
    def tuning(self) -> list[Pass]:
        """The steps in which XLA compiled and compared candidates."""
        return [one for one in self._passes() if one.kind == "tuning"]

    @property
    def kernels(self) -> Sequence[Kernel]:
        """What the source lines were compiled to, with wall-clock seconds."""
        kernels = [one for one in self._all() if not self._is_foreign(one)]
        # The compiler's threads generate code in parallel: their sum exceeds the wall clock.
        threads = sum(kernel.seconds for kernel in kernels)
        passed = sum(step.seconds for step in self.code)
        if not threads or threads <= passed:
            return kernels
        return [one._replace(seconds=one.seconds * passed / threads) for one in kernels]

    @property
    def foreign(self) -> Sequence[Kernel]:
        """What XLA attributes to lines that are not in the program.

        JAX caches the traces of its own functions. Before 0.9, their lines are those of
        whichever program called them first.
        """
        return [one for one in self._all() if self._is_foreign(one)]

    def _all(self) -> Sequence[Kernel]:
        return () if self.compiling is None else by_line(self.compiling.kernels)

    def _is_foreign(self, one: Kernel) -> bool:
        return bool(self.own) and (one.file, one.line) not in self.own

    @property
    def rest(self) -> float:
        """Seconds that XLA spent on the whole program outside passes and code generation."""
        return sum(one.seconds for one in self._passes() if one.kind == "other")

    @property
    def whole(self) -> tuple[Kernel, float] | None:
        """The line with nearly all instructions, and its share of XLA's work on the program.

        The share is in seconds. None if there is no such line, or no seconds are known. Many
        equal kernels are one piece of code, generated once: this is what they cost.
        """
        made = sum(one.instructions for one in self.kernels)
        most = max(self.kernels, key=lambda one: one.instructions, default=None)
        if most is None or most.instructions < _DOMINANT * made:
            return None
        spent = self.rest + sum(one.seconds for one in self.passes)
        if self.folded is not None:
            spent -= _folding(self.compiling)[0]
        return (most, spent * most.instructions / made) if spent > 0 else None

    @property
    def lines(self) -> Sequence[Kernel]:
        """The source lines that the compiler spent its time on, most expensive first."""
        found = list(self.kernels)
        if (whole := self.whole) is not None:
            most, share = whole
            found[found.index(most)] = most._replace(seconds=most.seconds + share)
        if self.folded is not None:
            spent, times = _folding(self.compiling)
            frame, does = self.folded.frame, ((FOLDING, times),)
            found.append(Kernel(frame.file, frame.line, frame.function, 0, 0, spent, does))
        return sorted(found, key=lambda one: (-one.seconds, -one.instructions))

    def _passes(self) -> Sequence[Pass]:
        return () if self.compiling is None else self.compiling.passes

    @property
    def was_observed(self) -> bool:
        """Whether the recording shows where the seconds went."""
        return self.trace is not None or self.compiling is not None


def account(miss: Miss, recording: Recording) -> Account:
    """Where one miss spent its seconds and bytes.

    Args:
        miss: a miss of the recording.
        recording: the whole recording, for other misses of the same function and program.
    """
    slow = miss.slow
    listings = recording.listings
    listing = _listing(miss, listings)
    held = () if listing is None else tuple(constants(listing, listings))
    blocks = () if listing is None else tuple(unrolled([listing], listings))
    trace = None if slow is None or slow.tracing is None else tracing.summarise(slow.tracing)
    compiling = None if slow is None else slow.compiling
    folding = None
    if listing is not None and _folding(compiling)[0] > 0:
        folding = folded(listing, listings)
    calls = () if listing is None else tuple(repeated(listing, listings))
    advice = _advice(miss, trace, compiling, held, blocks, calls, folding, listings)
    memory = None if slow is None else slow.memory
    return Account(
        miss,
        trace,
        compiling,
        held,
        blocks,
        calls,
        None if listing is None else nest(listing, listings),
        () if listing is None else tuple(heavy(listing, listings)),
        folding,
        frozenset() if listing is None else _own(listing, listings),
        memory,
        donated(miss.key, memory, listing),
        copies(miss, recording),
        tuple(_growth(miss, recording.misses)),
        tuple(advice[:_MAX_ADVICE]),
    )


def with_profile(miss: Miss, anew: Anew) -> Miss:
    """The miss with the passes and lines seen when its program was compiled again, if it was."""
    if anew.profiled is None or miss.slow is None:
        return miss
    return replace(miss, slow=miss.slow._replace(compiling=anew.profiled.compiling))


def slowest(misses: Iterable[Miss], over: float | None = SLOW_FROM) -> list[Miss]:
    """The outermost misses that were slow, slowest first.

    Args:
        misses: the misses of a recording.
        over: the minimum seconds; None for the `--slow-over` that was recorded with each miss.
    """
    found = [miss for miss in misses if is_slow(miss, _over(miss) if over is None else over)]
    return sorted(found, key=lambda miss: -miss.seconds)


def _over(miss: Miss) -> float:
    return SLOW_FROM if miss.slow is None or not miss.slow.over else miss.slow.over


def is_slow(miss: Miss, over: float = SLOW_FROM) -> bool:
    """Whether the miss itself was slow, or ended abruptly while it was observed."""
    if miss.parent is not None and miss.derived is None:
        return False
    spent = miss.seconds
    if miss.in_flight is not None and miss.slow is not None and miss.slow.tracing is not None:
        spent += miss.slow.tracing.waited + miss.slow.tracing.seconds
    return spent >= over


def _listing(miss: Miss, listings: Mapping[str, Listing]) -> Listing | None:
    program = miss.program
    if program is None or program.listing is None:
        return None
    return listings.get(program.listing)


def _own(listing: Listing, listings: Mapping[str, Listing]) -> frozenset[tuple[str, int]]:
    stacks = (stack for one in each(listing, listings) for stack in one.stacks)
    return frozenset((frame.file, frame.line) for stack in stacks for frame in stack)


def _growth(miss: Miss, misses: Sequence[Miss]) -> list[Growth]:
    own = [
        other
        for other in misses
        if other.run == miss.run
        and other.function.site == miss.function.site
        and other.derived == miss.derived
    ]
    if len(own) < 2:
        return []
    found = [growth(own, stage) for stage in (Stage.TRACE, Stage.COMPILE)]
    return [one for one in found if one is not None]


def _advice(
    miss: Miss,
    trace: tracing.TraceSummary | None,
    compiling: Compiling | None,
    held: Sequence[Constant],
    blocks: Sequence[Unrolled],
    calls: Sequence[Repeated],
    folding: Folded | None,
    listings: Mapping[str, Listing],
) -> list[Advice]:
    found: list[Advice] = []
    total, slow = miss.seconds, miss.slow
    equations = 0 if miss.program is None else miss.program.equations
    seen = () if slow is None or slow.tracing is None else slow.tracing.loops
    rounds: dict[Frame | int, list[tuple[Unrolled, Frame | None]]] = {}
    for block in blocks:
        # Without its Python loop: those of its body and its backward pass have as many rounds.
        loop = _loop(block, seen)
        rounds.setdefault(loop or block.times, []).append((block, loop))
    for same in [same for key, same in rounds.items() if isinstance(key, Frame)]:
        # Operations on the results of a loop: `jnp.stack` has an equation for each of them.
        same += rounds.pop(max(block.times for block, _ in same), [])
    for same in rounds.values():
        saved = sum(block.saved for block in _disjoint([block for block, _ in same]))
        if saved >= _MIN_SHARE * equations:
            left = max(0, equations - saved)
            block, loop = max(same, key=lambda one: one[0].times)
            place = loop or same[0][0].place
            how = way([block for block, _ in same], listings)
            found.append(Advice(how, place, block.times, equations, left))
    # For blocks under several loops, prefer the loop that leaves the fewest equations.
    found.sort(key=lambda advice: advice.after)
    found = list({advice.frame: advice for advice in reversed(found)}.values())[::-1]
    if calls and calls[0].saved > max((one.before - one.after for one in found), default=0):
        found += _jitted(miss, calls[0], equations)
    spent, _ = _folding(compiling)
    if spent >= _MIN_SHARE * total:
        largest = held[0] if held else None
        frame = largest.frame if folding is None and largest is not None else None
        found.append(
            Advice(
                "folding",
                frame if folding is None else folding.frame,
                before=0 if largest is None else largest.bytes,
                seconds=spent,
            )
        )
    bytes_ = sum(one.bytes for one in held)
    if bytes_ >= _MIN_CONSTANT_BYTES:
        found.append(Advice("argument", held[0].frame, len(held), bytes_))
    if trace is not None:
        found += _outside(trace)
    rest = max(0.0, total - sum(one.seconds for one in found))
    return sorted(found, key=lambda one: -_worth(one, rest))


def _jitted(miss: Miss, calls: Repeated, equations: int) -> Iterator[Advice]:
    """Advice to trace a function once. XLA inlines it and compiles the same as before."""
    alike = sum(miss.stages.get(stage, 0.0) for stage in (Stage.TRACE, Stage.LOWER))
    saved = alike * calls.saved / max(1, equations)
    if saved >= _MIN_SHARE * miss.seconds:
        own = calls.times * calls.equations
        yield Advice("jit", calls.frame, calls.times, own, calls.equations, saved)


def _disjoint(blocks: list[Unrolled]) -> list[Unrolled]:
    """The blocks that save most, without any that contains or lies in another one."""
    found: list[Unrolled] = []
    for block in sorted(blocks, key=lambda block: -block.saved):
        if not any(
            one.program == block.program
            and one.rows.start < block.rows.stop
            and block.rows.start < one.rows.stop
            for one in found
        ):
            found.append(block)
    return found


def _worth(advice: Advice, rest: float) -> float:
    """Seconds that the advice may save, for ranking.

    Args:
        advice: the advice.
        rest: seconds of the miss that are not known to be spent on anything else.
    """
    if advice.code in WAYS and advice.before:
        return rest * (1 - advice.after / advice.before)
    return advice.seconds


def _loop(block: Unrolled, seen: Sequence[Loop]) -> Frame | None:
    """The Python loop that a repeated block is an iteration of, or None if unknown."""
    found: list[Frame] = []  # innermost first
    for lines in block.around:
        inside = [
            loop
            for loop in seen
            if all(
                (line.file, line.first_line) == (loop.frame.file, loop.frame.first_line)
                and loop.frame.line <= line.line <= loop.end
                for line in lines
            )
        ]
        inside.sort(key=lambda loop: loop.end - loop.frame.line)
        found += [loop.frame for loop in inside]
    return next(iter(found[1:] if block.holds_loop else found), None)


def _outside(trace: tracing.TraceSummary) -> list[Advice]:
    """Code outside JAX that took a large part of the trace."""
    found: list[Advice] = []
    for row in trace.lines:
        for part, spent in row.parts:
            if part not in tracing.NOT_TRACING or spent < _MIN_OUTSIDE * trace.seconds:
                continue
            match part.value:
                case "equality":
                    found.append(Advice("equality", row.frame, seconds=spent))
                case "flatten":
                    found.append(Advice("flatten", row.frame, seconds=spent))
                case "garbage collection":
                    found.append(Advice("collection", row.frame, seconds=spent))
                case _:
                    found.append(Advice("python", row.frame, seconds=spent))
    return found


def _folding(compiling: Compiling | None) -> tuple[float, int]:
    """The seconds that XLA spent folding constants, and how often it started to."""
    found = [one for one in _passes(compiling) if one.name == FOLDING]
    return sum(one.seconds for one in found), sum(one.times for one in found)


def _passes(compiling: Compiling | None) -> Sequence[Pass]:
    return () if compiling is None else compiling.passes

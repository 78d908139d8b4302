"""All that is known of where one miss spent its seconds and its bytes."""

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

OVER = 5.0
"""A miss that takes this many seconds is slow, unless the recording says otherwise."""
_DEAR = 0.1
"""Of the whole miss, what is worth an advice."""
_MIN_CONSTANT_BYTES = 1 << 20
"""Smaller constants are not worth advice."""
_UNTRACED = 0.25
"""Of a trace, code outside JAX that is worth an advice."""
_MAX_ADVICE = 6
_HOLDS = 0.8
"""Of a compiled program's instructions, what one line must hold for the work that XLA does on the
whole program to be told on it."""


Code: TypeAlias = Literal[
    Way, "jit", "argument", "folding", "equality", "flatten", "python", "collection"
]


class Advice(NamedTuple):
    """Something to change, with what it rests on."""

    code: Code
    frame: Frame | None
    times: int = 0
    """Of an unrolled loop, its rounds; of a function, its calls."""
    before: int = 0
    """Equations now, or bytes."""
    after: int = 0
    seconds: float = 0.0
    """That were seen to be spent on it; 0 where that is not known."""


class Account(NamedTuple):
    """Where one miss went."""

    miss: Miss
    trace: tracing.Told | None
    compiling: Compiling | None
    constants: tuple[Constant, ...]
    unrolled: tuple[Unrolled, ...]
    repeated: tuple[Repeated, ...]
    nest: Nest | None
    heavy: tuple[Heavy, ...]
    folded: Folded | None
    """The line that made XLA compute on constants, where it took time and is one."""
    own: frozenset[tuple[str, int]]
    """The lines of the program, of libraries too; empty where they were not recorded."""
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
        """The steps by which code was made."""
        return [one for one in self._passes() if one.kind == "code"]

    @property
    def kernels(self) -> Sequence[Kernel]:
        """What became of the source lines, with the seconds that passed."""
        kernels = [one for one in self._all() if not self._is_foreign(one)]
        # The compiler's threads make code side by side: together they take more than passes.
        threads = sum(kernel.seconds for kernel in kernels)
        passed = sum(step.seconds for step in self.code)
        if not threads or threads <= passed:
            return kernels
        return [one._replace(seconds=one.seconds * passed / threads) for one in kernels]

    @property
    def foreign(self) -> Sequence[Kernel]:
        """What XLA says to be of lines that are none of the program's.

        JAX keeps the traces of its own functions. On releases before 0.7 the lines in them are of
        whichever program called them first.
        """
        return [one for one in self._all() if self._is_foreign(one)]

    def _all(self) -> Sequence[Kernel]:
        return () if self.compiling is None else by_line(self.compiling.kernels)

    def _is_foreign(self, one: Kernel) -> bool:
        return bool(self.own) and not one.function and (one.file, one.line) not in self.own

    @property
    def rest(self) -> float:
        """Seconds that XLA spent on the whole program outside its passes, and on no code."""
        return sum(one.seconds for one in self._passes() if one.kind == "other")

    @property
    def whole(self) -> tuple[Kernel, float] | None:
        """The line of nearly all instructions, and its share of what XLA does for the whole.

        That share is in seconds; None where there is no such line, or where no seconds are known.
        Many equal kernels are one piece of code, made once: what they cost is this.
        """
        made = sum(one.instructions for one in self.kernels)
        most = max(self.kernels, key=lambda one: one.instructions, default=None)
        if most is None or most.instructions < _HOLDS * made:
            return None
        spent = self.rest + sum(one.seconds for one in self.passes)
        if self.folded is not None:
            spent -= _folding(self.compiling)[0]
        return (most, spent * most.instructions / made) if spent > 0 else None

    @property
    def lines(self) -> Sequence[Kernel]:
        """The source lines that the compiler spent its time on, the most expensive first."""
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
        """Whether it was recorded where its seconds went."""
        return self.trace is not None or self.compiling is not None


def account(miss: Miss, recording: Recording) -> Account:
    """Where one miss went.

    Args:
        miss: of the recording.
        recording: whole, for what other misses of the same function and program tell.
    """
    slow = miss.slow
    listings = recording.listings
    listing = _listing(miss, listings)
    held = () if listing is None else tuple(constants(listing, listings))
    blocks = () if listing is None else tuple(unrolled([listing], listings))
    trace = None if slow is None or slow.tracing is None else tracing.told(slow.tracing)
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
    """A miss with the passes and lines that were seen when it was compiled again, if it was."""
    if anew.profiled is None or miss.slow is None:
        return miss
    return replace(miss, slow=miss.slow._replace(compiling=anew.profiled.compiling))


def slowest(misses: Iterable[Miss], over: float | None = OVER) -> list[Miss]:
    """The outermost misses that were slow, the slowest first.

    Args:
        misses: of a recording.
        over: from how many seconds on; None for what `--slow-over` said as each was recorded.
    """
    found = [miss for miss in misses if is_slow(miss, _over(miss) if over is None else over)]
    return sorted(found, key=lambda miss: -miss.seconds)


def _over(miss: Miss) -> float:
    return OVER if miss.slow is None or not miss.slow.over else miss.slow.over


def is_slow(miss: Miss, over: float = OVER) -> bool:
    """Whether a miss was slow by itself, or died where it was observed."""
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
    trace: tracing.Told | None,
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
        # Without its Python loop: those of its body and of its backward pass have equal rounds.
        loop = _loop(block, seen)
        rounds.setdefault(loop or block.times, []).append((block, loop))
    for same in [same for key, same in rounds.items() if isinstance(key, Frame)]:
        # What works on the results of a loop: `jnp.stack` has an equation for each.
        same += rounds.pop(max(block.times for block, _ in same), [])
    for same in rounds.values():
        saved = sum(block.saved for block in _apart([block for block, _ in same]))
        if saved >= _DEAR * equations:
            left = max(0, equations - saved)
            block, loop = max(same, key=lambda one: one[0].times)
            place = loop or same[0][0].place
            how = way([block for block, _ in same], listings)
            found.append(Advice(how, place, block.times, equations, left))
    # Of what is under several loops, the one that leaves the fewest equations.
    found.sort(key=lambda advice: advice.after)
    found = list({advice.frame: advice for advice in reversed(found)}.values())[::-1]
    if calls and calls[0].saved > max((one.before - one.after for one in found), default=0):
        found += _jitted(miss, calls[0], equations)
    spent, _ = _folding(compiling)
    if spent >= _DEAR * total:
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
    """To trace a function once: XLA inlines it, and compiles what it compiled before."""
    alike = sum(miss.stages.get(stage, 0.0) for stage in (Stage.TRACE, Stage.LOWER))
    saved = alike * calls.saved / max(1, equations)
    if saved >= _DEAR * miss.seconds:
        own = calls.times * calls.equations
        yield Advice("jit", calls.frame, calls.times, own, calls.equations, saved)


def _apart(blocks: list[Unrolled]) -> list[Unrolled]:
    """Those that save most, of each that holds others only itself."""
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
    """Seconds that an advice may save, to put several in order.

    Args:
        advice: to change something.
        rest: seconds of the miss that are known to be spent on nothing else.
    """
    if advice.code in WAYS and advice.before:
        return rest * (1 - advice.after / advice.before)
    return advice.seconds


def _loop(block: Unrolled, seen: Sequence[Loop]) -> Frame | None:
    """The Python loop of which a repeated block is a round; None where unknown."""
    found: list[Frame] = []  # the innermost first
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


def _outside(trace: tracing.Told) -> list[Advice]:
    """Code outside JAX that a trace ran for long."""
    found: list[Advice] = []
    for row in trace.lines:
        for part, spent in row.parts:
            if part not in tracing.NOT_TRACING or spent < _UNTRACED * trace.seconds:
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
    """The seconds that XLA computed on constants, and how often it began to."""
    found = [one for one in _passes(compiling) if one.name == FOLDING]
    return sum(one.seconds for one in found), sum(one.times for one in found)


def _passes(compiling: Compiling | None) -> Sequence[Pass]:
    return () if compiling is None else compiling.passes

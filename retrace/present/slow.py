"""Where one miss spent its seconds and bytes, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from retrace.costs.account import Account, account, slowest
from retrace.costs.growth import Growth
from retrace.costs.tracing import Row, outside_tracing
from retrace.model import Frame, Recording, Stage
from retrace.model.slow import Anew, Part
from retrace.present import slow_copies, slow_design
from retrace.present.layout import INDENT, Paint, plain, wrapped
from retrace.present.program import at
from retrace.present.slow_advice import advised, donation, size
from retrace.present.slow_anew import compiled_anew
from retrace.present.slow_compile import (
    MIN_SHARE,
    UNPROFILED,
    foreign,
    kernel_rows,
    passes,
)
from retrace.present.view import View
from retrace.present.words import (
    cells,
    clean,
    count,
    listed,
    padded,
    seconds,
    times,
)

_MAX_MISSES = 3
"""Maximum number of misses in a report."""
_MAX_LINES = 6
_MAX_PASSES = 5
_LEAST_CODE = 1000
"""Bytes of machine code that are told: for a GPU, XLA says 16 whatever it compiled."""

PARTS = {
    Part.PYTHON: "Python code, not tracing",
    Part.EQUALITY: "comparing values (`__eq__`, `__hash__`)",
    Part.FLATTEN: "flattening a pytree node",
    Part.COLLECTION: "Python collecting garbage",
    Part.PYTREES: "pytrees",
    Part.SHAPES: "shapes and dtypes",
    Part.DIFFERENTIATION: "differentiation",
    Part.TRANSPOSITION: "transposition (the backward pass)",
    Part.BATCHING: "vmap",
    Part.CONTROL_FLOW: "control flow",
    Part.LOWERING: "lowering",
    Part.CACHES: "JAX's caches",
    Part.RECORDING: "retrace's recording",
    Part.TRACING: "tracing",
}


def whole(
    view: View,
    one: Account,
    width: int = 80,
    paint: Paint = plain,
    again: Anew | None = None,
) -> Iterator[str]:
    """Everything about one miss, and what compiling it again showed."""
    yield from _heading(view, one, width, paint)
    yield from _trace(view, one, width, paint)
    yield from _compile(view, one, width, paint)
    yield from _lines(view, one, width, paint)
    for text in foreign(one):
        yield from _row("", text, width, paint)
    for label, texts in (
        ("constants", slow_design.constants(view, one)),
        ("unrolled", slow_design.unrolled(view, one)),
        ("repeated", slow_design.repeated(view, one)),
        ("nested", slow_design.nested(view, one)),
        ("heavy", slow_design.heavy(view, one)),
        ("memory", _memory(one)),
        ("growth", _growth(one)),
        ("advice", (advised(view, each) for each in one.advice)),
    ):
        for number, text in enumerate(texts):
            yield from _row(label if not number else "", text, width, paint)
    if again is not None:
        for label, text in compiled_anew(view, again):
            yield from _row(label, text, width, paint)
    if not one.was_observed:
        phrase = "the lines and passes behind these seconds were not recorded"
        # Nothing at all is recorded of the quickest.
        run = next((run for run in view.recording.runs if run.id == one.miss.run), None)
        known = run is not None and run.slow_from is not None
        how = "a smaller `--slow-over`" if known else "`retrace run --slow`"
        yield from _row("note", f"{phrase}: record with {how}", width, paint)


def accounts(view: View) -> list[Account]:
    """The slowest misses for which it was recorded where their seconds went."""
    misses = [verdict.miss for verdict in view.verdicts]
    observed = [miss for miss in misses if miss.slow is not None]
    return [account(miss, _all(view)) for miss in slowest(observed, None)[:_MAX_MISSES]]


def _all(view: View) -> Recording:
    """The recording with the misses kept for it: of a large one, those to be shown."""
    misses = [verdict.miss for verdict in view.verdicts]
    return replace(view.recording, misses=misses)


def section(view: View, width: int = 80, paint: Paint = plain) -> Iterator[str]:
    """The section of a report; nothing if nothing was observed."""
    found = accounts(view)
    if found:
        yield from _slowest(view, found, width, paint)
    yield from slow_copies.section(view, width, paint)


def _slowest(view: View, found: Sequence[Account], width: int, paint: Paint) -> Iterator[str]:
    text = f"{count(len(found), 'slow miss', 'slow misses')}: `retrace slow ID` shows all"
    yield paint(text, "bold")
    for one in found:
        yield from brief(view, one, width, paint)


def brief(view: View, one: Account, width: int = 80, paint: Paint = plain) -> Iterator[str]:
    """One miss in a report: its stages, and what cost most in each."""
    yield from _heading(view, one, width, paint)
    rows = (_trace_rows(view, one), passes(view, one), kernel_rows(view, one))
    for label, spent, text in (first for row in rows for first in islice(row, 1)):
        yield from _spent(label, spent, text, width, paint)
    for each in one.advice[:1]:
        yield from _row("advice", advised(view, each), width, paint)


def _heading(view: View, one: Account, width: int, paint: Paint) -> Iterator[str]:
    miss = one.miss
    stages = [
        f"{stage.value} {seconds(miss.stages[stage])}" for stage in Stage if stage in miss.stages
    ]
    text = f"{view.label(miss)}   {seconds(miss.seconds)}: {', '.join(stages)}"
    if miss.in_flight is not None:
        text += f", was in its {miss.in_flight.value} when the recording ended"
    where = view.place(miss)
    gap = width - cells(text) - cells(where)
    if gap >= 2:
        yield paint(text, "bold") + " " * gap + where
        return
    first, *rest = wrapped(text, width, 4)
    yield paint(first, "bold")
    yield from rest
    yield " " * max(0, width - cells(where)) + where


def _row(label: str, text: str, width: int, paint: Paint, hang: int = 0) -> Iterator[str]:
    for number, part in enumerate(wrapped(text, width - INDENT, hang)):
        shown = padded(label if not number else "", INDENT - 2)
        yield f"  {paint(shown, 'dim')}{part}".rstrip()


def _spent(label: str, spent: str, text: str, width: int, paint: Paint) -> Iterator[str]:
    column = 9
    parts = wrapped(text, width - INDENT - column - 3, 2)
    for number, part in enumerate(parts):
        shown = padded(label if not number else "", INDENT - 2)
        figure = f"{spent:>{column}}" if not number else " " * column
        yield f"  {paint(shown, 'dim')}{figure}   {part}".rstrip()


def _trace(view: View, one: Account, width: int, paint: Paint) -> Iterator[str]:
    trace = one.trace
    if trace is None:
        return
    rows = list(_trace_rows(view, one))
    for label, spent, text in rows[:_MAX_LINES]:
        yield from _spent(label, spent, text, width, paint)
    left = sum(row.seconds for row in trace.lines[_MAX_LINES:])
    if left >= MIN_SHARE * trace.seconds:
        more = count(len(trace.lines) - _MAX_LINES, "more line")
        yield from _spent("", seconds(left), more, width, paint)
    if trace.waited >= MIN_SHARE * (trace.seconds + trace.waited):
        yield from _spent("", seconds(trace.waited), "before the first sample", width, paint)
    for function, spent in trace.functions[:_MAX_LINES]:
        largest = trace.lines[0].seconds if trace.lines else 0.0
        if spent > 1.1 * largest and not _is_own(one, function):
            text = f"in all in {clean(function.function, 32)}, {_at(view, function)}"
            yield from _spent("", seconds(spent), text, width, paint)
            break
    outside = outside_tracing(trace.parts)
    if outside >= 0.1 * trace.seconds:
        share = f"{100 * outside / trace.seconds:.0f} % of the samples"
        text = f"{share}: code outside JAX, run while it traced"
        yield from _spent("", seconds(outside), text, width, paint)
    if trace.collections:
        full = f"Python collected all garbage {times(trace.collections)} meanwhile"
        yield from _spent("", "", full, width, paint)
    if not trace.ended:
        yield from _spent("", "", "until the process died during it", width, paint)


def _is_own(one: Account, function: Frame) -> bool:
    own = one.miss.function
    return (own.file, own.line) == (function.file, function.first_line)


def _trace_rows(view: View, one: Account) -> Iterator[tuple[str, str, str]]:
    trace = one.trace
    if trace is None:
        return
    label = "trace"
    for row in trace.lines:
        if row.seconds < MIN_SHARE * trace.seconds:
            return
        yield label, seconds(row.seconds), _line(view, one, row)
        label = ""


def _line(view: View, one: Account, row: Row) -> str:
    done = [PARTS[part] for part, spent in row.parts[:2] if spent >= row.seconds / 4]
    if row.frame is None:
        return f"outside all lines: {listed(done) or PARTS[Part.TRACING]}"
    text = f"{_at(view, row.frame)}  {clean(row.frame.function, 32)}"
    rounds = _rounds(one, row.frame)
    if rounds:
        text += f", {rounds:,} times in a Python loop"
    if row.under is not None:
        text += f", under {_at(view, row.under)}"
    if row.inside is not None:
        text += f", in {_at(view, row.inside)}"
    return f"{text}: {listed(done)}" if done and done != [PARTS[Part.TRACING]] else text


def _rounds(one: Account, frame: Frame) -> int:
    found = [
        block.times
        for block in one.unrolled
        if block.place is not None
        and (block.place.file, block.place.line) == (frame.file, frame.line)
    ]
    return max(found, default=0)


def _at(view: View, frame: Frame) -> str:
    return at(view, frame)


def _compile(view: View, one: Account, width: int, paint: Paint) -> Iterator[str]:
    compiling = one.compiling
    if compiling is None:
        return
    rows = list(passes(view, one))
    for label, spent, text in rows[: _MAX_PASSES + 1]:
        yield from _spent(label, spent, text, width, paint)
    if compiling.unprofiled is not None:
        why = UNPROFILED.get(compiling.unprofiled, "it was not profiled")
        yield from _row("compile", f"passes unknown: {why}", width, paint)
    if compiling.beside:
        yield from _row("", "other threads compiled meanwhile, included here", width, paint)


def _lines(view: View, one: Account, width: int, paint: Paint) -> Iterator[str]:
    for label, spent, text in list(kernel_rows(view, one))[:_MAX_PASSES]:
        yield from _spent(label, spent, text, width, paint)


def _memory(one: Account) -> Iterator[str]:
    if (memory := one.memory) is not None:
        texts = [
            f"{name} {size(value)}"
            for name, value, least in (
                ("arguments", memory.arguments, 1),
                ("outputs", memory.outputs, 1),
                ("temporaries", memory.temporaries, 1),
                ("code", memory.code, _LEAST_CODE),
            )
            if value >= least
        ]
        yield ", ".join(texts) if texts else "nothing notable"
    if one.donated is not None:
        yield donation(one.donated)
    if one.copies is not None:
        yield f"the same program was compiled {slow_copies.summary(one.copies)}"


def _growth(one: Account) -> Iterator[str]:
    for found in one.growth:
        points = listed(
            [f"{point.equations:,}: {seconds(point.seconds)}" for point in found.points], 5
        )
        yield f"{law(found)} ({points})"


def law(found: Growth) -> str:
    """`compile time grows with the square of n_layers`."""
    stage = f"{found.stage.value} time"
    if found.by is not None and found.by_power is not None:
        return f"{stage} grows {_power(found.by_power)} `{clean(found.by, 32)}`"
    if found.power is None:
        return f"{stage} follows no single power of the number of equations"
    return f"{stage} grows {_power(found.power)} the number of equations"


def _power(power: float) -> str:
    if abs(power) < 0.15:
        return "hardly with"
    if abs(power - 1) < 0.15:
        return "in proportion to"
    if abs(power - 2) < 0.15:
        return "with the square of"
    return f"with the power {power:.1f} of"

"""What compiling a slow program again showed, in words."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.model.slow import Anew, Halved, Tried
from retrace.present.view import View
from retrace.present.words import clean, count, listed, place, seconds

_MAX_LINES = 4
_STAND_INS = "its constants are stand-ins: shapes and dtypes are as recorded, contents are not"


def compiled_anew(view: View, again: Anew) -> Iterator[tuple[str, str]]:
    """Rows with their labels; a continued row has none."""
    if again.profiled is not None:
        spent = seconds(again.profiled.seconds)
        yield "again", f"compiled alone in {spent}: the passes and lines above are from that"
    label = "tried"
    for one in again.tried:
        yield label, _tried(one, again.tried[0])
        label = ""
    if again.halved is not None:
        label = "part"
        for text in _halved(view, again.halved):
            yield label, text
            label = ""
    if again.reproducer is not None:
        yield "script", f"{clean(again.reproducer)} compiles it alone and needs only jax"
    if again.stand_ins:
        yield "note", _STAND_INS


def _tried(one: Tried, without: Tried) -> str:
    spent = listed([seconds(each) for each in one.seconds])
    text = f"{spent} ({seconds(min(one.processor))} of processors)"
    if one.flags is None:
        return f"{text} as recorded, on its own"
    share = min(one.processor) / max(min(without.processor), 1e-9)
    return f"{text} with {clean(one.flags)}: {100 * share:.0f} % of the processor time"


def _halved(view: View, halved: Halved) -> Iterator[str]:
    part, whole = halved.part, halved.whole
    tries = count(len(halved.steps), "part was", "parts were")
    if part == whole:
        yield f"no part takes most of its seconds: it is slow as a whole ({tries} compiled)"
    else:
        what = listed([f"{clean(name, 32)} ({number:,})" for name, number in halved.kinds], 4)
        yield (
            f"{count(part.operations, 'operation')} of {whole.operations:,} alone: "
            f"{seconds(part.seconds)} of {seconds(whole.seconds)} ({tries} compiled): {what}"
        )
    for file, line, number in halved.lines[:_MAX_LINES]:
        yield f"{place(file, line, view.bases)}  {count(number, 'operation')}"

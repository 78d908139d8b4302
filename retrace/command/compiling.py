"""`retrace slow --again`, `--bisect`, `--reproducer`, `--try`: compiles a program again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrace.command import output
from retrace.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from retrace.model import Miss
    from retrace.model.slow import Anew
    from retrace.present.view import View
    from retrace.rebuilt.script import Recorded

_WHY_NOT_KEPT = {
    "size": "it was too large",
    "room": "earlier programs had used up the space",
    "data": "it contains data that could not be removed",
    "redacted": "the recording is redacted",
}


def anew(
    view: View,
    miss: Miss,
    *,
    again: bool,
    bisect: bool,
    reproducer: Path | None,
    tries: Sequence[str],
) -> Anew:
    """Compile a miss's program again as requested, in separate processes.

    Raises:
        UnreadableError: the recording does not contain what compiling it again needs.
        UsageError: it cannot be compiled, or the file cannot be written.
    """
    from retrace.model.slow import Anew
    from retrace.rebuilt.asking import halved, profiled
    from retrace.rebuilt.script import script, stand_ins
    from retrace.rebuilt.trying import tried

    recorded = _recorded(view, miss)
    found = Anew(stand_ins=stand_ins(recorded.text))
    if again:
        found = found._replace(profiled=profiled(recorded))
    if tries:
        found = found._replace(tried=tuple(tried(recorded, tries)))
    if bisect:
        found = found._replace(halved=halved(recorded))
    if reproducer is not None:
        part = found.halved
        output.write(reproducer, [script(recorded, part)])
        written = stand_ins(recorded.text if part is None else part.text)
        found = found._replace(reproducer=str(reproducer), written_stand_ins=written)
    return found


def _recorded(view: View, miss: Miss) -> Recorded:
    from retrace.rebuilt.script import Recorded
    from retrace.store.slow import unpack

    label = view.label(miss)
    module = None if miss.slow is None else miss.slow.module
    run = next((run for run in view.recording.runs if run.id == miss.run), None)
    if module is None:
        over = None if run is None else run.slow_from
        how = (
            "with `retrace run --slow`" if over is None else f"with a --slow-over below {over:g}"
        )
        raise UnreadableError(f"the program of {label} was not kept: record it {how}")
    if module.unkept is not None:
        why = _WHY_NOT_KEPT.get(module.unkept, "it could not be kept")
        raise UnreadableError(f"the program of {label} was not kept: {why}")
    try:
        text = unpack(module)
    except ValueError as error:
        raise UnreadableError(f"the program of {label} cannot be read: {error}") from None
    if run is None:
        raise UsageError(f"the recording does not describe the process of {label}")
    return Recorded(label, text, module, run, miss)

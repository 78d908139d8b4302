"""What a command line means: recordings, one of their misses, those of a function or cause."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrace import console
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.model import Verdict
    from retrace.present.view import View


def nearest(text: str, known: Iterable[str]) -> str:
    """A guess at what was meant, to stand behind a complaint; empty where there is none."""
    from difflib import get_close_matches

    close = get_close_matches(text[:80], list(dict.fromkeys(known)), 1, 0.5)
    return f", did you mean {close[0]}?" if close else ""


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Raises UsageError where an option was given what it does not know."""
    if value not in known:
        guess = nearest(value, known) or f", choose from {', '.join(known)}"
        raise UsageError(f"{option} does not know {value!r}{guess}")


def read_view(directories: list[Path], *, redact: bool = False) -> View:
    """What was recorded, explained; the newest recording where none is named."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.place import newest
    from retrace.store.reader import read

    recording = read(directories or [newest()])
    if redact:
        from retrace.store.redaction import Redaction
        from retrace.store.roots import project_folders

        recording = Redaction(project_folders(console.here())).recording(recording)
    return View(recording, judge(recording), console.here())


def read_at_last(directories: list[Path], *, redact: bool = False) -> View:
    """As `read_view`, in a process that shows what was read and ends."""
    view = read_view(directories, redact=redact)
    # To free them one by one took a tenth of a report's time: a ring is left to the exit.
    kept: list[object] = [view]
    kept.append(kept)
    gc.freeze()
    return view


def selected(view: View, function: str | None, cause: str | None) -> list[Verdict]:
    """The misses of one function, or of one cause; raises UsageError on an unknown name."""
    verdicts = view.verdicts
    if function is not None:
        verdicts = [
            verdict
            for verdict in verdicts
            if function in (f := verdict.miss.function).qualname.split(".<locals>.")
            or function in (f.name, f.jax_name, f.qualname)
        ]
        if not verdicts:
            names = [verdict.miss.function.name for verdict in view.verdicts]
            raise UsageError(
                f"nothing was recorded of a function {function!r}{nearest(function, names)}"
            )
    return [v for v in verdicts if cause is None or v.cause.value == cause]


def found_miss(view: View, text: str) -> Verdict:
    """The miss that an id or a label means; raises UsageError where there is not just one."""
    found = view.find(text)
    if len(found) == 1:
        return found[0]
    if found:
        named = [f"{verdict.miss.id} ({view.label(verdict.miss)})" for verdict in found[:4]]
        more = f" and {len(found) - 4:,} more" if len(found) > 4 else ""
        raise UsageError(f"{text!r} may mean {', '.join(named)}{more}: name one by its id")
    labels = [label for v in view.verdicts for label in (view.short_label(v.miss), v.miss.id)]
    guess = nearest(text, labels) or "; `retrace report` lists the misses"
    raise UsageError(f"no miss {text!r} in this recording{guess}")

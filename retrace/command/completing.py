"""Shell completion: causes, formats, functions, ids and labels of misses.

Nothing is offered if reading would take too long for a Tab, and errors are ignored: the command
itself will report them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.present.view import View

_MAX_BYTES = 1 << 23
"""Larger recordings are not read."""
_MAX_OFFERED = 200

Completions = list[tuple[str, str]]


def among(*known: str) -> Callable[[str], list[str]]:
    """Complete one of a fixed set of values."""
    return lambda incomplete: [one for one in known if one.startswith(incomplete)]


def causes(incomplete: str) -> Completions:
    """The cause codes, each with its meaning."""
    from retrace.causes import Cause
    from retrace.present.glossary import CAUSES

    return [(c.value, CAUSES[c]) for c in Cause if c.value.startswith(incomplete)]


def functions(ctx: Any, incomplete: str) -> list[str]:
    """The functions that missed in the named recordings, or in the newest one."""
    view = _view(ctx)
    names = view.names if view is not None else ()
    return [name for name in names if name.startswith(incomplete)][:_MAX_OFFERED]


def misses(ctx: Any, incomplete: str) -> Completions:
    """Ids, and labels without the space, which the shell would take for the end of a word."""
    view = _view(ctx)
    return [] if view is None else [*_misses(view, incomplete)][:_MAX_OFFERED]


def _misses(view: View, incomplete: str) -> Iterator[tuple[str, str]]:
    for verdict in view.verdicts:
        label = view.short_label(verdict.miss).replace(" #", "#")
        said = f"{verdict.cause.value}, {view.place(verdict.miss)}"
        # Labels first; ids only once the user has started to type one.
        for name in (label, verdict.miss.id):
            if name.startswith(incomplete) and (incomplete or name is label):
                yield name, said


def _view(ctx: Any) -> View | None:
    from retrace.command.selection import read_at_last, total_size
    from retrace.store.place import newest

    several = cast(list[Path] | None, ctx.params.get("directories"))
    one = cast(Path | None, ctx.params.get("directory"))
    paths = [Path(path) for path in several or ([one] if one is not None else [])]
    try:
        paths = paths or [newest()]
        return None if total_size(paths) > _MAX_BYTES else read_at_last(paths)
    except RetraceError:
        return None

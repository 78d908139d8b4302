"""What the shell offers behind a Tab: causes, formats, functions, ids and labels of misses.

Nothing is offered where reading would take longer than somebody waits for a Tab, and nothing is
complained of: the command itself will say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.present.view import View

_LARGEST = 1 << 23
"""Bytes of a recording that is read for it."""
_MOST = 200

Offered = list[tuple[str, str]]


def among(*known: str) -> Callable[[str], list[str]]:
    """Offers what an option knows."""
    return lambda incomplete: [one for one in known if one.startswith(incomplete)]


def causes(incomplete: str) -> Offered:
    """The codes of the causes, each with what it means."""
    from retrace.causes import Cause
    from retrace.present.glossary import CAUSES

    return [(c.value, CAUSES[c]) for c in Cause if c.value.startswith(incomplete)]


def functions(ctx: Any, incomplete: str) -> list[str]:
    """The functions that missed in the recordings that are named, or in the newest."""
    view = _view(ctx)
    names = view.names if view is not None else ()
    return [name for name in names if name.startswith(incomplete)][:_MOST]


def misses(ctx: Any, incomplete: str) -> Offered:
    """Ids, and labels without the blank, which a shell would take for the end of a word."""
    view = _view(ctx)
    return [] if view is None else [*_misses(view, incomplete)][:_MOST]


def _misses(view: View, incomplete: str) -> Iterator[tuple[str, str]]:
    for verdict in view.verdicts:
        label = view.short_label(verdict.miss).replace(" #", "#")
        said = f"{verdict.cause.value}, {view.place(verdict.miss)}"
        # As they are known: by labels first, by ids where one has been begun.
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
        return None if total_size(paths) > _LARGEST else read_at_last(paths)
    except RetraceError:
        return None

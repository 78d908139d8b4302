"""The user's own files in the page, with the cost of each line in the margin.

A recording holds single lines and names of files. A file is only shown whole if it is below the
reader's own folder and still has every recorded line in its place. Another file, or one edited
since, would show costs next to code that never ran, and a recording from somebody else could ask
for any file. In all other cases only the recorded lines are shown.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retrace.causes import Cause
from retrace.model import CallSite, Verdict
from retrace.present.markup import text
from retrace.present.view import View
from retrace.present.words import clean, count, place, seconds
from retrace.store import files

_MAX_BYTES = 1 << 19
_MAX_FILES = 12
"""Maximum number of files shown, most expensive first."""
_MAX_WHOLE_LINES = 800
"""Maximum number of lines of a file that is shown whole; otherwise only around costly lines."""
_CONTEXT = 6
_MAX_WIDTH = 300
"""Maximum length of a line."""


@dataclass(slots=True)
class _Line:
    source: str
    seconds: float = 0.0
    misses: int = 0
    causes: Counter[Cause] = field(default_factory=Counter[Cause])
    groups: dict[str, None] = field(default_factory=dict[str, None])
    avoidable: int = 0


class Sources:
    """What the user's lines cost: calls and eager operations that missed there."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, _Line]] = {}

    def add(self, view: View, portion: Sequence[Verdict], anchors: Sequence[str | None]) -> None:
        """Add misses that were not added yet.

        Args:
            view: the whole recording.
            portion: the misses.
            anchors: for each miss, where the page explains it.
        """
        for verdict, anchor in zip(portion, anchors, strict=True):
            site = _site(verdict)
            if site is None or site.in_library or not site.line:
                continue
            own = self._files.setdefault(site.file, {})
            line = own.setdefault(site.line, _Line(site.source or ""))
            line.misses += 1
            line.causes[verdict.cause] += 1
            line.avoidable += verdict.avoidable == "yes"
            if anchor is not None:
                line.groups[anchor] = None
            # A trace inside a call of the same line is part of that call's seconds.
            around = (view.by_id.get(outer.id) for outer in view.outward(verdict.miss))
            where = ((_site(one) if one is not None else None) for one in around)
            if not any(at and (at.file, at.line) == (site.file, site.line) for at in where):
                line.seconds += verdict.miss.seconds

    def html(self, view: View) -> Iterator[str]:
        """The files, most expensive first."""
        spent = {
            file: sum(line.seconds for line in lines.values())
            for file, lines in self._files.items()
        }
        ordered = sorted(spent, key=lambda file: -spent[file])
        if not ordered:
            return
        yield (
            '<p class="quiet">Seconds each line waited for JAX, including nested traces. '
            "Press <kbd>n</kbd> or <kbd>p</kbd> for the next or previous line with misses."
            "</p>"
        )
        for number, file in enumerate(ordered[:_MAX_FILES]):
            yield from _file(view, number, file, self._files[file])
        if (more := len(ordered) - _MAX_FILES) > 0:
            yield f"<p>and {count(more, 'more file')}</p>"


def _site(verdict: Verdict) -> CallSite | None:
    return verdict.miss.entry or verdict.miss.call_site


def _file(view: View, number: int, file: str, known: dict[int, _Line]) -> Iterator[str]:
    whole = _read(view, file, known)
    lines = whole or {line: one.source for line, one in known.items()}
    named = place(file, None, view.bases) if file else "?"
    is_open = " open" if number == 0 else ""
    most = max(one.seconds for one in known.values())
    misses = sum(one.misses for one in known.values())
    beside = "" if whole else ", recorded lines only"
    phrase = f"{count(len(known), 'line')}, {count(misses, 'miss', 'misses')}{beside}"
    yield f'<details class="file"{is_open}><summary><code>{text(named)}</code> '
    yield f'<span class="at">{text(phrase)}</span></summary>'
    yield '<table class="source"><thead><tr><th scope="col">seconds</th>'
    yield '<th scope="col">line</th><th scope="col">source</th>'
    yield '<th scope="col">misses and causes</th></tr></thead><tbody>'
    last = 0
    for line in _shown(lines, known):
        if line != last + 1 and last:
            yield '<tr class="gap"><td></td><td>...</td><td></td><td></td></tr>'
        last = line
        source = text(clean(lines[line].rstrip().expandtabs(4), _MAX_WIDTH))
        if (one := known.get(line)) is None:
            yield f'<tr><td></td><td class="number">{line}</td><td>{source}</td><td></td></tr>'
            continue
        heat = 3 if one.seconds > most / 2 else 2 if one.seconds > most / 10 else 1
        yield f'<tr class="cost-{heat}" id="line-{number}-{line}" '
        yield f'data-line="{text(file)}:{line}" tabindex="-1"><td class="number">'
        yield f'{seconds(one.seconds)}</td><td class="number">{line}</td><td>{source}</td>'
        yield f"<td>{_margin(one)}</td></tr>"
    yield "</tbody></table></details>"


def _margin(line: _Line) -> str:
    causes = ", ".join(
        cause.value + (f" &times;{number:,}" if number > 1 else "")
        for cause, number in line.causes.most_common()
    )
    anchor = next(iter(line.groups), None)
    phrase = f'<a href="#{anchor}">{causes}</a>' if anchor else causes
    avoidable = f"; {line.avoidable:,} avoidable" if line.avoidable else ""
    return f"{phrase}{avoidable}"


def _shown(lines: dict[int, str], known: dict[int, _Line]) -> list[int]:
    if len(lines) <= _MAX_WHOLE_LINES:
        return sorted(lines)
    near = {at + step for at in known for step in range(-_CONTEXT, _CONTEXT + 1)}
    return sorted(near & lines.keys())


def _read(view: View, file: str, known: dict[int, _Line]) -> dict[int, str] | None:
    """The lines of a file, from 1; None unless it is certainly the one that ran."""
    here = view.bases[0]
    recorded = {line: one.source.strip() for line, one in known.items()}
    if not here or not file.endswith(".py") or not all(recorded.values()):
        return None
    try:
        inside = os.path.realpath(here)
        if os.path.commonpath([inside, os.path.realpath(file)]) != inside:
            return None
        data = files.content(Path(file), _MAX_BYTES).decode()
    except (OSError, ValueError):
        return None
    found = dict(enumerate(data.split("\n"), 1))
    same = all(found.get(line, "").strip() == phrase for line, phrase in recorded.items())
    return found if same else None

"""`retrace diff`: compares two misses or two recordings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retrace.command import console
from retrace.command.finding import found_in
from retrace.command.options import DONE, FOUND
from retrace.command.selection import at_last, given, one_of
from retrace.errors import UsageError
from retrace.store.remote import is_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retrace.model import Run, Verdict
    from retrace.present.view import View
    from retrace.store.shared import Shared

_FORMATS = ("text", "json", "markdown")


class Source(NamedTuple):
    """A recording: its directory and the attempt in it."""

    path: Path
    attempt: int | None = None

    @property
    def name(self) -> str:
        said = str(self.path)
        return said if self.attempt is None else f"{said}, attempt {self.attempt}"


def diff(
    old: Annotated[
        str | None,
        typer.Argument(metavar="A", help="A recording (DIR), or a miss (its id, or DIR:ID)."),
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="B", help="What to compare A with, of the same kind.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="STEPS",
            help="Steps of A's plan that B applied (2, or 1-3); exit 1 if B saves less.",
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            "--recording", metavar="DIR", help="Where to look up ids (default: the newest)."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Output format.")
    ] = "text",
) -> int:
    """Compare two misses or two recordings (default: the latest two).

    Given one DIR, compares its last two attempts.

    Examples:  retrace diff before/ after/;  retrace diff before/ after/ --expect 1-2;
    retrace diff monday:'step #1' friday:'step #1'
    """
    from retrace.compare.deep import skip_heavy_imports

    skip_heavy_imports()
    one_of("--format", format, _FORMATS)
    sources = _sources(old, new)
    if sources is not None:
        return _recordings(sources[0], sources[1], expect, format)
    if expect is not None:
        raise UsageError("--expect compares two recordings: name two directories")
    assert old is not None
    if new is None:
        raise UsageError("name two misses, two recordings, one directory, or nothing")
    sides = at_last([_miss(text, recording) for text in (old, new)])
    return _misses(sides[0], sides[1], format)


def _sources(old: str | None, new: str | None) -> tuple[Source, Source] | None:
    """The recordings to compare; None if the arguments name misses."""
    if old is None:
        from retrace.store.place import recordings

        last = [path for _, path in zip(range(2), recordings(), strict=False)]
        if len(last) == 1:
            return _attempts(last[0])
        if not last:
            raise UsageError("no recording under .retrace/: name two directories or two ids")
        return Source(last[1]), Source(last[0])
    if new is None:
        return _attempts(Path(old)) if _exists(old) else None
    if _exists(old) and _exists(new):
        return Source(Path(old)), Source(Path(new))
    if _exists(old) or _exists(new):
        there, missing = (old, new) if _exists(old) else (new, old)
        raise UsageError(f"{there} is a recording, but there is nothing at {missing}")
    return None


def _exists(name: str) -> bool:
    return os.path.exists(name) or is_address(name)


def _attempts(directory: Path) -> tuple[Source, Source]:
    """The last two attempts in a directory."""
    from retrace.store.processes import attempts_of

    found = attempts_of(directory)
    if len(found) < 2:
        raise UsageError(
            f"{directory} has only one attempt: name a second recording to compare it with"
        )
    return Source(directory, found[-2]), Source(directory, found[-1])


def read(source: Source, *, whole: bool, shared: Shared | None = None) -> View:
    """Read a recording and explain it, process by process.

    Args:
        source: the recording.
        whole: keep complete verdicts, as a plan needs them.
        shared: parts to share with a recording that was read before.
    """
    from retrace.model import Recording
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.runs.bare import Bare
    from retrace.store.reader import read_each

    view = View(Recording([], []), [], console.here())
    recording, bare = view.recording, Bare()
    for part in read_each([source.path], attempt=source.attempt, shared=shared):
        recording.runs += part.runs
        recording.misses += part.misses
        recording.audits += part.audits
        recording.listings = part.listings
        view.add(judge(part) if whole else bare.judged(part))
    return view


def _recordings(old: Source, new: Source, expect: str | None, format: str) -> int:
    from retrace.present import expected as promised
    from retrace.present import report_json, runs, runs_json
    from retrace.runs.difference import difference
    from retrace.runs.expected import expected
    from retrace.runs.sides import Side
    from retrace.store.shared import Shared

    whole, shared = expect is not None, Shared()
    views = at_last([read(source, whole=whole, shared=shared) for source in (old, new)])
    _check_hidden(run for view in views for run in view.recording.runs)
    sides = [
        Side(view.recording, view.verdicts, source.name)
        for view, source in zip(views, (old, new), strict=True)
    ]
    found = difference(sides[0], sides[1])
    plan = None if expect is None else expected(found, expect)
    status = DONE if plan is None or plan.came_true else FOUND
    if format == "json":
        fields = runs_json.to_json(found, views[1])
        if plan is not None:
            fields["expected"] = promised.to_json(plan)
        console.write(report_json.encode(fields), None)
        return status
    summary = runs.report(found, views[0], views[1])
    if plan is not None:
        own = promised.section(plan, views[0], views[1])
        summary = summary._replace(sections=[own, *summary.sections])
    if format == "markdown":
        console.write(runs.markdown(summary), None)
    else:
        width, paint = console.terminal(sys.stdout)
        console.write(runs.text(summary, width, paint), None)
    return status


def _check_hidden(runs: Iterable[Run]) -> None:
    """Raise UsageError if the runs were redacted with different keys: nothing would be equal."""
    if len({run.hidden_under for run in runs}) > 1:
        raise UsageError(
            "recordings redacted with different keys cannot be compared: all values and programs "
            "would differ; record both with --redact-key FILE, or neither with --redact"
        )


def _miss(text: str, recording: Path | None) -> tuple[View, Verdict]:
    """The miss named by `ID` or `DIR:ID`, and its recording."""
    directory, mark, name = text.rpartition(":")
    if mark and _exists(directory):
        return found_in([Path(directory)], name)
    return found_in(given([recording]), text)


def _misses(old: tuple[View, Verdict], new: tuple[View, Verdict], format: str) -> int:
    from retrace.present import report_json, two_misses

    _check_hidden(
        run for view, one in (old, new) for run in view.recording.runs if run.id == one.miss.run
    )
    found = two_misses.compared(old, new)
    if format == "json":
        console.write(report_json.encode(two_misses.json(found)), None)
    elif format == "markdown":
        console.write(two_misses.markdown(found), None)
    else:
        width, paint = console.terminal(sys.stdout)
        console.write(two_misses.text(found, width, paint), None)
    return DONE

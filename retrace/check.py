"""`retrace check`, and what is said to GitHub: recordings held to a project's budgets."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retrace import console
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.config import Settings
    from retrace.model import Verdict
    from retrace.present.view import View

_FORMATS = ("text", "github")


def check(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings, read as one; the newest otherwise."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Not the nearest pyproject.toml."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="How to write it.")
    ] = "text",
) -> int:
    """Compare with the budgets in pyproject.toml; exit 1 and explain each excess.

    Example:  retrace check .retrace/ci --format github
    """
    from retrace.budget import nearest
    from retrace.config import find, load

    if format not in _FORMATS:
        guess = nearest(format, _FORMATS) or f", choose from {', '.join(_FORMATS)}"
        raise UsageError(f"--format does not know {format!r}{guess}")
    settings = load(config if config is not None else find(Path.cwd()))
    view = _read(directories or [])
    for said in unmatched(view, settings):
        console.say(said)
    found = exceeded(view, settings)
    if format == "github":
        console.write(to_github(view, found.verdicts), None, commands=True)
        for head in found.heads:
            console.say(head)
    elif found.heads:
        from retrace.present.guard import explanation

        width, _ = console.terminal(sys.stdout)
        console.write(f"{explanation(view, found.heads, found.verdicts, width)}\n", None)
    if not found.heads:
        number = len(settings.budgets)
        console.say(f"{number:,} budget{'s' if number > 1 else ''} held")
    return 1 if found.heads else 0


class Exceeded(NamedTuple):
    """What is over its budget."""

    heads: list[str]
    verdicts: list[Verdict]


def exceeded(view: View, settings: Settings) -> Exceeded:
    """What exceeds the budgets; each process is held to them by itself."""
    from retrace.budget import excesses

    heads: dict[str, None] = {}
    ids: set[str] = set()
    for run in view.recording.runs:
        verdicts = [verdict for verdict in view.verdicts if verdict.miss.run == run.id]
        for pattern, budget in settings.budgets.items():
            for excess in excesses(view, verdicts, budget):
                heads[f'{excess.text} (budget "{pattern}")'] = None
                ids.update(verdict.miss.id for verdict in excess.verdicts)
    return Exceeded(list(heads), [v for v in view.verdicts if v.miss.id in ids])


def unmatched(view: View, settings: Settings) -> list[str]:
    """What to say of budgets whose pattern nothing in the recording has."""
    from retrace.budget import names, nearest

    functions = [verdict.miss.function for verdict in view.verdicts]
    said: list[str] = []
    for pattern, budget in settings.budgets.items():
        if not any(map(budget.matches, functions)):
            guess = nearest(pattern, [name for f in functions for name in names(f)])
            said.append(f'the budget "{pattern}" matches nothing that was recorded{guess}')
    return said


def to_github(view: View, verdicts: Sequence[Verdict]) -> str:
    """Annotations for GitHub; where it gave a file for the summary of the step, a table there."""
    from retrace.present import github, markdown

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(markdown.report(view, verdicts))
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            console.say(f"cannot write to $GITHUB_STEP_SUMMARY: {reason}")
    return github.report(view, verdicts)


def _read(directories: list[Path]) -> View:
    from retrace.live import here
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.place import newest
    from retrace.store.reader import read

    recording = read(directories or [newest()])
    return View(recording, judge(recording), here())

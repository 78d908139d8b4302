"""Output for GitHub Actions: annotations on stdout and a step summary."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from retrace.command import console
from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.present.tally import Tally
    from retrace.present.view import View


def annotate(
    view: View,
    tally: Tally,
    over: Mapping[str, str] | None = None,
    heads: Sequence[str] | None = None,
) -> str:
    """Make the annotations; also write a table to the step summary, if GitHub has one.

    Args:
        view: the whole recording.
        tally: the misses to report.
        over: the misses that are errors, each with the exceeded limit in a few words.
        heads: what a check found, one line each; None outside a check.
    """
    from retrace.present import github, markdown

    if heads is None:
        _summarise(markdown.report(view, tally))
    else:
        _summarise(markdown.checked(view, tally, heads))
    return github.report(view, tally, over)


@contextmanager
def failing(format: str, command: str) -> Generator[None]:
    """Also tell GitHub why a command fails before it has a result.

    Args:
        format: the requested format; only `github` matters here.
        command: its name.
    """
    try:
        yield
    except RetraceError as error:
        if format == "github":
            fail(command, str(error))
        raise


def fail(command: str, why: str) -> None:
    """Write an annotation and a step summary that say why there is no result."""
    from retrace.present import github, markdown

    _summarise(markdown.failed(command, why))
    console.write(github.failed(command, why), None, commands=True)


def _summarise(text: str) -> None:
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            console.say(f"cannot write to $GITHUB_STEP_SUMMARY: {reason}")

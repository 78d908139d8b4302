"""What GitHub Actions is told: annotations on stdout, and a summary of the step."""

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


def told(
    view: View,
    tally: Tally,
    over: Mapping[str, str] | None = None,
    heads: Sequence[str] | None = None,
) -> str:
    """The annotations; where GitHub gave a file for the summary of the step, a table there.

    Args:
        view: the whole recording.
        tally: the misses to tell of.
        over: the misses that are errors, each with what is too much of it in few words.
        heads: what a check found, a line each; None where it was no check.
    """
    from retrace.present import github, markdown

    if heads is None:
        _summarise(markdown.report(view, tally))
    else:
        _summarise(markdown.checked(view, tally, heads))
    return github.report(view, tally, over)


@contextmanager
def failing(format: str, command: str) -> Generator[None]:
    """Tell GitHub, too, why a command ends without having found anything out.

    Args:
        format: as asked for; only `github` is told.
        command: which it is.
    """
    try:
        yield
    except RetraceError as error:
        if format == "github":
            fail(command, str(error))
        raise


def fail(command: str, why: str) -> None:
    """One annotation, and a summary of the step, that say why nothing was found out."""
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

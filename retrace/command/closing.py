"""The end of a program under `retrace run`: closes its recording and prints a summary."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from retrace.command import console
from retrace.command.selection import Selection
from retrace.command.steps import steps_of
from retrace.errors import RetraceError

if TYPE_CHECKING:
    from retrace.command.children import Children
    from retrace.model import Run


def close(
    directory: str,
    children: Children,
    *,
    new: bool,
    quiet: bool,
    failed: bool = False,
    sent_to: str | None = None,
) -> None:
    """End the recording of this process and print the summary.

    Args:
        directory: the recording.
        children: counts the processes that this one started.
        new: whether the directory was created for this program.
        quiet: print nothing.
        failed: whether importing jax raised an error.
        sent_to: address of the object store that the recording is sent to.
    """
    if "jax" in sys.modules:
        from retrace.capture.on_import import stop

        stop()
    path = Path(directory)
    from retrace.store.processes import headers

    # Only the headers: many hosts may record into this folder.
    recorded = list(headers(path))
    own = children.own(recorded)
    if not own:
        from retrace.capture.process import write_without_jax

        # So that `check` does not mistake an older recording for this one.
        write_without_jax(path, failed=failed)
    if sent_to is not None:
        from retrace.store import sending

        sending.end(path)  # it finishes sending while the summary is printed
    if not quiet:
        _print_summary(path, children, recorded, own, new=new, failed=failed)
    if sent_to is not None:
        _finish(path, sent_to, quiet=quiet)


def _print_summary(
    path: Path,
    children: Children,
    recorded: list[tuple[Path, Run]],
    own: list[Path],
    *,
    new: bool,
    failed: bool,
) -> None:
    if own:
        _summarise(path, children, recorded, own, newest=new)
        return
    if failed:  # silent for a program that does not use jax
        console.say("the program could not import jax, so nothing was recorded")
    if unrecorded := children.unrecorded(run for _, run in recorded):
        console.say(unrecorded)


def _finish(directory: Path, sent_to: str, *, quiet: bool) -> None:
    """Wait until the recording is sent, and report what could not be."""
    from retrace.store.sending import finish

    if (wrong := finish(directory)) is not None:
        console.say(
            f"could not send the whole recording to {sent_to} ({wrong}): it is in {directory}"
        )
    elif not quiet:
        console.say(f"sent to {sent_to}")


def _summarise(
    directory: Path,
    children: Children,
    recorded: list[tuple[Path, Run]],
    own: list[Path],
    *,
    newest: bool,
) -> None:
    from retrace.present.terminal import summary
    from retrace.present.words import inert

    try:
        selection = Selection(sorted(own))
    except RetraceError as error:
        console.say(str(error))
        return
    shown, here = str(directory), console.here()
    if here and shown.startswith(here + os.sep):
        shown = shown[len(here) + 1 :]
    width, paint = console.terminal(sys.stderr)
    steps = steps_of(selection)
    if steps is not None:
        selection.tally.gather(selection.view, steps)
    try:
        text = summary(
            selection.view,
            shown,
            selection.tally,
            newest=newest,
            width=width,
            paint=paint,
            plan=steps,
        )
        if unrecorded := children.unrecorded(run for _, run in recorded):
            text += fill(unrecorded, width, subsequent_indent="  ") + "\n"
        sys.stderr.write("\n" + inert(text))
        sys.stderr.flush()
    except (OSError, AttributeError, ValueError):
        pass  # the program closed stderr, or its reader is gone

"""The end of a program under `retrace run`: its recording is closed, and told in a few lines."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from retrace.command import console
from retrace.command.selection import Told
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
    """End the recording of this process, and tell what was recorded.

    Args:
        directory: of the recording.
        children: counts what this process has started.
        new: whether the directory was made for this program alone: it is removed where
            nothing lies in it.
        quiet: whether nothing is said.
        failed: whether the import of jax was tried, and raised.
        sent_to: the address of an object store to which the recording is sent.
    """
    if "jax" in sys.modules:
        from retrace.capture.on_import import stop

        stop()
    path = Path(directory)
    from retrace.store.processes import headers

    # Of a folder that many hosts record into, no more than the first lines are read.
    recorded = list(headers(path))
    own = children.own(recorded)
    if not own:
        from retrace.capture.process import write_without_jax

        # So that `check` does not take an older recording for this program's.
        write_without_jax(path, failed=failed)
    if sent_to is not None:
        from retrace.store import sending

        sending.end(path)  # and what is told meanwhile takes no time of its own
    if not quiet:
        _tell(path, children, recorded, own, new=new, failed=failed)
    if sent_to is not None:
        _finish(path, sent_to, quiet=quiet)


def _tell(
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
    if failed:  # one that does without jax has nothing to be told
        console.say("the program could not import jax: there was nothing to record")
    if unrecorded := children.unrecorded(run for _, run in recorded):
        console.say(unrecorded)


def _finish(directory: Path, sent_to: str, *, quiet: bool) -> None:
    """Wait for what is still to be sent, and tell what was not."""
    from retrace.store.sending import finish

    if (wrong := finish(directory)) is not None:
        console.say(
            f"could not send all of the recording to {sent_to} ({wrong}): {directory} has it"
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
        told = Told(sorted(own))
    except RetraceError as error:
        console.say(str(error))
        return
    shown, here = str(directory), console.here()
    if here and shown.startswith(here + os.sep):
        shown = shown[len(here) + 1 :]
    width, paint = console.terminal(sys.stderr)
    steps = steps_of(told)
    if steps is not None:
        told.tally.gather(told.view, steps)
    try:
        text = summary(
            told.view, shown, told.tally, newest=newest, width=width, paint=paint, plan=steps
        )
        if unrecorded := children.unrecorded(run for _, run in recorded):
            text += fill(unrecorded, width, subsequent_indent="  ") + "\n"
        sys.stderr.write("\n" + inert(text))
        sys.stderr.flush()
    except (OSError, AttributeError, ValueError):
        pass  # the program closed stderr, or its reader has gone

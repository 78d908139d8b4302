"""Runs every command that reads, in this process: how it ends, and what it writes."""

from __future__ import annotations

import contextlib
import gc
import io
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from retrace.command import cli
from retrace.command.report import FORMATS
from tests.hostile.mutations import Files

MAX_SECONDS = 120
"""After this time a command counts as hanging."""


class Ended(NamedTuple):
    """How a command ended."""

    arguments: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float


def write(files: Files, directory: Path) -> Path:
    """Put the files of a recording into an empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def read(directory: Path) -> Files:
    """The files of a recording."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def lines(recording: Path, other: Path, profile: Path, project: Path) -> list[tuple[str, ...]]:
    """The arguments of every command that reads, on a recording."""
    damaged, clean = str(recording), str(other)
    return [
        *(("report", damaged, "--format", name) for name in FORMATS),
        *(("report", damaged, "--keys", "--format", name) for name in FORMATS),
        ("report", damaged, clean, "--sort", "time"),
        ("hosts", damaged, clean),
        ("hosts", damaged, clean, "--format", "json"),
        ("programs", damaged, "--pprof", str(profile)),
        ("diff", damaged, clean),
        ("check", damaged, "--config", str(project)),
        ("check", damaged, "--config", str(project), "--format", "github"),
    ]


def run(*arguments: str) -> Ended:
    """Run one command; unexpected exceptions are not caught."""
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MAX_SECONDS)
    start = time.perf_counter()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["retrace", *arguments]),
        # The command line freezes garbage collection until it exits, but this process goes on.
        mock.patch.object(gc, "freeze"),
    ):
        try:
            cli.main()
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 1
        finally:
            signal.alarm(0)
    return Ended(arguments, status, out.getvalue(), err.getvalue(), time.perf_counter() - start)


def _too_long(_: int, frame: object) -> None:
    raise TimeoutError(f"still running after {MAX_SECONDS} s")


def complaint(ended: Ended) -> str | None:
    """What is wrong with how a command ended, if anything."""
    if ended.status not in (0, 1, 2):
        return f"exit code {ended.status}"
    if ended.status == 2:
        # An error is one line, and for GitHub also an annotation.
        github = "github" in ended.arguments
        out = ended.out.startswith("::error ") and ended.out.count("\n") == 1
        if ended.err.count("\n") != 1 or not (out if github else not ended.out):
            return "not one clear line"
    if "Traceback" in ended.err:
        return "a traceback"
    for text in (ended.out, ended.err):
        for line in text.split("\n"):
            if not line.isprintable():
                return f"unprintable: {line[:200]!a}"
            if line.lstrip().startswith("::") and "github" not in ended.arguments:
                return f"a workflow command: {line[:200]!a}"
            if "##[" in line:
                return f"an old workflow command: {line[:200]!a}"
    return None

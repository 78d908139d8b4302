"""Every command that reads, in this process: how it ended, and what it wrote."""

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

LONGEST = 120
"""Seconds after which a command counts as one that does not end."""


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
    told, clean = str(recording), str(other)
    return [
        *(("report", told, "--format", name) for name in FORMATS),
        *(("report", told, "--keys", "--format", name) for name in FORMATS),
        ("report", told, clean, "--sort", "time"),
        ("hosts", told, clean),
        ("hosts", told, clean, "--format", "json"),
        ("programs", told, "--pprof", str(profile)),
        ("diff", told, clean),
        ("check", told, "--config", str(project)),
        ("check", told, "--config", str(project), "--format", "github"),
    ]


def run(*arguments: str) -> Ended:
    """Run one command; an exception of ours comes out of it as it is."""
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    start = time.perf_counter()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["retrace", *arguments]),
        # The command line keeps what it read until it exits, and this process does not.
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
    raise TimeoutError(f"still at it after {LONGEST} s")


def complaint(ended: Ended) -> str | None:
    """What is wrong with how a command ended; None where nothing is."""
    if ended.status not in (0, 1, 2):
        return f"exit code {ended.status}"
    if ended.status == 2 and (ended.out or ended.err.count("\n") != 1):
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

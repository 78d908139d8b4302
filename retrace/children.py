"""The processes that a program under `retrace run` starts: told to record, and counted.

A forked child records by itself. One that is started anew knows of the recording by its
environment alone, and acts on it where it imports retrace, or, with `--children`, at once.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from retrace.failure import contain
from retrace.model import Run

STARTER = Path(__file__).parent / "starter"
"""What the interpreter of a child finds first with `--children`."""

_EVENTS = frozenset(("subprocess.Popen", "os.posix_spawn", "open"))
_LAUNCHERS = frozenset(("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"))
_caller = sys._getframe  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]?(\.exe)?")
_DEAF = frozenset("IES")
"""Options with which an interpreter looks at no environment, or runs no code of ours."""


class Children:
    """Tells what this process starts, from here to its end, where to record; and counts it."""

    def __init__(self, directory: Path, *, all_of_them: bool) -> None:
        """Begin to watch.

        Args:
            directory: of the recording; an absolute path.
            all_of_them: whether children record that do not import retrace.
        """
        self._all = all_of_them
        self._process = os.getpid()
        self._began = time.time()
        self._started: Counter[tuple[str, bool]] = Counter()
        self._failures: Counter[str] = Counter()
        told = {"RETRACE": "1", "RETRACE_DIR": str(directory)}
        if all_of_them:
            path = os.environ.get("PYTHONPATH")
            told["PYTHONPATH"] = f"{STARTER}{os.pathsep}{path}" if path else str(STARTER)
            os.environ.update(told)
        else:
            # Of the system alone: what the program sees in `os.environ` stays as it was.
            for name, value in told.items():
                os.putenv(name, value)
        # A hook can never be taken out again; this process ends with what it watches.
        sys.addaudithook(self._audited)

    def unrecorded(self, runs: Iterable[Run]) -> str | None:
        """What to say of the children that were not recorded; None where there are none.

        Args:
            runs: the processes that did record.
        """
        told = [said] if (said := self._not_recording(runs)) else []
        told += [
            f"what it started may be more: retrace failed to count it {number:,} times ({name})"
            for name, number in self._failures.items()
        ]
        return "; ".join(told) or None

    def _not_recording(self, runs: Iterable[Run]) -> str | None:
        started = [(_is_python(name), deaf, n) for (name, deaf), n in self._started.items()]
        if self._all:
            number = sum(n for python, deaf, n in started if python and deaf)
            why = "could not be told to record: by their options, or an environment of their own"
            return f"{_processes(number)} that it started {why}" if number else None
        starters = {self._process, _forkserver()} - {None}
        number = sum(n for python, _, n in started if python)
        number -= sum(run.started_by in starters and run.started >= self._began for run in runs)
        if number <= 0:
            return None
        were = "was" if number == 1 else "were"
        return (
            f"{_processes(number)} that it started {were} not recorded: "
            "where they use jax, pass --children"
        )

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or (event == "open" and type(arguments[0]) is not int):
            return
        if os.getpid() != self._process:
            return
        # What fails here would keep the program from starting it.
        contain(self._fail, self._count, event, arguments, _caller(1))

    def _fail(self, error: Exception) -> None:
        self._failures[type(error).__name__] += 1

    def _count(self, event: str, arguments: tuple[Any, ...], frame: Any) -> None:
        caller = frame.f_globals.get("__name__")
        if event == "open":
            # multiprocessing starts processes without a word; then it writes to them.
            if caller in _LAUNCHERS:
                flags = sys.flags
                deaf = flags.isolated or flags.ignore_environment or flags.no_site
                self._started[sys.executable, bool(deaf)] += 1
        elif event == "subprocess.Popen":
            executable, line, _, environment = arguments
            self._started[os.fsdecode(executable), _is_deaf(line, environment)] += 1
        elif caller != "subprocess":
            executable, line, environment = arguments
            self._started[os.fsdecode(executable), _is_deaf(line, environment)] += 1


def _processes(number: int) -> str:
    return f"{number:,} Python process{'es' if number > 1 else ''}"


def _is_deaf(line: Sequence[Any], environment: Any) -> bool:
    """Whether a child with this command line and environment cannot be told to record."""
    if environment is not None and not {"RETRACE_DIR", b"RETRACE_DIR"} & {*environment}:
        return True
    for argument in map(os.fsdecode, () if isinstance(line, str | bytes) else line[1:]):
        if not argument.startswith("-") or argument.startswith("--"):
            break
        options = re.split("[cmWX]", argument[1:])
        if _DEAF & {*options[0]}:
            return True
        if len(options) > 1 and not argument[1:].startswith(("W", "X")):
            break
    return False


def _is_python(executable: str) -> bool:
    """Whether it is an interpreter of Python, or a script for one."""
    found = shutil.which(executable)
    if found is None:
        return False
    if any(
        _PYTHON.fullmatch(os.path.basename(path)) for path in (found, os.path.realpath(found))
    ):
        return True
    try:
        with open(found, "rb") as file:
            return file.read(2) == b"#!" and b"python" in file.readline(512)
    except OSError:
        return False


def _forkserver() -> int | None:
    """The process of multiprocessing's that forks children on behalf of this one."""
    server: Any = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return getattr(server, "_forkserver_pid", None) or None

"""The processes that a program under `retrace run` starts: told to record, and counted.

A forked child records by itself. One that is started anew knows of the recording by its
environment alone, and acts on it where it imports retrace, or, with `--children`, at once.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from retrace.failure import contain
from retrace.model import Run
from retrace.store.files import opened

try:
    import _posixsubprocess
except ImportError:  # where there is no such thing, nothing is counted
    _posixsubprocess = None

STARTER = Path(__file__).parent / "starter"
"""What the interpreter of a child finds first with `--children`."""

_caller = sys._getframe  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]?(\.exe)?")
_DEAF = frozenset("IES")
"""Options with which an interpreter looks at no environment, or runs no code of ours."""


class Children:
    """Tells what this process starts, from here to its end, where to record; and counts it."""

    def __init__(self, directory: Path, began: float, *, all_of_them: bool) -> None:
        """Begin to watch.

        Args:
            directory: of the recording; an absolute path.
            began: when this process began to record, in seconds since 1970.
            all_of_them: whether children record that do not import retrace.
        """
        self._all = all_of_them
        self._process = os.getpid()
        self._began = began
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
        # They are left there: this process ends with what it watches.
        for owner, name in ((_posixsubprocess, "fork_exec"), (subprocess, "_fork_exec")):
            self._watch(owner, name, self._count_executed)
        for name in ("posix_spawn", "posix_spawnp"):
            self._watch(os, name, self._count)

    def own(self, recorded: Iterable[tuple[Path, Run]]) -> list[Path]:
        """The files of this process, and of those that it started and they started, of many."""
        host = socket.gethostname()
        left = [
            (path, run)
            for path, run in recorded
            if run.started >= self._began and run.host in (host, "<redacted>")
        ]
        family = {self._process, _forkserver()} - {None}
        own: list[Path] = []
        while found := [
            one
            for one in left
            if one[1].pid in family or {one[1].started_by, one[1].forked_by} & family
        ]:
            own += [path for path, _ in found]
            family |= {run.pid for _, run in found}
            left = [one for one in left if one not in found]
        return own

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

    def _watch(self, owner: Any, name: str, count: Callable[..., None]) -> None:
        # An audit hook would be told of these by Python itself, and of each `id()` too,
        # which then takes seven times as long.
        start = getattr(owner, name, None)
        if start is None:
            return

        @functools.wraps(start)
        def starting(*args: Any, **options: Any) -> Any:
            if os.getpid() == self._process:
                # What fails here would keep the program from starting it.
                contain(self._fail, count, *args)
            return start(*args, **options)

        setattr(owner, name, starting)

    def _fail(self, error: Exception) -> None:
        self._failures[type(error).__name__] += 1

    def _count(self, executable: Any, line: Sequence[Any], environment: Any, *_: Any) -> None:
        self._started[os.fsdecode(executable), _is_deaf(line, environment)] += 1

    def _count_executed(
        self, line: Sequence[Any], executables: Sequence[Any], *others: Any
    ) -> None:
        command = os.fsdecode(line[-1])
        if "multiprocessing.resource_tracker" in command:
            return
        if "multiprocessing.forkserver" in command:
            self._forkserver_starts()
            return
        found = next(filter(os.path.exists, executables), executables[0])
        environment = others[3] and [item.partition(b"=")[0] for item in others[3]]
        self._count(found, line, environment)

    def _forkserver_starts(self) -> None:
        server = sys.modules["multiprocessing.forkserver"]
        frame = _caller(1)
        while frame is not None and frame.f_code.co_name != "connect_to_new_process":
            frame = frame.f_back
        if not hasattr(server.connect_to_new_process, "__wrapped__"):
            if frame is not None:  # this call is not watched yet
                self._count_forked()
            self._watch(server, "connect_to_new_process", self._count_forked)

    def _count_forked(self, *_: Any) -> None:
        flags = sys.flags
        deaf = flags.isolated or flags.ignore_environment or flags.no_site
        self._started[sys.executable, bool(deaf)] += 1


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
        with opened(Path(found)) as file:
            return file.read(2) == b"#!" and b"python" in file.readline(512)
    except OSError:
        return False


def _forkserver() -> int | None:
    """The process of multiprocessing's that forks children on behalf of this one."""
    server: Any = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return getattr(server, "_forkserver_pid", None) or None

"""Makes the processes that a program starts record too, and counts them.

A forked child records without help. A new process learns of the recording only from its
environment, and starts to record when it imports retrace, or at once with `--children`.

This is loaded before the program begins, so it only imports modules that every interpreter
has loaded already.
"""

from __future__ import annotations

import os
import sys
import time

from retrace.failure import contain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from retrace.model import Run

STARTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "starter")
"""The folder put first on PYTHONPATH of a recorded program."""

_frame_of_caller = sys._getframe  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
_PYTHON = r"(python|pypy)[\d.]*[a-z]?(\.exe)?"
_ISOLATING = frozenset("IES")
"""Interpreter options that ignore the environment or skip `site`, and so our code."""


class Children:
    """Tells processes started by this one where to record, and counts them, until it ends."""

    def __init__(self, directory: str, attempt: int, *, all_of_them: bool) -> None:
        """Start counting.

        Args:
            directory: absolute path of the recording.
            attempt: the attempt that this process and its descendants belong to.
            all_of_them: also record children that do not import retrace.
        """
        self.all_of_them = all_of_them
        self._process = os.getpid()
        self._began = time.time()
        self._started: dict[tuple[str, bool], int] = {}
        self._failures: dict[str, int] = {}
        settings = {"RETRACE": "1", "RETRACE_DIR": directory, "RETRACE_ATTEMPT": str(attempt)}
        if all_of_them:
            path = os.environ.get("PYTHONPATH")
            settings["PYTHONPATH"] = f"{STARTER}{os.pathsep}{path}" if path else str(STARTER)
            os.environ.update(settings)
        else:
            # Only in the system environment: the program's `os.environ` stays as it was.
            for name, value in settings.items():
                os.putenv(name, value)
        # Never undone: they are needed until this process ends.
        for name in ("posix_spawn", "posix_spawnp"):
            self._watch(os, name, self._count)

    def count_executed(self, module: ModuleType) -> None:
        """Count processes started through `_posixsubprocess`, which was just imported."""
        self._watch(module, "fork_exec", self._count_exec)
        if (known := sys.modules.get("subprocess")) is not None:
            self._watch(known, "_fork_exec", self._count_exec)

    def own(self, recorded: Iterable[tuple[Path, Run]]) -> list[Path]:
        """The recorded files of this process and its descendants."""
        import socket

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
        """The message about children that were not recorded; None if all were.

        Args:
            runs: the processes that were recorded.
        """
        parts = [message] if (message := self._not_recording(runs)) else []
        parts += [
            f"it may have started more: retrace failed to count {number:,} times ({name})"
            for name, number in self._failures.items()
        ]
        return "; ".join(parts) or None

    def _not_recording(self, runs: Iterable[Run]) -> str | None:
        started = [
            (_is_python(name), isolated, n) for (name, isolated), n in self._started.items()
        ]
        if self.all_of_them:
            number = sum(n for python, isolated, n in started if python and isolated)
            why = "could not be recorded because of their options or environment"
            return f"{_processes(number)} that it started {why}" if number else None
        starters = {self._process, _forkserver()} - {None}
        number = sum(n for python, _, n in started if python)
        number -= sum(run.started_by in starters and run.started >= self._began for run in runs)
        if number <= 0:
            return None
        were = "was" if number == 1 else "were"
        return (
            f"{_processes(number)} that it started {were} not recorded: "
            "if they use jax, pass --children"
        )

    def _watch(self, owner: Any, name: str, count: Callable[..., None]) -> None:
        # Not an audit hook: Python would also call it for each `id()`, making that seven times
        # slower.
        start = getattr(owner, name, None)
        if start is None or hasattr(start, "__wrapped__"):
            return

        def starting(*args: Any, **options: Any) -> Any:
            if os.getpid() == self._process:
                # An error here would keep the program from starting the child.
                contain(self._fail, count, *args)
            return start(*args, **options)

        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if (value := getattr(start, attribute, None)) is not None:
                setattr(starting, attribute, value)
        vars(starting)["__wrapped__"] = start
        setattr(owner, name, starting)

    def _fail(self, error: Exception) -> None:
        _increase(self._failures, type(error).__name__)

    def _count(self, executable: Any, line: Sequence[Any], environment: Any, *_: Any) -> None:
        _increase(self._started, (os.fsdecode(executable), _is_isolated(line, environment)))

    def _count_exec(self, line: Sequence[Any], executables: Sequence[Any], *others: Any) -> None:
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
        frame = _frame_of_caller(1)
        while frame is not None and frame.f_code.co_name != "connect_to_new_process":
            frame = frame.f_back
        if not hasattr(server.connect_to_new_process, "__wrapped__"):
            if frame is not None:  # the current call is not wrapped yet
                self._count_forked()
            self._watch(server, "connect_to_new_process", self._count_forked)

    def _count_forked(self, *_: Any) -> None:
        flags = sys.flags
        isolated = flags.isolated or flags.ignore_environment or flags.no_site
        _increase(self._started, (sys.executable, bool(isolated)))


def _increase(counter: dict[Any, int], key: object) -> None:
    counter[key] = counter.get(key, 0) + 1


def _processes(number: int) -> str:
    return f"{number:,} Python process{'es' if number > 1 else ''}"


def _is_isolated(line: Sequence[Any], environment: Any) -> bool:
    """Whether a child with this command line and environment would not see our settings."""
    if environment is not None and not {"RETRACE_DIR", b"RETRACE_DIR"} & {*environment}:
        return True
    for argument in map(os.fsdecode, () if isinstance(line, str | bytes) else line[1:]):
        if not argument.startswith("-") or argument.startswith("--"):
            break
        ends = [at for at, letter in enumerate(argument) if letter in "cmWX"]
        if _ISOLATING & {*(argument[1 : ends[0]] if ends else argument)}:
            return True
        if ends and not argument.startswith(("-W", "-X")):
            break
    return False


def _is_python(executable: str) -> bool:
    """Whether it is a Python interpreter, or a script that runs in one."""
    import re
    import shutil
    from pathlib import Path

    from retrace.store.files import opened

    found = shutil.which(executable)
    if found is None:
        return False
    if any(
        re.fullmatch(_PYTHON, os.path.basename(path)) for path in (found, os.path.realpath(found))
    ):
        return True
    try:
        with opened(Path(found)) as file:
            return file.read(2) == b"#!" and b"python" in file.readline(512)
    except OSError:
        return False


def _forkserver() -> int | None:
    """The process id of multiprocessing's fork server for this process."""
    server: Any = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return getattr(server, "_forkserver_pid", None) or None

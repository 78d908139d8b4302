"""The part of `retrace run` that lives in the program's own interpreter.

It waits for the program to import jax, and for its end. Nothing else of retrace is imported
before that: this module is loaded out of the program's sight, and only imports modules that
every interpreter has loaded already.
"""

from __future__ import annotations

import atexit
import os
import sys

from retrace.command.children import Children
from retrace.failure import contain, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from retrace.apart import Apart

VARIABLE = "RETRACE_LAUNCH"
"""Carries the launcher's settings to the program's interpreter; removed before it begins."""

_PROCESS = os.getpid()
_failed: list[str] = []
"""Modules we waited for whose import failed."""


def settings(
    directory: str,
    attempt: tuple[int, str | None, int | None],
    *,
    new: bool,
    children: bool,
    quiet: bool,
    path: str | None,
    sent_to: str | None,
) -> str:
    """The settings for `begin`, as the text of an environment variable.

    Args:
        directory: the recording, which exists.
        attempt: the attempt in it: its number, its job and the number of processes.
        new: whether the directory was created for this program.
        children: whether child processes record too.
        quiet: print no summary at the end.
        path: the original PYTHONPATH.
        sent_to: address of the object store that the recording is sent to.
    """
    flags = "".join("01"[flag] for flag in (new, children, quiet, path is not None))
    number, job, count = attempt
    job = (job or "").replace("\n", " ")
    parts = (flags, path or "", str(number), job, str(count or ""), sent_to or "", directory)
    return "\n".join(parts)


def begin(text: str, apart: Apart) -> None:
    """Record the program that is about to begin.

    Args:
        text: made by `settings`.
        apart: the context in which retrace imports modules.
    """
    flags, path, number, job, count, sent_to, directory = text.split("\n", 6)
    attempt = (int(number), job or None, int(count) if count else None)
    new, all_of_them, quiet, had_path = (flag == "1" for flag in flags)
    if had_path:
        os.environ["PYTHONPATH"] = path
    else:
        os.environ.pop("PYTHONPATH", None)
    record(
        directory,
        attempt,
        apart,
        new=new,
        all_of_them=all_of_them,
        quiet=quiet,
        sent_to=sent_to or None,
    )


def record(
    directory: str,
    attempt: tuple[int, str | None, int | None],
    apart: Apart,
    *,
    new: bool,
    all_of_them: bool,
    quiet: bool,
    sent_to: str | None,
) -> None:
    """Like `begin`, in an interpreter that was not started for the program."""
    children = Children(directory, attempt[0], all_of_them=all_of_them)

    def start(_: ModuleType) -> None:
        with apart:
            from retrace.capture import on_import

            on_import.PROCESS = _PROCESS
            on_import.start_quietly(directory, on_import.Attempt(*attempt))

    def summarise() -> None:
        try:
            with apart:
                from retrace.command.closing import close as close_recording

                failed = "jax" in _failed
                close_recording(
                    directory, children, new=new, quiet=quiet, failed=failed, sent_to=sent_to
                )
        except KeyboardInterrupt:
            pass  # the user does not want to wait for the summary

    def failed_to_close(error: Exception) -> None:
        # It cannot import anything, as without a free file descriptor.
        if not quiet:
            say(f"retrace: no summary of this recording: {type(error).__name__}: {error}")

    def close() -> None:
        if os.getpid() != _PROCESS:
            return
        contain(failed_to_close, summarise)
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            _interrupt()

    atexit.register(close)
    _ImportWatch({"jax": start, "_posixsubprocess": children.count_executed}, directory)


def _interrupt() -> None:
    """Make the interpreter die by SIGINT, as it does after an uncaught KeyboardInterrupt.

    It decides that by a flag, which every `eval` clears, including those that create our
    named tuples; an interrupted `eval` sets it again.
    """

    def raised() -> None:
        raise KeyboardInterrupt

    try:
        eval("raised()", {"raised": raised})  # noqa: S307 - nothing else sets the flag
    except KeyboardInterrupt:
        pass


def begin_child(apart: Apart) -> None:
    """Record a child, as its environment asks for, once it imports jax."""

    def start(_: ModuleType) -> None:
        with apart:
            from retrace.capture import on_import

            on_import.PROCESS = 0  # the parent counts this process
            from retrace.inside.live import install_or_warn

            install_or_warn()

    _ImportWatch({"jax": start})


class _ImportWatch:
    """A meta path finder that waits for modules to be imported, then removes itself."""

    def __init__(
        self, calls: dict[str, Callable[[ModuleType], object]], records: str = ""
    ) -> None:
        self._calls = calls
        self.records = records
        """The directory to record into once jax is imported."""
        for name in list(calls):
            if (module := sys.modules.get(name)) is not None:
                self._imported(name, module)
        if self._calls:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec from the other finders, with a loader that calls back."""
        if name not in self._calls:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            if (spec := find(name, path, target)) is not None:
                if spec.loader is not None and spec.origin != "frozen":
                    spec.loader = _Loader(spec.loader, self._imported)
                return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        call = self._calls.pop(name, None)
        if name == "jax":
            self.records = ""
        if not self._calls and self in sys.meta_path:
            sys.meta_path.remove(self)
        if call is not None:
            # An error here would break the program's own import.
            contain(_report_failure, call, module)


class _Loader:
    """Loads with the program's own loader, then calls back."""

    def __init__(self, loader: Any, imported: Callable[[str, ModuleType], None]) -> None:
        self._loader = loader
        self._imported = imported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate to the loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Delegate to the loader, without showing in the tracebacks of its errors."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            _failed.append(module.__name__)
            raise
        self._imported(module.__name__, module)

    # Python hides import machinery from tracebacks and skips it when warnings count frames.
    # It recognises that machinery by these names.
    exec_module.__code__ = exec_module.__code__.replace(
        co_filename="<frozen importlib._bootstrap_external>",
        co_name="_call_with_frames_removed",
    )


def _report_failure(error: Exception) -> None:
    from retrace.failure import send

    send("cannot record this program, which continues unrecorded", error)

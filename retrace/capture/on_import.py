"""Starts recording when the program imports jax, and not before.

A program may first set `JAX_ENABLE_X64` or `XLA_FLAGS`, which JAX reads at import. A process
that never imports jax pays nothing and records nothing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from retrace.failure import contain, send
from retrace.store.attempts import Attempt, assign

PROCESS = os.getpid()
"""The process that loaded this module. A forked child differs, even before it imports jax."""
_waiting: list[Path] = []
_calls: list[Callable[[], None]] = []


def start(directory: Path) -> bool:
    """Record everything in this process into a directory, once jax is imported.

    Args:
        directory: must exist; each process writes its own file there.

    Returns:
        False if this process already records into the directory.
    """
    if directory in _waiting or _records_into(directory):
        return False
    _waiting.append(directory)
    _await()
    return True


def _records_into(directory: Path) -> bool:
    # `retrace run` waits for jax with a finder of its own.
    if any(getattr(finder, "records", None) == str(directory) for finder in sys.meta_path):
        return True
    if "retrace.capture.session" not in sys.modules:
        return False
    from retrace.capture.session import records_into

    return records_into(directory)


def records() -> bool:
    """Whether everything in this process is recorded, or will be once jax is imported."""
    if _waiting or any(getattr(finder, "records", None) for finder in sys.meta_path):
        return True
    if "retrace.capture.session" not in sys.modules:
        return False
    from retrace.capture.session import records_all

    return records_all()


def start_quietly(directory: str, attempt: Attempt) -> None:
    """Like `start`, but a failure is reported and the program goes on."""
    report = partial(send, "cannot record with this jax; the program goes on without")
    assign(Path(directory), attempt)
    contain(report, start, Path(directory))


def call(function: Callable[[], None]) -> None:
    """Call a function once jax is imported."""
    _calls.append(function)
    _await()


def _await() -> None:
    if "jax" in sys.modules:
        _arrived()
    elif _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def stop(directory: Path | None = None) -> None:
    """Stop recording into a directory, or into all of them."""
    _waiting[:] = [path for path in _waiting if directory is not None and path != directory]
    if not _waiting and not _calls and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)
    if "retrace.capture.session" in sys.modules:
        from retrace.capture.session import stop as stop_recording

        stop_recording(directory)


class _Watcher(MetaPathFinder):
    """A finder that waits for the import of jax."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
        else:
            spec.loader = _Loader(spec.loader)
        return spec


_watcher = _Watcher()


class _Loader(Loader):
    """Loads jax with its own loader, then starts what was waiting for it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            sys.meta_path.insert(0, _watcher)
            raise
        _arrived()


def _arrived() -> None:
    directories, _waiting[:] = list(_waiting), []
    functions, _calls[:] = list(_calls), []
    # A failure here would surface in the program's own `import jax`.
    report = partial(send, "cannot record with this jax; the program goes on without")
    contain(report, _begin, directories, functions)


def _begin(directories: list[Path], functions: list[Callable[[], None]]) -> None:
    from retrace.capture.session import start as start_recording

    for directory in directories:
        start_recording(directory)
    for function in functions:
        function()

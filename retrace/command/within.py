"""What stands beside a program under `retrace run`, in the interpreter that runs it.

It waits for the program's own import of jax, and for the end. Nothing of retrace is imported
before: this, like what it is given, is loaded out of sight, and imports nothing that an
interpreter has not loaded by itself.
"""

from __future__ import annotations

import atexit
import os
import sys

from retrace.command.children import Children
from retrace.failure import contain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from retrace.apart import Apart

VARIABLE = "RETRACE_LAUNCH"
"""By which the launcher tells the interpreter that runs the program; gone before it begins."""

_PROCESS = os.getpid()
_failed: list[str] = []
"""The modules that were waited for and could not be imported."""


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
    """What `begin` is told, as the text of a variable of the environment.

    Args:
        directory: of the recording, which exists.
        attempt: that was joined in it: its number, its job and the number of its processes.
        new: whether it was made for this program alone, and is found without its name.
        children: whether processes that the program starts record too.
        quiet: whether nothing is said at the end.
        path: PYTHONPATH, as it was.
        sent_to: the address of an object store to which the recording is sent.
    """
    flags = "".join("01"[flag] for flag in (new, children, quiet, path is not None))
    number, job, count = attempt
    job = (job or "").replace("\n", " ")
    parts = (flags, path or "", str(number), job, str(count or ""), sent_to or "", directory)
    return "\n".join(parts)


def begin(told: str, apart: Apart) -> None:
    """Record the program that is about to begin.

    Args:
        told: what `settings` made.
        apart: in which retrace imports what it needs.
    """
    flags, path, number, job, count, sent_to, directory = told.split("\n", 6)
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
    """As `begin`, in an interpreter that was not started for it."""
    children = Children(directory, attempt[0], all_of_them=all_of_them)

    def start(_: ModuleType) -> None:
        with apart:
            from retrace.capture import on_import

            on_import.PROCESS = _PROCESS
            on_import.start_quietly(directory, on_import.Attempt(*attempt))

    def close() -> None:
        if os.getpid() != _PROCESS:
            return
        try:
            with apart:
                from retrace.command.closing import close as close_recording

                failed = "jax" in _failed
                close_recording(
                    directory, children, new=new, quiet=quiet, failed=failed, sent_to=sent_to
                )
        except KeyboardInterrupt:
            pass  # nobody waits for what is told here
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            _interrupt()

    atexit.register(close)
    _Waiting({"jax": start, "_posixsubprocess": children.executes}, directory)


def _interrupt() -> None:
    """Let the interpreter end as what interrupted the program asks for.

    It kills itself by SIGINT then, which a shell waits for, and knows by a flag that each text
    it evaluates clears: those of our named tuples as well.
    """

    def raised() -> None:
        raise KeyboardInterrupt

    try:
        eval("raised()", {"raised": raised})  # noqa: S307 - as said, and nothing else sets it
    except KeyboardInterrupt:
        pass


def begin_child(apart: Apart) -> None:
    """Record a child that was told to by its environment, once it imports jax."""

    def start(_: ModuleType) -> None:
        with apart:
            from retrace.capture import on_import

            on_import.PROCESS = 0  # whoever started it counts it
            from retrace.inside.live import install_or_warn

            install_or_warn()

    _Waiting({"jax": start})


class _Waiting:
    """A finder that waits for modules to be imported, and goes when they have been."""

    def __init__(
        self, calls: dict[str, Callable[[ModuleType], object]], records: str = ""
    ) -> None:
        self._calls = calls
        self.records = records
        """The directory into which everything is recorded once jax is there."""
        for name in list(calls):
            if (module := sys.modules.get(name)) is not None:
                self._arrived(name, module)
        if self._calls:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders find, with a loader that tells."""
        if name not in self._calls:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            if (spec := find(name, path, target)) is not None:
                if spec.loader is not None and spec.origin != "frozen":
                    spec.loader = _Loader(spec.loader, self._arrived)
                return spec
        return None

    def _arrived(self, name: str, module: ModuleType) -> None:
        call = self._calls.pop(name, None)
        if name == "jax":
            self.records = ""
        if not self._calls and self in sys.meta_path:
            sys.meta_path.remove(self)
        if call is not None:
            # What fails here would fail inside the program's own import.
            contain(_tell, call, module)


class _Loader:
    """Loads as the program's own loader does, and then tells."""

    def __init__(self, loader: Any, arrived: Callable[[str, ModuleType], None]) -> None:
        self._loader = loader
        self._arrived = arrived

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does; what it raises shows no frame of this."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            _failed.append(module.__name__)
            raise
        self._arrived(module.__name__, module)

    # Python leaves out of tracebacks what lies between an import and the code that it runs,
    # and warnings that count frames pass over it. It knows it by these names.
    exec_module.__code__ = exec_module.__code__.replace(
        co_filename="<frozen importlib._bootstrap_external>",
        co_name="_call_with_frames_removed",
    )


def _tell(error: Exception) -> None:
    from retrace.failure import send

    send("cannot record this program, which goes on without", error)

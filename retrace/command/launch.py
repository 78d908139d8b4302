"""Runs an unchanged program in this process, as `python SCRIPT` or `python -m MODULE` would.

Used where the program cannot have its own interpreter (`own_interpreter`): our frames are below
its frames.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.util
import io
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import (
    BuiltinImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import CodeType, ModuleType

from retrace.errors import UsageError

INTERRUPTED = 130
"""The exit status that shells report for an interrupted program."""


def run_script(
    path: str,
    arguments: Sequence[str],
    before: Callable[[], None],
) -> int:
    """Run a script, or a directory or zip file that contains a `__main__.py`.

    Args:
        path: the script as the user typed it; it becomes `sys.argv[0]`.
        arguments: the rest of `sys.argv`.
        before: called once the program is found, just before it starts.

    Returns:
        The exit status, to pass to `sys.exit` right away: the program has printed its
        output, but its `atexit` handlers have not run yet.

    Raises:
        UsageError: there is no such program.
    """
    if not os.path.exists(path):
        from retrace.command.complaint import no_script

        raise no_script(path)
    place = _absolute(path)
    sys.argv[:] = [path, *arguments]
    if pkgutil.get_importer(place) is not None:
        _first_on_path(place)
        spec = PathFinder.find_spec("__main__", [place])
        if spec is None:
            raise UsageError(
                f"{path} is a directory or archive without a __main__.py: name a script"
            )
        return _launch(lambda: _code_of(spec), before)
    if not os.access(path, os.R_OK):
        raise UsageError(f"cannot read {path}: permission denied")
    _first_on_path(os.path.dirname(os.path.realpath(path)))
    return _launch(lambda: _code_in(place), before)


def run_module(
    name: str,
    arguments: Sequence[str],
    before: Callable[[], None],
) -> int:
    """Run a module or the `__main__` of a package by name; otherwise like `run_script`."""
    _first_on_path(os.getcwd())
    sys.argv[:] = ["-m", *arguments]
    # Its parent packages may trace when imported, so import them only once recording is on.
    top = name.partition(".")[0]
    if not top or importlib.util.find_spec(top) is None:
        raise UsageError(
            f"no module named {name}: nothing to run in {os.getcwd()} or on sys.path"
        )

    def load() -> tuple[CodeType, ModuleType]:
        code, module = _code_of(_find(name))
        sys.argv[0] = str(module.__file__)
        return code, module

    return _launch(load, before)


def run_input(arguments: Sequence[str], before: Callable[[], None]) -> int:
    """Run code from standard input, as `python -` does; otherwise like `run_script`."""
    sys.argv[:] = ["-", *arguments]
    _first_on_path("")

    def load() -> tuple[CodeType, ModuleType]:
        code = compile(sys.stdin.buffer.read(), "<stdin>", "exec")
        module = _main(BuiltinImporter, None, None)
        for name in ("__file__", "__cached__"):
            vars(module).pop(name, None)
        return code, module

    return _launch(load, before)


def _launch(
    load: Callable[[], tuple[CodeType, ModuleType]],
    before: Callable[[], None],
) -> int:
    status = 0
    process = os.getpid()

    def die() -> None:
        if os.getpid() == process and status == INTERRUPTED and interrupted:
            _die_of_interrupt()

    interrupted = False
    # The handler registered first runs last: the program's own handlers run while recording is
    # on, then those that `before` registers, and only then may a signal end the process.
    atexit.register(die)
    before()
    if sys.excepthook.__module__.partition(".")[0] == "typer":
        sys.excepthook = sys.__excepthook__
    try:
        code, module = load()
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102 - running the user's program is our purpose
    except UsageError:
        raise  # only known after its packages were imported
    except SystemExit as error:
        status = _exit_status(error)
    except BaseException as error:  # noqa: BLE001 - the interpreter's own last resort
        interrupted = isinstance(error, KeyboardInterrupt)
        status = _report(error)
    return status


def _code_in(path: str) -> tuple[CodeType, ModuleType]:
    """The code of a script, compiled without caching, and the module to run it in."""
    if path.endswith(".pyc"):
        loader = SourcelessFileLoader("__main__", path)
        code = loader.get_code("__main__")
    else:
        loader = SourceFileLoader("__main__", path)
        with io.open_code(path) as file:
            code = loader.source_to_code(file.read(), path)
    if code is None:
        raise ImportError(f"no code in {path}")
    return code, _main(loader, None, path)


def _code_of(spec: ModuleSpec) -> tuple[CodeType, ModuleType]:
    # By name: loaders outside the ABCs, such as zipimporter, have it too.
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code else None
    if code is None:
        raise UsageError(f"{spec.name} cannot be run: it is not written in Python")
    return code, _main(spec.loader, spec, spec.origin)


def _main(loader: object, spec: ModuleSpec | None, file: str | None) -> ModuleType:
    # As the interpreter makes it: a script has no spec, so `multiprocessing` starts its
    # children by path; a module has one, so it goes by name.
    module = ModuleType("__main__")
    if "__annotations__" in vars(sys.modules["__main__"]):
        module.__annotations__ = {}
    vars(module).update(
        __builtins__=builtins,
        __cached__=None if spec is None else spec.cached,
        __file__=file,
        __loader__=loader,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
    )
    return module


def _find(name: str) -> ModuleSpec:
    """The spec of what `-m name` runs; imports its parent packages."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # Only the requested module; a failing import inside its packages is the program's error.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        package, _, last = name.rpartition(".")
        if last == "__main__":
            raise UsageError(f"{package} is a package without a __main__.py: name a module in it")
        raise UsageError(f"no module named {name}")
    if spec.submodule_search_locations is not None and not name.endswith("__main__"):
        return _find(f"{name}.__main__")
    return spec


def _first_on_path(directory: str) -> None:
    if not sys.flags.safe_path:
        # Replaces the entry that the interpreter added to start retrace.
        sys.path[0] = directory


def _absolute(path: str) -> str:
    return os.path.join(os.getcwd(), path)


def _exit_status(error: SystemExit) -> int:
    """The status of `sys.exit(code)`; a code that is not a number is printed, as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - pythonw has none
        print(code, file=sys.stderr)  # noqa: T201 - on the program's behalf
    return 1


def _report(error: BaseException) -> int:
    """Print an uncaught exception as the interpreter would; returns the exit status."""
    shown = error.__traceback__
    while shown is not None and _is_ours(shown.tb_frame.f_code.co_filename):
        shown = shown.tb_next
    error.__traceback__ = shown
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, shown
    try:
        sys.excepthook(type(error), error, shown)
    except SystemExit as exit_:
        return _exit_status(exit_)
    except BaseException as failure:  # noqa: BLE001 - the program's own hook failed
        failure.__traceback__ = failure.__traceback__ and failure.__traceback__.tb_next
        failure.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201 - Python's own wording
        traceback.print_exception(failure)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
        traceback.print_exception(error)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _is_ours(file: str) -> bool:
    return file in {__file__, importlib.util.__file__} or file.startswith("<frozen importlib")


def _die_of_interrupt() -> None:
    # The parent must see a death by SIGINT, so that a shell loop stops on Ctrl-C.
    if os.name == "posix":
        if (
            "logging" in sys.modules
        ):  # its exit handler was registered before ours and will not run
            sys.modules["logging"].shutdown()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

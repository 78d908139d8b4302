"""Runs an unchanged program in its own interpreter, which replaces this one.

None of our code is below the program: its frames, recursion limit, `__main__`, standard input
and signals are those of `python SCRIPT`, because that is what runs. `starter/` sets up recording
before the program begins. The process id stays the same.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple, NoReturn

from retrace.command import within
from retrace.command.children import STARTER
from retrace.errors import UsageError
from retrace.store.attempts import attempt_of


class Program(NamedTuple):
    """The program to run."""

    arguments: list[str]
    """The script (or `-`) and its arguments; for a module only the arguments."""
    module: str | None
    """The name after `-m`."""

    @property
    def line(self) -> list[str]:
        """The arguments for the interpreter that runs it."""
        if self.module is not None:
            return ["-m", self.module, *self.arguments]
        script, *rest = self.arguments
        if script.startswith("-") and script != "-":
            script = os.path.join(os.curdir, script)
        return [script, *rest]


def options() -> list[str] | None:
    """This interpreter's options, for the one that replaces it; None if it cannot be replaced.

    Windows cannot replace a process; an interpreter that ignores the environment or `site`
    would not record; and a debugger that runs us should see the program.
    """
    flags = sys.flags
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        return None
    if flags.isolated or flags.ignore_environment or flags.no_site:
        return None
    found, rest = _split(sys.orig_argv[1:])
    module = len(rest) > 1 and rest[0] == "-m" and rest[1] in ("retrace", "retrace.__main__")
    script = rest and os.path.basename(rest[0]).partition(".")[0] == "retrace"
    return found if module or script else None


def start(options: list[str], program: Program, settings: dict[str, str]) -> NoReturn:
    """Replace this process by a program.

    Args:
        options: options for the interpreter.
        program: the program, which must exist.
        settings: environment variables for `starter/`; without any it does not record.
    """
    environment = dict(os.environ)
    if _coerced(options):
        del environment["LC_CTYPE"]
    if settings:
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = STARTER + (os.pathsep + path if path else "")
        environment |= settings
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
            stream.flush()
    line = [sys.executable, *options, *program.line]
    os.execve(sys.executable, line, environment)  # noqa: S606 - the user's program


def _coerced(options: list[str]) -> bool:
    """Whether Python set LC_CTYPE itself, because the locale was C (PEP 538, PEP 540).

    The next interpreter would take it for the user's, and not turn on its UTF-8 mode.
    """
    asked = any("utf8" in one for one in options) or os.environ.get("PYTHONUTF8")
    known = os.environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8")
    return known and not asked and bool(sys.flags.utf8_mode) and not os.environ.get("LC_ALL")


def settings(
    directory: Path, *, new: bool, children: bool, quiet: bool, sent_to: str | None
) -> dict[str, str]:
    """The environment variables to pass to `start`."""
    path = os.environ.get("PYTHONPATH")
    attempt = attempt_of(directory)
    text = within.settings(
        str(directory),
        attempt,
        new=new,
        children=children,
        quiet=quiet,
        path=path,
        sent_to=sent_to,
    )
    return {within.VARIABLE: text}


def find(program: Program) -> None:
    """Raise UsageError if the program does not exist; imports nothing of it."""
    if program.module is not None:
        _find_module(program.module)
    elif program.arguments[0] != "-":
        _find_script(program.arguments[0])


def _find_script(path: str) -> None:
    if not os.path.exists(path):
        from retrace.command.complaint import no_script

        raise no_script(path)
    place = os.path.join(os.getcwd(), path)
    if pkgutil.get_importer(place) is not None:
        if PathFinder.find_spec("__main__", [place]) is None:
            raise UsageError(
                f"{path} is a directory or archive without a __main__.py: name a script"
            )
    elif not os.access(path, os.R_OK):
        raise UsageError(f"cannot read {path}: permission denied")


def _find_module(name: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    top, *rest = name.split(".")
    spec = _spec(top, None) if top else None
    if spec is None:
        raise UsageError(
            f"no module named {name}: nothing to run in {os.getcwd()} or on sys.path"
        )
    found = top
    for part in rest:
        places = spec.submodule_search_locations
        if places is None or _may_change_path(spec):
            return  # the interpreter will report it
        found = f"{found}.{part}"
        try:
            spec = _spec(found, list(places))
        except KeyError:  # a namespace package asks for its parent, which is not imported here
            return
        if spec is None and part == "__main__":
            raise UsageError(_without_main(name.rpartition(".")[0]))
        if spec is None:
            raise UsageError(f"no module named {name}")
    if (places := spec.submodule_search_locations) is not None and not _may_change_path(spec):
        if _spec(f"{name}.__main__", list(places)) is None:
            raise UsageError(_without_main(name))
    elif (places is None and not hasattr(spec.loader, "get_code")) or spec.origin == "built-in":
        raise UsageError(f"{name} cannot be run: it is not written in Python")


def _without_main(package: str) -> str:
    return f"{package} is a package without a __main__.py: name a module in it"


def _spec(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if find is not None and (spec := find(name, path, None)) is not None:
            return spec
    return None


def _may_change_path(spec: ModuleSpec) -> bool:
    """Whether a package may change its `__path__` when imported."""
    try:
        with open(spec.origin or "", "rb") as file:
            return b"__path__" in file.read()
    except (OSError, ValueError):
        return False


def _split(line: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line into the interpreter's options and what it runs."""
    found: list[str] = []
    at = 0
    while at < len(line) and line[at].startswith("-") and line[at] != "-":
        option = line[at]
        at += 1
        if option.startswith("--"):
            found.append(option)
            if option == "--check-hash-based-pycs" and at < len(line):
                found.append(line[at])
                at += 1
            continue
        ends = [position for position, letter in enumerate(option) if letter in "cmWX"]
        if not ends:
            found.append(option)
        elif option[ends[0]] in "WX":
            found.append(option)
            if ends[0] == len(option) - 1 and at < len(line):
                found.append(line[at])
                at += 1
        else:
            before, letter, after = option[: ends[0]], option[ends[0]], option[ends[0] + 1 :]
            if before != "-":
                found.append(before)
            return found, [f"-{letter}", *([after] if after else []), *line[at:]]
    return found, line[at:]

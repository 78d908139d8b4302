"""The baseline file of a project: how often each function misses JAX's caches, and why.

One line per function, with names that are the same on every machine:

    [programs."train.py"]
    "train.py::train_step" = { first-trace = 1, shape-changed = 1 }
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.guards.budget import checked_causes
from retrace.guards.project import content, table, toml
from retrace.model import Function, Kind, Miss, Run, Verdict
from retrace.present.words import clean, nearest
from retrace.store import files

SCHEMA = "retrace-baseline/1"

Causes: TypeAlias = dict[str, int]
"""How many misses, by the code of their cause."""
Functions: TypeAlias = dict[str, Causes]
"""By the stable name of a function."""

_COMMENT = """\
# How often JAX's caches are missed here, by function and cause. Update it with
# `pytest --retrace-update` (tests) and `retrace check --update` (programs).
"""
_SECTIONS = ("programs", "tests")
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_ORDER = {cause.value: position for position, cause in enumerate(Cause)}


@dataclass(slots=True)
class Baseline:
    """The content of a baseline; a section is None until it is first written."""

    programs: dict[str, Functions] | None = None
    """For `retrace check`, by program."""
    tests: dict[str, Functions] | None = None
    """For pytest, by test id; tests without a miss are left out."""


class Names:
    """Names of functions and programs that are the same on every machine (no ids, no full paths).

    Args:
        root: the project folder; files in it are named relative to it.
        here: the working directory, for programs started by a relative path.
    """

    def __init__(self, root: Path, here: Path | None = None) -> None:
        self._root = Path(os.path.abspath(root))
        self._here = self._root if here is None else here
        self._files: dict[str, str] = {}

    def of(self, verdict: Verdict) -> str | None:
        """`src/train.py::Model.step`; None for what does not belong in a baseline.

        Eager operations do not belong there: which ones a line of NumPy-like code runs differs
        between JAX releases. Nor do functions that a library jits inside the user's functions.
        """
        miss = verdict.miss
        if verdict.cause is Cause.EAGER_OP:
            return None
        function = _user_function(miss)
        if function.kind is Kind.OP or (function.in_library and miss.nested):
            return None
        file = "__main__" if function.site.startswith("<cell>") else self.file(function.file)
        name = clean(function.qualname, None)
        if function.receiver is not None:
            owner = clean(function.receiver.type, None).rpartition(".")[2]
            if owner not in name.split("."):
                name = f"{name} of {owner}"
        return f"{file}::{name}" if file else name

    def program(self, run: Run) -> str:
        """`train.py`: the program of a process."""
        started = run.argv[0] if run.argv else ""
        if started in ("", "-c", "-m"):
            return f"python {started}".strip()
        if not started.endswith(".py"):  # an installed command, such as `pytest`
            return clean(re.split(r"[/\\]", started)[-1], None)
        # It ran in the folder of its recording: this one or a parent, up to the project folder.
        for folder in (self._here, *self._here.parents):
            if (folder / started).is_file():
                return self.file(str(folder / started)) or started
            if folder == self._root:
                break
        return self.file(str(self._here / started)) or started

    def file(self, file: str | None) -> str:
        """A file relative to the project, or for an installed package to site-packages."""
        if file is None or file.startswith("<"):
            return clean(file or "", None)
        if file not in self._files:
            self._files[file] = clean(self._file(file.replace("\\", "/")), None)
        return self._files[file]

    def _file(self, file: str) -> str:
        if installed := _PACKAGES.match(file):
            return file[installed.end() :]
        try:
            return Path(os.path.normpath(file)).relative_to(self._root).as_posix()
        except ValueError:
            pass
        # Recorded on a machine where the project is in another folder.
        parts = [part for part in file.split("/") if part not in ("", ".", "..")]
        for start in range(len(parts) - 1):
            if self._root.joinpath(*parts[start:]).is_file():
                return "/".join(parts[start:])
        return parts[-1]


def _user_function(miss: Miss) -> Function:
    """The function that the user wrote: for an eager loop, its body."""
    return miss.bodies[0] if miss.function.kind is Kind.OP and miss.bodies else miss.function


def counted(verdicts: Iterable[Verdict], names: Names) -> Functions:
    """How often each function missed, by cause."""
    found: Functions = {}
    for verdict in verdicts:
        if (name := names.of(verdict)) is not None:
            causes = found.setdefault(name, {})
            causes[verdict.cause.value] = causes.get(verdict.cause.value, 0) + 1
    return found


def more(old: Mapping[str, int], new: Mapping[str, int]) -> Causes:
    """How much each cause has grown."""
    grown = {cause: number - old.get(cause, 0) for cause, number in new.items()}
    return {cause: by for cause, by in grown.items() if by > 0}


def is_new(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    """Whether it is a new function that was only traced for the first time."""
    return not old and set(new) <= {Cause.FIRST_TRACE.value}


def load(file: Path) -> Baseline | None:
    """Read a baseline; None if the file does not exist.

    Raises:
        UsageError: it cannot be read, or is not a baseline in a known format.
    """
    try:
        parsed = toml(content(file, "the baseline "), f"{file} is not a baseline")
    except FileNotFoundError:
        return None
    schema = parsed.pop("schema", None)
    if schema != SCHEMA:
        found = "has no schema" if schema is None else f"has the schema {schema!r:.60}"
        raise UsageError(
            f'{file} is not a baseline that this retrace can read: it {found}, not "{SCHEMA}"; '
            "delete it and write a new one with --update, or name another file in "
            "[tool.retrace] baseline"
        )
    for key in parsed:
        if key not in _SECTIONS:
            guess = nearest(key, _SECTIONS) or f"; it takes {' and '.join(_SECTIONS)}"
            raise UsageError(f"{file} has no key {key!r}{guess}")
    sections = {
        section: {
            name: _functions(functions, f'{file}: [{section}."{name}"]')
            for name, functions in table(parsed[section], f"{file}: {section}").items()
        }
        for section in parsed
    }
    return Baseline(sections.get("programs"), sections.get("tests"))


def _functions(given: object, where: str) -> Functions:
    found: Functions = {}
    for name, causes in table(given, where).items():
        own = table(causes, f"{where} {name}")
        checked_causes(own, f"{where} {name}")
        for cause, number in own.items():
            if type(number) is not int or number < 1:
                raise UsageError(
                    f"{where} {name}: {cause} must be a number of 1 or more, not {number!r:.60}"
                )
        found[name] = cast(Causes, own)
    return found


def save(file: Path, baseline: Baseline) -> None:
    """Write a baseline; raises UsageError if it cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write(file, [text(baseline)])
    except OSError as error:
        raise UsageError(f"cannot write the baseline {file}: {files.reason(error)}") from None


def text(baseline: Baseline) -> str:
    """The text of a baseline file: sorted, one line per function."""
    out = [_COMMENT, f"schema = {_quoted(SCHEMA)}\n"]
    for section in _SECTIONS:
        entries: dict[str, Functions] | None = getattr(baseline, section)
        if entries is None:
            continue
        if not entries:
            out.append(f"\n[{section}]\n")
        for name in sorted(entries):
            out.append(f"\n{heading(section, name)}\n")
            out += [f"{line(one, causes)}\n" for one, causes in sorted(entries[name].items())]
    return "".join(out)


def heading(section: str, name: str) -> str:
    """`[programs."train.py"]`."""
    return f"[{section}.{_quoted(name)}]"


def line(function: str, causes: Mapping[str, int]) -> str:
    """`"train.py::train_step" = { first-trace = 1 }`."""
    said = [f"{cause} = {causes[cause]}" for cause in sorted(causes, key=_ORDER.__getitem__)]
    return f"{_quoted(function)} = {{ {', '.join(said)} }}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class Difference(NamedTuple):
    """How one section of a baseline changed."""

    added: int
    changed: int
    removed: int
    lines: list[str]
    """In the style of `diff`."""

    def __str__(self) -> str:
        """`2 added, 1 changed`."""
        numbers = ((self.added, "added"), (self.changed, "changed"), (self.removed, "removed"))
        return ", ".join(f"{number:,} {what}" for number, what in numbers if number)


def difference(
    section: str, old: Mapping[str, Functions], new: Mapping[str, Functions]
) -> Difference:
    """Compare two states of a section line by line."""
    kinds = {"added": 0, "changed": 0, "removed": 0}
    lines: list[str] = []
    for name in sorted({*old, *new}):
        own: list[str] = []
        for kind, said in _changes(old.get(name, {}), new.get(name, {})):
            kinds[kind] += 1
            own += said
        if own or (name in new) != (name in old):
            marks = {(True, False): "-", (False, True): "+"}
            lines += [marks.get((name in old, name in new), " ") + heading(section, name), *own]
    return Difference(**kinds, lines=lines)


def _changes(old: Functions, new: Functions) -> Iterator[tuple[str, list[str]]]:
    for function in sorted({*old, *new}):
        before, after = old.get(function), new.get(function)
        if before == after:
            continue
        kind = "added" if before is None else "removed" if after is None else "changed"
        said = [f"-{line(function, before)}"] if before is not None else []
        yield kind, [*said, *([f"+{line(function, after)}"] if after is not None else [])]

"""The project that a command or a test run belongs to, and where its baseline lies.

Every pytest run of an environment may ask, so that the standard library is all it imports.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrace.errors import UsageError
from retrace.store import files

FILE = "pyproject.toml"
BASELINE = "retrace-baseline.toml"

# The parser needs minutes for a key of some 100,000 parts, and raises no error.
_DEEP = re.compile(rb"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""")


class Project(NamedTuple):
    """A folder, and the settings that hold in it."""

    root: Path
    file: Path | None
    """Its pyproject.toml; None where there is none."""
    table: dict[str, Any]
    """What stands under `[tool.retrace]`, unchecked but for being a table."""

    @property
    def baseline(self) -> Path:
        """The file of the baseline, which need not exist."""
        named = self.table.get("baseline", BASELINE)
        if not isinstance(named, str) or not named.strip():
            raise UsageError(
                f'{self.file}: [tool.retrace] baseline takes a path, as "{BASELINE}", '
                f"not {named!r:.60}"
            )
        path = self.root / named
        root, real = os.path.realpath(self.root), os.path.realpath(path)
        if not real.startswith(os.path.join(root, "")):
            raise UsageError(
                f"the baseline {named:.200} lies outside the project {self.root}: "
                "name a file inside it in [tool.retrace] baseline"
            )
        return path

    @property
    def has_tests(self) -> bool:
        """Whether the baseline has a section of tests; raises UsageError if it is unreadable."""
        try:
            found = content(self.baseline, "the baseline ")
        except FileNotFoundError:
            return False
        # Most baselines of programs alone are known without parsing them.
        return b"tests" in found and "tests" in toml(found, f"{self.baseline} is no baseline")


def around(start: Path, *, quick: bool = False) -> Project:
    """The project of a folder: the nearest pyproject.toml from there upwards, if there is one.

    Args:
        start: the folder.
        quick: do not parse a file that never names retrace.

    Raises:
        UsageError: the file cannot be read.
    """
    for folder in (start, *start.parents):
        file = folder / FILE
        if os.path.lexists(file):  # which never raises, whoever may look into the folder
            return read(file, quick=quick)
    return Project(start, None, {})


def read(file: Path, *, quick: bool = False) -> Project:
    """The project of a pyproject.toml; raises UsageError where that cannot be read."""
    try:
        found = content(file)
    except FileNotFoundError:
        raise UsageError(f"cannot read {file}: no such file or directory") from None
    if quick and b"retrace" not in found:
        return Project(file.parent, file, {})
    tool = table(toml(found, str(file)).get("tool", {}), f"{file}: tool")
    return Project(file.parent, file, table(tool.get("retrace", {}), str(file)))


def content(file: Path, what: str = "") -> bytes:
    """What stands in a file; raises UsageError where it cannot be read, but for one not there."""
    try:
        return files.content(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {what}{file}: {files.reason(error)}") from None


def toml(found: bytes, what: str) -> dict[str, Any]:
    """The TOML in a file; raises UsageError where it is none, `what` naming it."""
    import tomllib

    deep = UsageError(f"{what}: it is nested too deep")
    if _DEEP.search(found):
        raise deep
    try:
        return tomllib.loads(found.decode("utf-8-sig"))
    except RecursionError:
        raise deep from None
    except ValueError as error:  # that of a number too long is no TOMLDecodeError
        # The parser says where the line ended within quotes, not that one is missing.
        said = str(error).replace("Illegal character '\\n'", "a quote is not closed")
        raise UsageError(f"{what}: it is no TOML: {said}") from None


def table(value: object, where: str) -> dict[str, Any]:
    """A value that has to be a table; raises UsageError where it is none."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no table")
    return cast(dict[str, Any], value)

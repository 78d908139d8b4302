"""The project that a command or test run belongs to, and its baseline file.

Any pytest run of the environment may need this, so it imports only the standard library.
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

# The parser takes minutes for a key of 100,000 parts, without an error.
_DEEP = re.compile(rb"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""")


class Project(NamedTuple):
    """A folder and its settings."""

    root: Path
    file: Path | None
    """Its pyproject.toml, if it has one."""
    table: dict[str, Any]
    """The table `[tool.retrace]`, its contents unchecked."""

    @property
    def baseline(self) -> Path:
        """The baseline file, which may not exist."""
        named = self.table.get("baseline", BASELINE)
        if not isinstance(named, str) or not named.strip():
            raise UsageError(
                f'{self.file}: [tool.retrace] baseline must be a path such as "{BASELINE}", '
                f"not {named!r:.60}"
            )
        path = self.root / named
        root, real = os.path.realpath(self.root), os.path.realpath(path)
        if not real.startswith(os.path.join(root, "")):
            raise UsageError(
                f"the baseline {named:.200} is outside the project {self.root}: "
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
        # The substring test avoids parsing most baselines that have no tests.
        return b"tests" in found and "tests" in toml(found, f"{self.baseline} is not a baseline")


def around(start: Path, *, quick: bool = False) -> Project:
    """The project of a folder: the nearest pyproject.toml in it or a parent folder, if any.

    Args:
        start: the folder.
        quick: do not parse a file that never names retrace.

    Raises:
        UsageError: the file cannot be read.
    """
    for folder in (start, *start.parents):
        file = folder / FILE
        if os.path.lexists(file):  # never raises, even without permission for the folder
            return read(file, quick=quick)
    return Project(start, None, {})


def read(file: Path, *, quick: bool = False) -> Project:
    """The project of a pyproject.toml; raises UsageError if it cannot be read."""
    try:
        found = content(file)
    except FileNotFoundError:
        raise UsageError(f"cannot read {file}: no such file or directory") from None
    if quick and b"retrace" not in found:
        return Project(file.parent, file, {})
    tool = table(toml(found, str(file)).get("tool", {}), f"{file}: tool")
    return Project(file.parent, file, table(tool.get("retrace", {}), str(file)))


def content(file: Path, what: str = "") -> bytes:
    """The content of a file; raises UsageError if it exists but cannot be read."""
    try:
        return files.content(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {what}{file}: {files.reason(error)}") from None


def toml(found: bytes, what: str) -> dict[str, Any]:
    """Parse TOML; raises UsageError, starting with `what`, if it is invalid."""
    import tomllib

    deep = UsageError(f"{what}: it is nested too deeply")
    if _DEEP.search(found):
        raise deep
    try:
        return tomllib.loads(found.decode("utf-8-sig"))
    except RecursionError:
        raise deep from None
    except ValueError as error:  # not only TOMLDecodeError: a number may be too long
        # The parser only says that a line ended within quotes.
        reason = str(error).replace("Illegal character '\\n'", "a quote is not closed")
        raise UsageError(f"{what}: it is not valid TOML: {reason}") from None


def table(value: object, where: str) -> dict[str, Any]:
    """Check that a value is a table; raises UsageError if it is not."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a table")
    return cast(dict[str, Any], value)

"""The project that a command or a test run belongs to, and where its baseline lies.

Every pytest run of an environment may ask, so that the standard library is all it imports.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrace.errors import UsageError

FILE = "pyproject.toml"
BASELINE = "retrace-baseline.toml"


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
                f"not {named!r}"
            )
        return self.root / named

    @property
    def has_tests(self) -> bool:
        """Whether a baseline of tests seems to be there; quick, since most runs have none."""
        try:
            return b"\n[tests" in self.baseline.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UsageError(f"cannot read the baseline {self.baseline}: {reason}") from None


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
        if os.path.isfile(file):  # which never raises, whoever may look into the folder
            return read(file, quick=quick)
    return Project(start, None, {})


def read(file: Path, *, quick: bool = False) -> Project:
    """The project of a pyproject.toml; raises UsageError where that cannot be read."""
    import tomllib

    try:
        content = file.read_bytes()
        if quick and b"retrace" not in content:
            return Project(file.parent, file, {})
        parsed = tomllib.loads(content.decode())
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"cannot read {file}: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no TOML: {error}") from None
    tool = table(parsed.get("tool", {}), f"{file}: tool")
    return Project(file.parent, file, table(tool.get("retrace", {}), str(file)))


def table(value: object, where: str) -> dict[str, Any]:
    """A value that has to be a table; raises UsageError where it is none."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no table")
    return cast(dict[str, Any], value)

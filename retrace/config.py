"""The budgets of a project: `[tool.retrace]` in its pyproject.toml, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrace.budget import COUNTS, Budget, Selector, checked_causes, checked_limits, nearest
from retrace.causes import Cause
from retrace.errors import UsageError

_FILE = "pyproject.toml"
_KEYS = ("budgets",)
_OF_BUDGET = ("allow", "warmup")


class Settings(NamedTuple):
    """What a project asks of its recordings."""

    file: Path
    budgets: dict[str, Budget]
    """By the pattern as it is written."""


def find(start: Path) -> Path:
    """The nearest pyproject.toml from a directory upwards; raises UsageError."""
    for folder in (start, *start.parents):
        if (file := folder / _FILE).is_file():
            return file
    raise UsageError(f"there is no {_FILE} here or above: it holds the budgets, [tool.retrace]")


def load(file: Path) -> Settings:
    """The settings in a file.

    Args:
        file: a pyproject.toml.

    Raises:
        UsageError: the file cannot be read, has no budgets, or a key that is unknown.
    """
    try:
        with file.open("rb") as stream:
            read = tomllib.load(stream)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"cannot read {file}: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no TOML: {error}") from None
    table = _table(_table(read.get("tool", {}), f"{file}: tool").get("retrace", {}), str(file))
    _known(table, _KEYS, f"{file}: [tool.retrace]")
    budgets = _table(table.get("budgets", {}), f"{file}: budgets")
    if not budgets:
        raise UsageError(
            f'{file} has no budgets: write [tool.retrace.budgets."train_step"] and, below it, '
            "traces = 1"
        )
    return Settings(file, {pattern: _budget(pattern, budgets[pattern]) for pattern in budgets})


def _budget(pattern: str, given: object) -> Budget:
    where = f'[tool.retrace.budgets."{pattern}"]'
    table = _table(given, where)
    most = {key: value for key, value in table.items() if key not in _OF_BUDGET}
    _known(most, (*COUNTS, *_OF_BUDGET, *(cause.value for cause in Cause)), where)
    allow, warmup = table.get("allow", []), table.get("warmup", 0)
    if not isinstance(allow, list):
        raise UsageError(f"{where}: allow takes a list of causes, not {allow!r}")
    if type(warmup) is not int or warmup < 0:
        raise UsageError(f"{where}: warmup takes a number of misses, not {warmup!r}")
    if not most:
        raise UsageError(f"{where} has no limit: write traces = 1, or shape-changed = 3")
    return Budget(
        checked_limits(most, where),
        () if pattern == "*" else (Selector(pattern),),
        checked_causes(cast(list[str], allow), where),
        warmup,
    )


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no table")
    return cast(dict[str, Any], value)


def _known(table: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            guess = nearest(key, known) or f"; it takes {', '.join(known)}"
            raise UsageError(f"{where} has no key {key!r}{guess}")

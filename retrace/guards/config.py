"""Reads and checks the budgets in `[tool.retrace]` of a project's pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.guards.budget import (
    COUNTS,
    Budget,
    Selector,
    checked_causes,
    checked_limits,
)
from retrace.guards.project import Project, table
from retrace.present.words import nearest

_KEYS = ("budgets", "baseline")
_BUDGET_KEYS = ("allow", "warmup", "optional")


def budgets(project: Project) -> dict[str, Budget]:
    """The budgets of a project by pattern; may be empty.

    Raises:
        UsageError: a key is unknown or a value is invalid.
    """
    check_keys(project.table, _KEYS, f"{project.file}: [tool.retrace]")
    given = table(project.table.get("budgets", {}), f"{project.file}: budgets")
    return {pattern: _budget(pattern, given[pattern]) for pattern in given}


def _budget(pattern: str, given: object) -> Budget:
    where = f'[tool.retrace.budgets."{pattern}"]'
    own = table(given, where)
    limits = {key: value for key, value in own.items() if key not in _BUDGET_KEYS}
    check_keys(limits, (*COUNTS, *_BUDGET_KEYS, *(cause.value for cause in Cause)), where)
    allow, warmup = own.get("allow", []), own.get("warmup", 0)
    if not isinstance(allow, list):
        raise UsageError(f"{where}: allow must be a list of causes, not {allow!r}")
    if type(warmup) is not int or warmup < 0:
        raise UsageError(f"{where}: warmup must be a number of misses, not {warmup!r}")
    if type(optional := own.get("optional", False)) is not bool:
        raise UsageError(f"{where}: optional must be true or false, not {optional!r}")
    if not limits:
        raise UsageError(f"{where} has no limit: write traces = 1, or shape-changed = 3")
    return Budget(
        checked_limits(limits, where),
        () if pattern == "*" else (Selector(pattern),),
        checked_causes(cast(list[str], allow), where),
        warmup,
        optional,
    )


def check_keys(keys: Iterable[str], allowed: tuple[str, ...], where: str) -> None:
    """Raise UsageError for a key that is not allowed, suggesting the nearest one."""
    for key in keys:
        if key not in allowed:
            guess = nearest(key, allowed) or f"; it takes {', '.join(allowed)}"
            raise UsageError(f"{where} has no key {key!r}{guess}")

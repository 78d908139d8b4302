"""The budgets of a project: `[tool.retrace]` in its pyproject.toml, checked."""

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
_OF_BUDGET = ("allow", "warmup", "optional")


def budgets(project: Project) -> dict[str, Budget]:
    """The budgets of a project, by the pattern as it is written; there may be none.

    Raises:
        UsageError: there is a key that is unknown, or a value that makes no sense.
    """
    known(project.table, _KEYS, f"{project.file}: [tool.retrace]")
    given = table(project.table.get("budgets", {}), f"{project.file}: budgets")
    return {pattern: _budget(pattern, given[pattern]) for pattern in given}


def _budget(pattern: str, given: object) -> Budget:
    where = f'[tool.retrace.budgets."{pattern}"]'
    own = table(given, where)
    most = {key: value for key, value in own.items() if key not in _OF_BUDGET}
    known(most, (*COUNTS, *_OF_BUDGET, *(cause.value for cause in Cause)), where)
    allow, warmup = own.get("allow", []), own.get("warmup", 0)
    if not isinstance(allow, list):
        raise UsageError(f"{where}: allow takes a list of causes, not {allow!r}")
    if type(warmup) is not int or warmup < 0:
        raise UsageError(f"{where}: warmup takes a number of misses, not {warmup!r}")
    if type(optional := own.get("optional", False)) is not bool:
        raise UsageError(f"{where}: optional takes true or false, not {optional!r}")
    if not most:
        raise UsageError(f"{where} has no limit: write traces = 1, or shape-changed = 3")
    return Budget(
        checked_limits(most, where),
        () if pattern == "*" else (Selector(pattern),),
        checked_causes(cast(list[str], allow), where),
        warmup,
        optional,
    )


def known(keys: Iterable[str], allowed: tuple[str, ...], where: str) -> None:
    """Refuse a key that is not allowed, with the nearest one that is; raises UsageError."""
    for key in keys:
        if key not in allowed:
            guess = nearest(key, allowed) or f"; it takes {', '.join(allowed)}"
            raise UsageError(f"{where} has no key {key!r}{guess}")

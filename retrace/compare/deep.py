"""deepdiff, which compares plain data in depth, loaded where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from retrace.model import JSON

_OPTIONAL = ("numpy", "pandas", "polars", "pydantic")
"""What deepdiff imports wherever it is installed, to compare arrays and tables: 110 MB."""

_is_alone = False


def stand_alone() -> None:
    """From here on load deepdiff for plain data alone: in a process that is a command's own."""
    global _is_alone
    _is_alone = True


def levels(old: JSON, new: JSON) -> Iterator[Any]:
    """What differs between plain data, as the levels of deepdiff's tree."""
    # Without a threshold of 0, two dicts that share few keys come out as one change.
    tree: Any = _loaded().DeepDiff(old, new, threshold_to_diff_deeper=0, view="tree")
    for found in tree.values():
        yield from found


def is_absent(side: object) -> bool:
    """Whether a side of a level is not there."""
    return side is _loaded().helper.notpresent


def _loaded() -> Any:
    known: Any = sys.modules
    hidden = [name for name in _OPTIONAL if name not in known] if _is_alone else []
    known.update(dict.fromkeys(hidden))  # as if they were not installed
    try:
        import deepdiff

        return deepdiff
    finally:
        for name in hidden:
            del known[name]

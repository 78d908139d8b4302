"""deepdiff, which compares plain data in depth; loaded on demand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from retrace.model import JSON

_HEAVY_IMPORTS = ("numpy", "pandas", "polars", "pydantic")
"""What deepdiff imports if installed, to compare arrays and tables (110 MB)."""

_skips_heavy_imports = False


def skip_heavy_imports() -> None:
    """Load deepdiff without its heavy imports. Call it only in a command's own process."""
    global _skips_heavy_imports
    _skips_heavy_imports = True


def levels(old: JSON, new: JSON) -> Iterator[Any]:
    """The differences between plain data, as levels of deepdiff's tree."""
    # With a threshold above 0, two dicts that share few keys would give a single change.
    tree: Any = _deepdiff().DeepDiff(old, new, threshold_to_diff_deeper=0, view="tree")
    for found in tree.values():
        yield from found


def item_pairs(old: list[str], new: list[str]) -> Iterator[tuple[int | None, int | None]]:
    """The positions of items that differ in two lists of texts, after aligning equal ones.

    A position is None where an item was added or removed.
    """
    if old == new:
        return
    absent = _deepdiff().helper.notpresent
    for level in levels(old, new):
        before, after = level.up.t1_child_rel, level.up.t2_child_rel
        yield (
            None if level.t1 is absent else before.param,
            None if level.t2 is absent else after.param,
        )


def _deepdiff() -> Any:
    modules: Any = sys.modules
    hidden = (
        [name for name in _HEAVY_IMPORTS if name not in modules] if _skips_heavy_imports else []
    )
    modules.update(dict.fromkeys(hidden))  # pretend they are not installed
    try:
        import deepdiff

        return deepdiff
    finally:
        for name in hidden:
            del modules[name]

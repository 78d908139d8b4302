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


def is_absent(side: object) -> bool:
    """Whether a side of a level does not exist."""
    return side is _deepdiff().helper.notpresent


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

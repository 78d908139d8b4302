"""Long files of a recording are split: `k3x9f2a.jsonl` continues in `k3x9f2a.2.jsonl`.

Every segment starts with the header and contains the parts that its lines refer to, so the misses
that started in it can be read without the other segments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from retrace.regex import regex

MAX_BYTES = 64 << 20
"""Maximum size of a segment, unless a single line is longer."""

_NAME = regex(r"(.+)\.([2-9]|[1-9]\d{1,5})", re.DOTALL)


def after(path: Path) -> Path:
    """The path of the next segment."""
    name, number = _name_and_number(path)
    return path.with_name(f"{name}.{number + 1}{path.suffix}")


def all_of(first: Path) -> list[Path]:
    """A file and its later segments, up to the first one missing."""
    found = [first]
    while (following := after(found[-1])).is_file():
        found.append(following)
    return found


def firsts(paths: Iterable[Path]) -> list[Path]:
    """The first segment of each file, and segments whose predecessor is missing."""
    every = set(paths)
    return sorted(path for path in every if _before(path) not in every)


def first_of(path: Path) -> Path:
    """The first segment of a file, going back until one is missing."""
    while (before := _before(path)) is not None and before.is_file():
        path = before
    return path


def name_of(path: Path) -> str:
    """The name shared by all segments of a file, which is the id of its process."""
    return _name_and_number(path)[0]


def size(first: Path) -> int:
    """The total size of a file and its later segments, in bytes; raises OSError."""
    return sum(path.stat().st_size for path in all_of(first))


def _name_and_number(path: Path) -> tuple[str, int]:
    found = _NAME.fullmatch(path.stem)
    return (path.stem, 1) if found is None else (found[1], int(found[2]))


def _before(path: Path) -> Path | None:
    name, number = _name_and_number(path)
    if number == 1:
        return None
    return path.with_name(f"{name}{f'.{number - 1}' if number > 2 else ''}{path.suffix}")

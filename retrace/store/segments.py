"""Long files of a recording are cut: `k3x9f2a.jsonl` goes on in `k3x9f2a.2.jsonl`.

Every segment begins with the header and has the parts that its lines name, so that what one says
of misses that began in it can be read without the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

LONGEST = 64 << 20
"""Bytes that no segment exceeds, unless one of its lines does."""

_NAME = re.compile(r"(.+)\.([2-9]|[1-9]\d{1,5})", re.DOTALL)


def after(path: Path) -> Path:
    """The segment that follows one."""
    name, number = _taken_apart(path)
    return path.with_name(f"{name}.{number + 1}{path.suffix}")


def all_of(first: Path) -> list[Path]:
    """A file and the segments that it goes on in, as far as none is missing."""
    found = [first]
    while (following := after(found[-1])).is_file():
        found.append(following)
    return found


def firsts(paths: Iterable[Path]) -> list[Path]:
    """The first segment of each file, and each one before which one is missing."""
    every = set(paths)
    return sorted(path for path in every if _before(path) not in every)


def first_of(path: Path) -> Path:
    """The first segment of what a file is a segment of, as far as none is missing."""
    while (before := _before(path)) is not None and before.is_file():
        path = before
    return path


def name_of(path: Path) -> str:
    """The name that all segments of a file have, which is the id of its process."""
    return _taken_apart(path)[0]


def size(first: Path) -> int:
    """Bytes of a file and all segments that it goes on in; raises OSError."""
    return sum(path.stat().st_size for path in all_of(first))


def _taken_apart(path: Path) -> tuple[str, int]:
    found = _NAME.fullmatch(path.stem)
    return (path.stem, 1) if found is None else (found[1], int(found[2]))


def _before(path: Path) -> Path | None:
    name, number = _taken_apart(path)
    if number == 1:
        return None
    return path.with_name(f"{name}{f'.{number - 1}' if number > 2 else ''}{path.suffix}")

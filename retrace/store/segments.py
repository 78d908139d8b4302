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
    """A file and the segments that it goes on in, those that are there."""
    found = [first]
    name, number = _taken_apart(first)
    for path in first.parent.glob(f"{_escaped(name)}.*{first.suffix}"):
        other = _taken_apart(path)
        if other[0] == name and other[1] > number:
            found.append(path)
    return sorted(found, key=lambda path: _taken_apart(path)[1])


def firsts(paths: Iterable[Path]) -> list[Path]:
    """The first segment of each file; a later one where that is no longer there."""
    found: dict[tuple[Path, str], Path] = {}
    for path in sorted(paths, key=lambda path: _taken_apart(path)[1]):
        found.setdefault((path.parent, _taken_apart(path)[0]), path)
    return sorted(found.values())


def first_of(path: Path) -> Path:
    """The first segment of what a file is a segment of, where that is there."""
    first = path.with_name(f"{name_of(path)}{path.suffix}")
    return first if first.is_file() else path


def name_of(path: Path) -> str:
    """The name that all segments of a file have, which is the id of its process."""
    return _taken_apart(path)[0]


def size(first: Path) -> int:
    """Bytes of a file and all segments that it goes on in; raises OSError."""
    return sum(path.stat().st_size for path in all_of(first))


def _taken_apart(path: Path) -> tuple[str, int]:
    found = _NAME.fullmatch(path.stem)
    return (path.stem, 1) if found is None else (found[1], int(found[2]))


def _escaped(name: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", name)

"""The sizes of the user's data, as they stand in a file: one a line, a CSV column, or .npy.

An .npy file is read by its header: NumPy is not loaded to read a recording.
"""

from __future__ import annotations

import ast
import csv
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from retrace.errors import UsageError

_MAGIC = b"\x93NUMPY"
_MOST_BYTES = 1 << 28
_KINDS = {"i": "bhiq", "u": "BHIQ", "f": " efd"}


class Data:
    """How often each size is called, by the argument that it is of; empty where no file tells."""

    def __init__(self, sizes: dict[str | None, Counter[int]] | None = None) -> None:
        self._sizes: dict[str | None, Counter[int]] = sizes or {}
        self._used: set[str | None] = set()

    def of(self, names: Sequence[str], seen: Sequence[int]) -> tuple[dict[int, float], int]:
        """The weight of each size of a variable, and how many of the data were never called."""
        found = self._counted(names)
        if found is None:
            return dict.fromkeys(seen, 1.0), 0
        weights = {size: float(number) for size, number in found.items()}
        # What was called and is not in the data still has to fit somewhere.
        return weights | {size: 1.0 for size in seen if size not in weights}, len(
            found.keys() - set(seen)
        )

    def number(self, names: Sequence[str]) -> int | None:
        """So many sizes weigh this variable; None where no file tells."""
        found = self._counted(names)
        return None if found is None else sum(found.values())

    def unused(self) -> list[str]:
        """The arguments that were named and that no variable has."""
        return [name for name in self._sizes if name is not None and name not in self._used]

    def _counted(self, names: Sequence[str]) -> Counter[int] | None:
        for name, counted in self._sizes.items():
            if name is not None and any(
                told == name or told.startswith((f"{name} ", f"{name}[", f"{name}."))
                for told in names
            ):
                self._used.add(name)
                return counted
        return self._sizes.get(None)


def read(options: Sequence[str]) -> Data:
    """The sizes that `--sizes [ARG=]FILE[:COLUMN]` names; raises UsageError."""
    found: dict[str | None, Counter[int]] = {}
    for option in options:
        argument, file = _split(option)
        found[argument] = _sizes(file)
    return Data(found)


def _split(option: str) -> tuple[str | None, str]:
    if Path(option).exists():
        return None, option
    argument, equals, file = option.rpartition("=")
    return (argument or None, file) if equals else (None, option)


def _sizes(told: str) -> Counter[int]:
    path, column = Path(told), None
    if not path.exists():
        name, colon, column = told.rpartition(":")
        if colon:
            path = Path(name)
    try:
        if not path.is_file():
            what = "is no file" if path.exists() else "does not exist"
            raise UsageError(f"--sizes: {path} {what}")
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"--sizes: {path} is larger than 256 MiB")
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
        numbers = _npy(path) if begins == _MAGIC else _text(path, column)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"--sizes: cannot read {path}: {reason}") from None
    if not numbers:
        raise UsageError(f"--sizes: {path} has no sizes")
    return Counter(numbers)


def _text(path: Path, column: str | None) -> list[int]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error):
        raise UsageError(f"--sizes: {path} is neither text nor .npy") from None
    if not rows:
        return []
    at, head = _column(path, rows[0], column)
    return [_size(path, row[at] if at < len(row) else "", n) for n, row in _data(rows, head)]


def _data(rows: list[list[str]], head: bool) -> list[tuple[int, list[str]]]:
    return list(enumerate(rows, 1))[1 if head else 0 :]


def _column(path: Path, first: list[str], column: str | None) -> tuple[int, bool]:
    """Which column it is, and whether the first row names the columns."""
    names = [cell.strip() for cell in first]
    head = not all(_is_number(cell) for cell in names)
    if column is None:
        if len(names) > 1:
            named = ", ".join(names[:6]) if head else f"1 to {len(names)}"
            raise UsageError(f"--sizes: {path} has columns {named}: name one as {path}:COLUMN")
        return 0, head
    if head and column in names:
        return names.index(column), True
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return int(column) - 1, head
    raise UsageError(f"--sizes: {path} has no column {column!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _size(path: Path, text: str, line: int) -> int:
    try:
        number = float(text)
        size = int(number)
    except (ValueError, OverflowError):
        size, number = -1, 0.0
    if size < 0 or size != number:
        raise UsageError(f"--sizes: {path}, line {line}: {text[:40]!r} is no size")
    return size


def _npy(path: Path) -> list[int]:
    """The numbers of an .npy file of integers, or of floats that are whole."""
    content = path.read_bytes()
    try:
        major = content[6]
        wide = major >= 2
        begin = 12 if wide else 10
        (length,) = struct.unpack_from("<I" if wide else "<H", content, 8)
        header: Any = ast.literal_eval(content[begin : begin + length].decode("latin-1").strip())
        fields = cast(dict[str, Any], header)
        kind: str = fields["descr"]
        count = 1
        for size in fields["shape"]:
            count *= int(size)
        width = int(kind[2:])
        code = _KINDS[kind[1]][width.bit_length() - 1]
        order = ">" if kind[0] == ">" else "<"
        numbers = struct.unpack_from(f"{order}{count}{code}", content, begin + length)
    except (
        *(IndexError, KeyError, TypeError, ValueError, SyntaxError, MemoryError),
        *(RecursionError, struct.error),
    ):
        raise UsageError(f"--sizes: {path} is no .npy file of whole numbers") from None
    sizes: list[int] = []
    for number in numbers:
        if not 0 <= number < float("inf") or int(number) != number:
            raise UsageError(f"--sizes: {path} holds {number}, which is no size")
        sizes.append(int(number))
    return sizes

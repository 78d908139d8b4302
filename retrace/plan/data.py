"""Sizes of the user's data, read from a file: one a line, a CSV column, or .npy.

The header of an .npy file is parsed here, so that reading a recording does not load NumPy.
"""

from __future__ import annotations

import ast
import struct
from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeVar, cast

from retrace.errors import UsageError
from retrace.model.row import Row
from retrace.plan.corners import Size

_MAGIC = b"\x93NUMPY"
_MAX_BYTES = 1 << 28
_KINDS = {"i": "bhiq", "u": "BHIQ", "f": " efd"}


class Source(Row):
    """One column of a file."""

    path: Path
    numbers: tuple[int, ...]
    """In file order, because numbers on one row belong together."""


class Data:
    """How often each argument has each size; empty if no file says so."""

    def __init__(self, sources: dict[str | None, Source] | None = None) -> None:
        self._sources: dict[str | None, Source] = sources or {}
        self._used: set[str | None] = set()

    def of(self, names: Sequence[str], seen: Sequence[int]) -> tuple[dict[int, float], int]:
        """The weight of each size of a variable, and the number of sizes never called."""
        source = self._found(names) or self._sources.get(None)
        if source is None:
            return dict.fromkeys(seen, 1.0), 0
        return _weighed(source.numbers, seen)

    def number(self, names: Sequence[str]) -> int | None:
        """The number of sizes that give the variable its weights, or None without a file."""
        source = self._found(names) or self._sources.get(None)
        return None if source is None else len(source.numbers)

    def together(
        self, axes: Sequence[Sequence[str]], seen: Sequence[Size]
    ) -> tuple[dict[Size, float], int, int] | None:
        """The weight of each combination of sizes, the rows read, and how many were never called.

        Args:
            axes: for each length, the arguments and axes that have it.
            seen: the combinations that were called.

        Returns:
            None unless each length has its own column in one file: rows of two files need not
            belong together.
        """
        sources = [self._found(names) for names in axes]
        known = [source for source in sources if source is not None]
        if len(known) < len(axes) or len({id(source) for source in known}) < len(axes):
            return None
        if len({source.path.resolve() for source in known}) > 1:
            return None
        rows = list(zip(*(source.numbers for source in known), strict=True))
        weights, beyond = _weighed(rows, seen)
        return weights, len(rows), beyond

    def unused(self) -> list[str]:
        """Named arguments that match no variable."""
        return [name for name in self._sources if name is not None and name not in self._used]

    def _found(self, names: Sequence[str]) -> Source | None:
        """The file for one of the names: an exact match with axis first, then any axis."""
        for matches in (_is_exactly, _has_axis):
            for name, source in self._sources.items():
                if name is not None and any(matches(one, name) for one in names):
                    self._used.add(name)
                    return source
        return None


def _is_exactly(axis: str, name: str) -> bool:
    return axis == name


def _has_axis(axis: str, name: str) -> bool:
    return axis.startswith((f"{name} ", f"{name}[", f"{name}."))


_Sized = TypeVar("_Sized", int, Size)


def _weighed(
    numbers: Sequence[_Sized], seen: Sequence[_Sized]
) -> tuple[dict[_Sized, float], int]:
    weights = {size: float(number) for size, number in Counter(numbers).items()}
    # Sizes that were called but are not in the data still have to fit somewhere.
    more = {size: 1.0 for size in seen if size not in weights}
    return weights | more, len(weights.keys() - set(seen))


def read(options: Sequence[str]) -> Data:
    """Read the sizes that `--sizes [ARG=]FILE[:COLUMN]` names; raise UsageError if it fails."""
    found: dict[str | None, Source] = {}
    for option in options:
        argument, file = _split(option)
        if argument in found:
            what = "all arguments" if argument is None else repr(argument)
            raise UsageError(
                f"--sizes: {what} given twice; name an axis, as in 'ids axis 1=FILE'"
            )
        found[argument] = _sizes(file)
    return Data(found)


def _split(option: str) -> tuple[str | None, str]:
    if Path(option).exists():
        return None, option
    argument, equals, file = option.rpartition("=")
    return (argument or None, file) if equals else (None, option)


def _sizes(option: str) -> Source:
    path, column = Path(option), None
    if not path.exists():
        name, colon, column = option.rpartition(":")
        if colon:
            path = Path(name)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"--sizes: {path} {what}")
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"--sizes: {path} is larger than 256 MiB")
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
        numbers = _npy(path, column) if begins == _MAGIC else _text(path, column)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"--sizes: cannot read {path}: {reason}") from None
    if not numbers:
        raise UsageError(f"--sizes: {path} has no sizes")
    return Source(path, tuple(numbers))


def _text(path: Path, column: str | None) -> list[int]:
    import csv  # only for `--sizes`

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
    """The index of the column, and whether the first row holds column names."""
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
        raise UsageError(f"--sizes: {path}, line {line}: {text[:40]!r} is not a size")
    return size


def _npy(path: Path, column: str | None) -> list[int]:
    """The numbers in an .npy file of integers or whole floats."""
    content = path.read_bytes()
    try:
        major = content[6]
        wide = major >= 2
        begin = 12 if wide else 10
        (length,) = struct.unpack_from("<I" if wide else "<H", content, 8)
        header: Any = ast.literal_eval(content[begin : begin + length].decode("latin-1").strip())
        fields = cast(dict[str, Any], header)
        kind: str = fields["descr"]
        shape = [int(size) for size in fields["shape"]]
        count = prod(shape)
        width = int(kind[2:])
        code = _KINDS[kind[1]][width.bit_length() - 1]
        order = ">" if kind[0] == ">" else "<"
        numbers = struct.unpack_from(f"{order}{count}{code}", content, begin + length)
    except (
        *(IndexError, KeyError, TypeError, ValueError, SyntaxError, MemoryError),
        *(RecursionError, struct.error),
    ):
        raise UsageError(f"--sizes: {path} is not an .npy file of whole numbers") from None
    sizes: list[int] = []
    for number in _of_column(path, numbers, shape, bool(fields.get("fortran_order")), column):
        if not 0 <= number < float("inf") or int(number) != number:
            raise UsageError(f"--sizes: {path} holds {number}, which is not a size")
        sizes.append(int(number))
    return sizes


def _of_column(
    path: Path, numbers: Sequence[float], shape: list[int], by_column: bool, column: str | None
) -> Sequence[float]:
    """The numbers of one column, if there are several."""
    width = shape[1] if len(shape) == len(("rows", "columns")) else 1
    if column is None:
        if width > 1:
            raise UsageError(
                f"--sizes: {path} has columns 1 to {width}: name one as {path}:COLUMN"
            )
        return numbers
    if not column.isdecimal() or not 1 <= int(column) <= width:
        raise UsageError(f"--sizes: {path} has no column {column!r}")
    at = int(column) - 1
    return numbers[at * shape[0] : (at + 1) * shape[0]] if by_column else numbers[at::width]

"""The text of programs: each written once, and read on demand.

It is in a file next to the recording of a process (`k3x9f2a.programs`), or among its lines if
the recording is in memory. A line holds the programs of one miss:

    {"listings": [ID, ...], "block": {"texts": [...], "frames": [...], "programs": [...]}}

A long block is `"packed"` instead: compressed with zlib, in base 64. Texts and frames are written
once per block. A variable is written as the number of definitions since its own, so repetitions
in a program repeat in the file.
"""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from retrace.model import Frame, Listing, Run, Stack
from retrace.regex import regex
from retrace.store.bounded_lines import lines
from retrace.store.decoded import decoded
from retrace.store.files import opened
from retrace.store.schema import MAX_ITEMS, MAX_LINE_BYTES, check_items
from retrace.store.segments import all_of

BEGINNING = '{"listings":'
PACKED = ',"packed":"'
SUFFIX = ".programs"

_MAX_NUMBER = 1 << 62
_WHOLE, _TEXT = {int}, {str}
_MAX_BLOCK_BYTES = 1 << 27
"""Maximum size of an unpacked block, in bytes."""
_MAX_CACHE_BYTES = 1 << 28
"""Maximum size of the unpacked blocks that a reader keeps; the oldest are dropped first."""
_MAX_UNPACKED = 1 << 32
"""Maximum number of bytes that a reader unpacks in total: a hostile block may unpack to a
thousand times its size."""
_AHEAD_BYTES = 1 << 16
"""Minimum number of bytes read at once."""
_ID = regex(r'"([^"\\]+)"')
_NONSENSE = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
    zlib.error,
)
"""What decoding raises on invalid data."""
_UNREADABLE = "unreadable programs"


def shape_of(text: str) -> tuple[int, int]:
    """How many variables an equation takes and defines."""
    _, arguments, results, *_ = text.split("\t", 3)
    return arguments.split(" ").count("$"), len(results.split(" ")) if results else 0


def decode(line: str) -> Iterator[Listing]:
    """Decode the listings of a line; raises one of `_NONSENSE` on invalid data."""
    yield from _listings(_unpacked(line))


def _unpacked(line: str) -> str:
    """Return the block of a line, unpacked."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("line too long")
    start = line.find(PACKED, 0, line.find("]") + len(PACKED) + 1)
    if start < 0:
        return line
    unpacking = zlib.decompressobj()
    packed = line[start + len(PACKED) : -len('"}')]
    data = unpacking.decompress(b64decode(packed), _MAX_BLOCK_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError("block too long")
    return data.decode(errors="surrogatepass")


def _listings(text: str) -> Iterator[Listing]:
    check_items(text)
    block = decoded(text)
    block = block.get("block", block)
    texts = [*_texts(block["texts"])]
    if sum(text.count(" ") for text in texts) > MAX_ITEMS:  # `_shape` splits them
        raise ValueError("too many variables")
    shapes = [shape_of(text) for text in texts]
    frames = [_frame(row) for row in block["frames"]]
    for row in block["programs"]:
        yield _listing(row, texts, shapes, frames)


def _listing(
    row: Any, texts: list[str], shapes: list[tuple[int, int]], frames: list[Frame]
) -> Listing:
    id_, hash_, size, types, constants, equations, wires, places, stacks, outputs, inner = row
    _check_whole(size, *equations, *wires, *places)
    made = len(inputs := _texts(types))
    absolute: list[int] = []
    distances = iter(wires)
    indices: list[int] = equations
    for index in indices:
        taken, results = shapes[index]
        for _ in range(taken):
            distance = next(distances, 0)
            if not 0 < distance <= made:
                raise ValueError("undefined variable")
            absolute.append(made - distance)
        made += results
    rows: list[list[int]] = stacks
    known: tuple[Stack, ...] = tuple([tuple([frames[i] for i in row]) for row in rows])
    if places and (len(places) != len(equations) or not 0 <= min(places) <= max(places)):
        raise ValueError("places do not match equations")
    if places and max(places) >= len(known):
        raise ValueError("undefined place")
    return Listing(
        id=_text(id_),
        hash=_text(hash_),
        size=min(max(0, size), _MAX_NUMBER),
        inputs=inputs,
        constants=_texts(constants),
        equations=[texts[index] for index in indices],
        wires=absolute,
        places=list(places),
        stacks=known,
        outputs=_texts(outputs),
        inner={_text(name): _text(id_) for name, id_ in inner.items()},
    )


def _check_whole(*numbers: Any) -> None:
    if not _WHOLE.issuperset(map(type, numbers)):
        raise TypeError("whole numbers expected")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text expected")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not _TEXT.issuperset(map(type, values)):
        raise TypeError("texts expected")
    return tuple(values)


def _frame(row: Any) -> Frame:
    file, line, function, first, library = row
    _check_whole(line, first)
    line, first = min(line, _MAX_NUMBER), min(first, _MAX_NUMBER)
    return Frame(_text(file), line, _text(function), first, bool(library))


class _Block(NamedTuple):
    """A line with programs: its text, or its position in a file."""

    run: Run | None
    text: str | None = None
    path: Path | None = None
    offset: int = 0
    length: int = 0


class _Ahead:
    """Reads lines of files, a little further than asked: they are usually needed in order."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._offset = 0
        self._data = b""

    def line(self, block: _Block) -> str:
        """Return the line of a block; raises ValueError if its file cannot be read."""
        if block.path is None:
            return block.text or ""
        start = block.offset - self._offset
        if block.path is not self._path or not 0 <= start <= len(self._data) - block.length:
            try:
                with opened(block.path) as file:
                    file.seek(block.offset)
                    self._data = file.read(max(block.length, _AHEAD_BYTES))
            except OSError as error:
                raise ValueError("the file is gone") from error
            self._path, self._offset, start = block.path, block.offset, 0
        return self._data[start : start + block.length].decode(errors="replace")


class Library(Mapping[str, Listing]):
    """The programs of a recording; nothing is read before the first is requested.

    What cannot be read is counted in the losses of its run.
    """

    def __init__(self) -> None:
        self._paths: list[tuple[Path, Run]] = []
        self._lines: list[_Block] = []
        self._blocks: dict[str, _Block] = {}
        """The line that holds a listing, by its id."""
        self._ahead = _Ahead()
        self._kept: dict[int, tuple[_Block, int, dict[str, Listing]]] = {}
        """For each line, by identity: the line, the length of its block, and its listings."""
        self._size = 0
        """Total length of the blocks that are kept."""
        self._unpacked = 0
        self._unreadable: dict[int | str, _Block] = {}
        """Unreadable lines by identity, and ids of listings that are missing in their lines."""

    def add_file(self, path: Path, run: Run) -> None:
        """Add the programs of a file, if it exists, and of its later segments."""
        self._paths.append((path, run))

    def add_line(self, line: str) -> None:
        """Add the programs of a line."""
        self._lines.append(_Block(None, line))

    def get(self, listing: str, default: object = None) -> Any:
        """The listing, or the default: what `Mapping` does, for what is asked for most often."""
        if (kept := self._kept.get(id(self._blocks.get(listing)))) and listing in kept[2]:
            return kept[2][listing]
        try:
            return self[listing]
        except KeyError:
            return default

    def __getitem__(self, listing: str) -> Listing:
        if self._paths or self._lines:
            self._index()
        block = self._blocks[listing]
        if id(block) in self._unreadable or listing in self._unreadable:
            raise KeyError(listing)
        try:
            found = self._decoded(block)
        except _NONSENSE:
            self._unreadable[id(block)] = block
            _lose(block.run)
            raise KeyError(listing) from None
        if listing not in found:
            self._unreadable[listing] = block
            _lose(block.run)
        return found[listing]

    def __iter__(self) -> Iterator[str]:
        self._index()
        return iter(self._blocks)

    def __len__(self) -> int:
        self._index()
        return len(self._blocks)

    def __contains__(self, listing: object) -> bool:
        self._index()
        return listing in self._blocks

    def _decoded(self, block: _Block) -> dict[str, Listing]:
        if (kept := self._kept.get(id(block))) is not None:
            return kept[2]
        if self._unpacked > _MAX_UNPACKED:
            raise ValueError("too much data")
        text = _unpacked(self._ahead.line(block))
        self._unpacked += len(text)
        found = {listing.id: listing for listing in _listings(text)}
        self._kept[id(block)] = block, len(text), found
        self._size += len(text)
        while self._size > _MAX_CACHE_BYTES:
            self._size -= self._kept.pop(next(iter(self._kept)))[1]
        return found

    def _index(self) -> None:
        paths, self._paths, lines, self._lines = self._paths, [], self._lines, []
        for block in lines:
            self._index_line(block.text or "", block)
        for first, run in paths:
            for path in all_of(first):
                try:
                    if path.is_file():  # missing if recorded without programs
                        self._index_file(path, run)
                except OSError:
                    _lose(run)

    def _index_file(self, path: Path, run: Run) -> None:
        offset = 0
        with opened(path) as file:
            for data, size in lines(file):
                if data is None:
                    _lose(run)
                elif data.endswith(b"\n"):  # the last line may be incomplete
                    block = _Block(run, None, path, offset, size - 1)
                    self._index_line(data[:-1].decode(errors="replace"), block)
                offset += size

    def _index_line(self, line: str, block: _Block) -> None:
        if line.startswith(BEGINNING) and line.endswith("}"):
            ids = line[len(BEGINNING) : line.find("]", len(BEGINNING))]
            try:
                check_items(ids)
            except ValueError:
                _lose(block.run)
                return
            for found in _ID.finditer(ids):
                self._blocks.setdefault(found[1], block)
        elif line:
            _lose(block.run)


def _lose(run: Run | None) -> None:
    if run is not None:
        run.losses[_UNREADABLE] = run.losses.get(_UNREADABLE, 0) + 1

"""The text of programs: written once per content, read when it is asked for.

It lies beside the recording of a process (`k3x9f2a.programs`), or among its lines
where that is kept in memory. A line holds the programs that one miss brought:

    {"listings": [ID, ...], "block": {"texts": [...], "frames": [...], "programs": [...]}}

where a long block is `"packed"`: compressed with zlib, in base 64. Texts and frames
are written once a block; the variables of an equation are told by how many
definitions ago they were made, which repeats where the program does.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrace.model import Frame, Listing, Stack

if TYPE_CHECKING:
    from retrace.store.writer import Sink

BEGINNING = '{"listings":'
SUFFIX = ".programs"

_PACKED_FROM = 4096
_LONGEST_BLOCK = 1 << 29
"""Characters that a reader unpacks at most."""
_MOST_HELD = 2_000_000
"""Equations that a library keeps unpacked, beyond those of the latest blocks."""
_FEWEST_BLOCKS = 4
_ID = re.compile(r'"([^"\\]+)"')
_NONSENSE = (TypeError, ValueError, LookupError, AttributeError, OverflowError, zlib.error)


class Shelf:
    """Where one process puts the text of its programs."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: set[str] = set()
        self._open = False

    def put(self, listings: Iterable[Listing]) -> None:
        """Write those that are not written yet, in one append. Raises OSError."""
        new = [listing for listing in listings if listing.id not in self._known]
        if not new:
            return
        line = encode(new)
        if not self._open:
            self._sink.open()
            self._open = True
        self._sink.write(line)
        self._known.update(listing.id for listing in new)

    def close(self) -> None:
        """Let go of the file; a later program opens it again."""
        if self._open:
            self._open = False
            self._sink.close()


def encode(listings: Sequence[Listing]) -> str:
    """The line that holds some listings."""
    texts: dict[str, int] = {}
    frames: dict[Frame, int] = {}
    programs: list[object] = []
    for listing in listings:
        stacks = [
            [frames.setdefault(frame, len(frames)) for frame in stack] for stack in listing.stacks
        ]
        programs.append(
            [
                listing.id,
                listing.hash,
                listing.size,
                listing.inputs,
                listing.constants,
                [texts.setdefault(text, len(texts)) for text in listing.equations],
                _relative(listing),
                listing.places,
                stacks,
                listing.outputs,
                listing.inner,
            ]
        )
    block = _dumps({"texts": list(texts), "frames": list(frames), "programs": programs})
    ids = _dumps([listing.id for listing in listings])
    if len(block) < _PACKED_FROM:
        return f'{BEGINNING}{ids},"block":{block}}}'
    packed = b64encode(zlib.compress(block.encode(), 6)).decode()
    return f'{BEGINNING}{ids},"packed":"{packed}"}}'


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _shape(text: str) -> tuple[int, int]:
    """How many variables an equation takes and makes."""
    _, arguments, results, *_ = text.split("\t", 3)
    return arguments.split(" ").count("$"), len(results.split(" ")) if results else 0


def _relative(listing: Listing) -> list[int]:
    shapes = {text: _shape(text) for text in set(listing.equations)}
    made = len(listing.inputs)
    wires = iter(listing.wires)
    found: list[int] = []
    for text in listing.equations:
        taken, results = shapes[text]
        for _ in range(taken):
            found.append(made - next(wires))  # noqa: PERF401 - the quickest form here
        made += results
    return found


def decode(line: str) -> Iterator[Listing]:
    """The listings of a line; raises one of `_NONSENSE` on what is not ours."""
    fields = json.loads(line)
    block = fields.get("block")
    if block is None:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b64decode(fields["packed"]), _LONGEST_BLOCK)
        if unpacking.unconsumed_tail:
            raise ValueError("a block too long")
        block = json.loads(data)
    texts: list[str] = [*map(_text, block["texts"])]
    shapes = [_shape(text) for text in texts]
    frames = [_frame(row) for row in block["frames"]]
    for row in block["programs"]:
        yield _listing(row, texts, shapes, frames)


def _listing(
    row: Any, texts: list[str], shapes: list[tuple[int, int]], frames: list[Frame]
) -> Listing:
    id_, hash_, size, types, constants, equations, wires, places, stacks, outputs, inner = row
    inputs = tuple([_text(type_) for type_ in types])
    made = len(inputs)
    absolute: list[int] = []
    distances = iter(wires)
    for index in equations:
        taken, results = shapes[int(index)]
        for _ in range(taken):
            distance = next(distances, 0)
            if not 0 < distance <= made:
                raise ValueError("a variable of nowhere")
            absolute.append(made - distance)
        made += results
    rows = cast(list[list[int]], stacks)
    known: tuple[Stack, ...] = tuple([tuple([frames[i] for i in row]) for row in rows])
    if places and (len(places) != len(equations) or not 0 <= min(places) <= max(places)):
        raise ValueError("places that do not fit")
    if places and max(places) >= len(known):
        raise ValueError("a place of nowhere")
    return Listing(
        id=_text(id_),
        hash=_text(hash_),
        size=max(0, int(size)),
        inputs=inputs,
        constants=tuple(map(_text, constants)),
        equations=[texts[index] for index in equations],
        wires=absolute,
        places=list(places),
        stacks=known,
        outputs=tuple(map(_text, outputs)),
        inner={_text(name): _text(id_) for name, id_ in inner.items()},
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text expected")
    return value


def _frame(row: Any) -> Frame:
    file, line, function, first, library = row
    return Frame(_text(file), int(line), _text(function), int(first), bool(library))


def _held(block: list[Listing]) -> int:
    return sum(len(listing.equations) for listing in block)


class Library(Mapping[str, Listing]):
    """The programs of a recording; nothing is read before the first is asked for."""

    def __init__(self) -> None:
        self._paths: list[Path] = []
        self._lines: list[str] = []
        self._blocks: dict[str, str] = {}
        """The line that holds a listing, by the listing's id."""
        self._listings: dict[str, Listing] = {}
        self._unpacked: dict[str, list[Listing]] = {}
        """The listings that were unpacked of a line, the latest line last."""

    def add_file(self, path: Path) -> None:
        """Look for programs in a file too, if it exists."""
        self._paths.append(path)

    def add_line(self, line: str) -> None:
        """Take in a line as it was written."""
        self._lines.append(line)

    def __getitem__(self, id: str) -> Listing:
        self._index()
        found = self._listings.get(id)
        if found is None:
            line = self._blocks[id]
            try:
                self._unpack(line)
            except _NONSENSE:
                self._forget(line)
            found = self._listings[id]
        return found

    def _unpack(self, line: str) -> None:
        found = list(decode(line))
        self._unpacked[line] = found
        self._listings.update({listing.id: listing for listing in found})
        held = sum(_held(block) for block in self._unpacked.values())
        while held > _MOST_HELD and len(self._unpacked) > _FEWEST_BLOCKS:
            block = self._unpacked.pop(next(iter(self._unpacked)))
            held -= _held(block)
            for listing in block:
                self._listings.pop(listing.id, None)

    def __iter__(self) -> Iterator[str]:
        self._index()
        return iter(self._blocks)

    def __len__(self) -> int:
        self._index()
        return len(self._blocks)

    def __contains__(self, id: object) -> bool:
        self._index()
        return id in self._blocks

    def _forget(self, line: str) -> None:
        blocks = self._blocks.items()
        self._blocks = {known: held for known, held in blocks if held is not line}

    def _index(self) -> None:
        paths, self._paths = self._paths, []
        lines, self._lines = self._lines, []
        for path in paths:
            try:
                lines += path.read_text(encoding="utf-8", errors="replace").split("\n")
            except OSError:
                continue  # recorded by an older retrace, or removed
        for line in lines:
            if not line.startswith(BEGINNING):
                continue
            end = line.find("]", len(BEGINNING))
            if line.endswith("}"):  # else torn off
                for found in _ID.findall(line, len(BEGINNING), end):
                    self._blocks.setdefault(found, line)

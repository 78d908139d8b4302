"""Writes the text of one process's programs, in the form that `programs` describes and reads."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from retrace.model import Frame, Listing
from retrace.store.programs import BEGINNING, PACKED, shape_of

if TYPE_CHECKING:
    from retrace.store.writer import Sink

_MIN_PACKED = 1024
_MAX_KNOWN = 1 << 16
"""Maximum number of ids that a writer keeps (about 10 MB); then it starts over."""


class Shelf:
    """Writes the text of one process's programs."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: set[str] = set()
        self._waiting: deque[str] = deque()
        self._open = False

    def holds(self, id: str) -> bool:
        """Whether a program has already been written."""
        return id in self._known

    def add(self, listings: Iterable[Listing]) -> None:
        """Take those that are not written yet; `settle` appends them."""
        new = [listing for listing in listings if listing.id not in self._known]
        if not new:
            return
        self._waiting.append(encode(new))
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known.update(listing.id for listing in new)

    def settle(self) -> None:
        """Append what was taken, in a single write. Raises OSError."""
        waiting: list[str] = []
        while self._waiting:
            waiting.append(self._waiting.popleft())
        if not waiting:
            return
        if not self._open:
            self._sink.open()
            self._open = True
        self._sink.write("\n".join(waiting))

    def close(self) -> None:
        """Close the file without writing; a later program opens it again."""
        self._waiting.clear()
        if self._open:
            self._open = False
            self._sink.close()


def encode(listings: Sequence[Listing]) -> str:
    """Encode listings as one line."""
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
    if len(block) < _MIN_PACKED:
        return f'{BEGINNING}{ids},"block":{block}}}'
    packed = b64encode(zlib.compress(block.encode(), 6)).decode()
    return f'{BEGINNING}{ids}{PACKED}{packed}"}}'


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _relative(listing: Listing) -> list[int]:
    shapes = {text: shape_of(text) for text in set(listing.equations)}
    made = len(listing.inputs)
    wires = iter(listing.wires)
    found: list[int] = []
    for text in listing.equations:
        taken, results = shapes[text]
        for _ in range(taken):
            found.append(made - next(wires))  # noqa: PERF401 - the fastest form here
        made += results
    return found

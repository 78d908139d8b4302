"""Writes the lines of one process's recording, as its misses happen.

There is no lock: a signal handler, a finaliser or another thread may enter at any
point, and a forked child may find a lock held by a thread that it does not have.
Every line goes out in one append; two threads that meet a new part at once write
it twice, under two numbers, which costs a line and harms nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import count
from json import JSONEncoder
from typing import Protocol

from retrace.model import JSON, Run
from retrace.store.schema import FORMAT, LONGEST_LINE, encode_run

RETRY_SECONDS = 1.0
"""How long a recording that cannot be written is left alone before the next attempt."""

_KNOWN_PARTS = 1 << 16
"""So many digests are kept (about 10 MB); after that, parts are written again."""

_encode: Callable[[object], str] = JSONEncoder(separators=(",", ":")).encode


class Sink(Protocol):
    """Where lines go."""

    def open(self) -> bool:
        """Make ready to write; True where nothing is written yet. Raises OSError."""
        ...

    def write(self, line: str) -> None:
        """Append one line, given without its newline. Raises OSError."""
        ...

    def close(self) -> None:
        """Let go of what `open` took; never raises."""
        ...


class Writer:
    """The recording of one process.

    The first failure to write is raised once, as the OSError that it is, from
    whichever method meets it. From then on lines are counted as lost, the sink is
    tried again about once a second, and the recording says how many are missing.
    In a forked child every method does nothing: the file is the parent's.
    """

    def __init__(self, sink: Sink, run: Run) -> None:
        """Begin the recording of `run` with its header; never raises OSError."""
        self.run = run
        self.failure: OSError | None = None
        """Why nothing can be written at present; None where all is well."""
        self.lost = 0
        """Lines lost since the last one that was written; a part counts with its misses."""
        self._sink = sink
        self._told = False
        self._open = False
        self._headed = False
        self._retry_at = 0.0
        self._pid = os.getpid()
        self._parts: dict[bytes, int] = {}
        self._numbers = count()
        try:
            self._begin()
        except OSError as error:
            self._fail(error)

    def part(self, kind: str, value: JSON) -> int:
        """Write a part unless an equal one is written; its number."""
        text = _encode(value)
        digest = blake2b(f"{kind} {text}".encode(), digest_size=16).digest()
        number = self._parts.get(digest)
        if number is None:
            number = next(self._numbers)
            if self._put(f'{{"part":{number},"kind":"{kind}","value":{text}}}', part=True):
                if len(self._parts) >= _KNOWN_PARTS:
                    self._parts.clear()
                self._parts[digest] = number
        return number

    def miss(self, number: int, fields: Mapping[str, JSON]) -> None:
        """Write that a miss began; its parts by their numbers."""
        self._put(_encode({"miss": number, **fields}))

    def amend(self, number: int, fields: Mapping[str, JSON]) -> None:
        """Write what became known of a miss later."""
        self._put(_encode({"amend": number, **fields}))

    def amend_run(self, fields: Mapping[str, JSON]) -> None:
        """Write what became known of the run later: its `backend`, its `process_index`."""
        self._put(_encode({"run": fields}))

    def loss(self, reason: str, number: int = 1) -> None:
        """Write that something could not be recorded, `number` times."""
        self._put(_encode(_loss(reason, number)))

    def end(self) -> None:
        """Write that the recording is closed, and close it; a later line opens it again."""
        self._retry_at = 0.0
        try:
            self._put('{"end":true}')
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file and write nothing, as a forked child does before its own."""
        self._open = False
        self._sink.close()

    def _put(self, line: str, part: bool = False) -> bool:
        if os.getpid() != self._pid:
            return False
        if len(line) >= LONGEST_LINE:
            line = _encode(_loss("too large to be recorded", 1))
        if self.failure is not None and time.monotonic() < self._retry_at:
            self.lost += not part
            self._tell()
            return False
        try:
            if not self._open:
                self._begin()
            self._sink.write(line)
        except OSError as error:
            self.lost += not part
            self._fail(error)
            self._tell()
            return False
        return True

    def _begin(self) -> None:
        if self._sink.open() or not self._headed:
            self._parts.clear()
            self._sink.write(_encode({"retrace": FORMAT, "run": encode_run(self.run)}))
            self._headed = True
        if (failure := self.failure) is not None and self.lost:
            reason = f"not written: {failure.strerror or type(failure).__name__}"
            self._sink.write(_encode(_loss(reason, self.lost)))
            self.lost = 0
        self.failure = None
        self._open = True

    def _fail(self, error: OSError) -> None:
        self._open = False
        self._parts.clear()  # the next attempt may begin a new file
        self.failure = error
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _tell(self) -> None:
        if not self._told and self.failure is not None:
            self._told = True
            raise self.failure


def _loss(reason: str, number: int) -> dict[str, JSON]:
    return {"loss": reason} if number == 1 else {"loss": reason, "count": number}

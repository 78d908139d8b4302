"""Writes the lines of one process's recording, as its misses happen.

There is no lock: a signal handler, a finaliser or another thread may enter at any point, and a
forked child may inherit a lock held by a thread that it does not have. Every line is written in
one append. Those that the writing thread makes one after the other are appended together: with
each append it lets go of the interpreter, and takes it from the program again. Two threads that
meet a new part at the same time write it twice, with two numbers, which costs a line but does no
harm.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from json import encoder
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from retrace.model import JSON, Leaf, Listing, Run
from retrace.store.fields import encode_fields
from retrace.store.header import RUN, encode_run
from retrace.store.leaves import without_shapes
from retrace.store.schema import FORMAT, MAX_LINE_BYTES, TOO_LARGE
from retrace.store.shelf import Shelf

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

RETRY_SECONDS = 1.0
"""How long to wait before trying again to write a recording that cannot be written."""

_MAX_SHARED = 1 << 10
_MAX_WAITING, _MAX_WAITING_LENGTH = 64, 1 << 14
"""Maximum number of lines that wait to be appended together, and of the characters of one:
together they are no longer than what a full segment leaves room for."""
_MAX_PARTS = 1 << 16
"""Maximum number of digests kept (about 10 MB); then it starts over."""


def _encode_type(value: object) -> str:
    # It should be plain data by now. Write only its type, and count that as a loss.
    name = type(value).__name__
    _unencodable_types.append(name)
    return f"<{name}>"


_unencodable_types: list[str] = []


def _encoder() -> Callable[[object], str]:
    # `JSONEncoder.encode` spends half of its time creating such an encoder for each line.
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return encoder.JSONEncoder(separators=(",", ":"), default=_encode_type).encode
    default = _encode_type
    text = encoder.encode_basestring_ascii
    pieces: Callable[[object, int], tuple[str, ...]] = make(
        None, default, text, None, ":", ",", False, False, True
    )
    return lambda value: "".join(pieces(value, 0))


_encode = _encoder()
_NOTHING: Mapping[str, object] = MappingProxyType({})


class Sink(Protocol):
    """Where lines go."""

    def open(self) -> bool:
        """Prepare to write; return True if nothing has been written yet. Raises OSError."""
        ...

    def write(self, line: str) -> None:
        """Append one line, given without its newline. Raises OSError."""
        ...

    def close(self) -> None:
        """Release what `open` acquired; never raises."""
        ...


class Writer:
    """The recording of one process.

    The first failure to write is raised once, as an OSError, by the method that meets it. From
    then on lines are counted as lost, the sink is retried about once a second, and the recording
    states how many lines are missing. In a forked child every method does nothing: the file
    belongs to the parent.
    """

    def __init__(
        self,
        sink: Sink,
        run: Run,
        programs: Sink | None = None,
        redaction: Redaction | None = None,
        turn: Callable[[Callable[[], None]], bool] | None = None,
    ) -> None:
        """Start the recording of `run` with its header; never raises OSError.

        Args:
            sink: where lines go.
            run: the process.
            programs: where the text of programs goes; without it, no text is written.
            redaction: what callers pass everything through, if the recording is redacted.
            turn: called before each miss; moves a full sink on to its next segment, and
                returns whether it did. Given what writes the lines that wait.
        """
        self.run = run if redaction is None else redaction.run(run)
        self.redaction = redaction
        self.failure: OSError | None = None
        """Why nothing can be written at the moment; None if all is well."""
        self.lost = 0
        """Lines lost since the last one written; parts are counted with their misses."""
        self.has_backend = False
        """Whether the caller has written where compiled programs run."""
        self.gathers: Callable[[], bool] = _never
        """Whether more lines will follow at once, and `settle` after them."""
        self._waiting: deque[tuple[str, bool]] = deque()
        """Lines to be appended together, and whether each is only a part."""
        self._sink = sink
        self._turn = turn
        self._shelf = Shelf(programs) if programs is not None else None
        self._has_raised = False
        self._open = False
        self._headed = False
        self._retry_at = 0.0
        self._pid = os.getpid()
        self._parts: dict[bytes, int] = {}
        self._shared: dict[int, tuple[object, int]] = {}
        self._numbers = count()
        self._first: int | None = None
        """The number of the earliest miss written."""
        try:
            self._begin()
        except OSError as error:
            self._fail(error)

    def part(self, kind: str, value: JSON) -> int:
        """Write a part unless an equal one has been written; return its number."""
        self._turn_page()
        lines: list[str] = []
        new: list[tuple[bytes, int]] = []
        number = self._part_number(kind, value, lines, new)
        if lines and self._put(lines[0], part=True):
            self._remember(new)
        return number

    def is_new(self, kind: str, value: tuple[JSON, ...]) -> bool:
        """Whether a miss's value is not in this file yet; after the call it counts as written."""
        name = _quick_hash(f"once {kind}", value)
        if name in self._parts:
            return False
        self._remember([(name, 0)])
        return True

    def miss(
        self,
        number: int,
        fields: Mapping[str, JSON],
        parts: Mapping[str, JSON] = _NOTHING,
        bodies: Sequence[JSON] = (),
        shared: Mapping[str, object] = _NOTHING,
    ) -> None:
        """Write that a miss started, with its new parts, in one append.

        Args:
            number: the miss's number in this process.
            fields: what is known about it so far.
            parts: the contents of its parts, by kind.
            bodies: functions that were passed to an operation.
            shared: by kind, the object that a part was created from, if the same object
                always gives the same part. It is kept alive, so it must not be the user's.
        """
        self._turn_page()
        lines: list[str] = []
        new: list[tuple[bytes, int]] = []
        line: dict[str, JSON] = {"miss": number, **fields}
        self._first = number if self._first is None else min(self._first, number)
        parent = line.get("parent")
        if isinstance(parent, int) and parent < self._first:
            del line["parent"]  # it started before this recording
        for kind, value in parts.items():
            origin = shared.get(kind)
            known = self._shared.get(id(origin)) if origin is not None else None
            if known is None:
                line[kind] = index = self._part_number(kind, value, lines, new)
                if origin is not None and not lines:
                    self._share(origin, index)
            else:
                line[kind] = known[1]
        if bodies:
            line["bodies"] = [self._part_number("function", body, lines, new) for body in bodies]
        lines.append(_encode(line))
        if self._put("\n".join(lines)):
            self._remember(new)
        while _unencodable_types:
            self.loss(f"a {_unencodable_types.pop()} of which only the type could be written")

    def _part_number(
        self, kind: str, value: JSON, lines: list[str], new: list[tuple[bytes, int]]
    ) -> int:
        quick = _quick_hash(kind, value)
        number = self._parts.get(quick)
        if number is not None:
            return number
        kin = _quick_hash("like", without_shapes(value)) if kind == "leaves" and quick else b""
        if (like := self._parts.get(kin)) is not None:
            number = next(self._numbers)
            shapes = _encode([leaf[1] for leaf in cast(tuple[Leaf, ...], value)])
            lines.append(f'{{"part":{number},"kind":"leaves","like":{like},"value":{shapes}}}')
            new.append((quick, number))
            return number
        text = _encode(value)
        digest = blake2b(f"{kind} {text}".encode(), digest_size=16).digest()
        number = self._parts.get(digest)
        if number is None:
            number = next(self._numbers)
            lines.append(f'{{"part":{number},"kind":"{kind}","value":{text}}}')
            # Other threads may only use it once it is written.
            new.append((digest, number))
        new += [(known, number) for known in (quick, kin) if known]
        return number

    def _remember(self, new: Sequence[tuple[bytes, int]]) -> None:
        if len(self._parts) >= _MAX_PARTS:
            self._parts.clear()
            self._shared.clear()
        self._parts.update(new)

    def _share(self, origin: object, number: int) -> None:
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        self._shared[id(origin)] = (origin, number)

    def keep_programs(self, programs: Sink) -> None:
        """Start writing the text of programs to `programs`, unless it is already written."""
        if self._shelf is None:
            self._shelf = Shelf(programs)

    def listings(self, listings: Sequence[Listing]) -> None:
        """Write the text of programs, each once; after a failure, stop writing programs."""
        shelf = self._shelf
        if shelf is None or os.getpid() != self._pid:
            return
        if self.redaction is not None:
            hide = self.redaction
            new = [one for one in listings if not shelf.holds(hide.listing_id(one.id))]
            listings = [hide.listing(one) for one in new]
        shelf.add(listings)
        if not self.gathers():
            self._settle_programs()

    def amend(self, number: int, fields: Mapping[str, JSON]) -> None:
        """Write what became known about a miss later."""
        self._put(_encode({"amend": number, **fields}))

    def amend_run(self, fields: Mapping[str, JSON]) -> None:
        """Write what became known about the run later, such as its `backend`."""
        self._put(_encode({"run": encode_fields(fields, RUN, self.redaction)}))

    def audit(self, fields: Mapping[str, JSON]) -> None:
        """Write the findings of an audit."""
        self._put(_encode(fields))

    def loss(self, reason: str, number: int = 1) -> None:
        """Write that something could not be recorded, `number` times."""
        self._put(_encode(_loss(reason, number)))

    def end(self) -> None:
        """Write that the recording is closed, and close it; a later line reopens it."""
        self._retry_at = 0.0
        try:
            self._settle_programs()
            self._put('{"end":true}', at_once=True)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file without writing, as a forked child does before opening its own."""
        self._open = False
        self._waiting.clear()
        self._sink.close()
        if self._shelf is not None:
            self._shelf.close()

    def _put(self, line: str, part: bool = False, *, at_once: bool = False) -> bool:
        if os.getpid() != self._pid:
            return False
        if len(line) >= MAX_LINE_BYTES:
            line = _encode(_loss(TOO_LARGE, 1))
        if self.failure is not None and time.monotonic() < self._retry_at:
            self.lost += not part
            self._raise_once()
            return False
        self._waiting.append((line, part))
        # Asked after that: whoever gathers settles after it has stopped.
        waits = len(line) < _MAX_WAITING_LENGTH and len(self._waiting) < _MAX_WAITING
        if waits and not at_once and self.gathers():
            return True
        return self._append()

    def settle(self) -> None:
        """Append the lines that wait."""
        self._settle_programs()
        if self._waiting and os.getpid() == self._pid:
            self._append()

    def _append(self) -> bool:
        lines: list[str] = []
        count = 0
        with suppress(IndexError):
            while True:  # one by one: another thread may do the same
                line, part = self._waiting.popleft()
                lines.append(line)
                count += not part
        if not lines:
            return True  # another thread has appended them
        try:
            if not self._open:
                self._begin()
            self._sink.write("\n".join(lines))
        except OSError as error:
            self.lost += count
            self._fail(error)
            self._raise_once()
            return False
        return True

    def _settle_programs(self) -> None:
        shelf = self._shelf
        if shelf is None:
            return
        try:
            shelf.settle()
        except OSError as error:
            self._shelf = None
            shelf.close()
            self.loss(f"programs not written: {error.strerror or type(error).__name__}")

    def _begin(self) -> None:
        if self._sink.open() or not self._headed:
            self._parts.clear()
            self._shared.clear()
            self._sink.write(_encode({"retrace": FORMAT, "run": encode_run(self.run)}))
            self._headed = True
        if (failure := self.failure) is not None and self.lost:
            reason = f"not written: {failure.strerror or type(failure).__name__}"
            self._sink.write(_encode(_loss(reason, self.lost)))
            self.lost = 0
        self.failure = None
        self._open = True

    def _turn_page(self) -> None:
        """Continue in the next segment if this one is full, with a header and no known parts."""
        if self._turn is None or not self._open or os.getpid() != self._pid:
            return
        try:
            if self._turn(self.settle):
                self._headed = False
                self._begin()
        except OSError as error:
            self._fail(error)
            self._raise_once()

    def _fail(self, error: OSError) -> None:
        self._open = False
        self._shared.clear()
        self._parts.clear()  # the next attempt may start a new file
        self.failure = error
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _raise_once(self) -> None:
        if not self._has_raised and self.failure is not None:
            self._has_raised = True
            raise self.failure


def _never() -> bool:
    return False


def _quick_hash(kind: str, value: JSON) -> bytes:
    """Hash a part made of plain tuples, so that it is recognised without being encoded."""
    if type(value) is not tuple:
        return b""
    try:
        return hash((kind, cast(tuple[JSON, ...], value))).to_bytes(8, "big", signed=True)
    except TypeError:  # the data of a value may be a list
        return b""


def _loss(reason: str, number: int) -> dict[str, JSON]:
    return {"loss": reason} if number == 1 else {"loss": reason, "count": number}

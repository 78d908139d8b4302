"""Writes the lines of one process's recording, as its misses happen.

There is no lock: a signal handler, a finaliser or another thread may enter at any
point, and a forked child may find a lock held by a thread that it does not have.
Every line goes out in one append; two threads that meet a new part at once write
it twice, under two numbers, which costs a line and harms nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from json import encoder
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from retrace.model import JSON, Leaf, Listing, Run
from retrace.store.fields import shown
from retrace.store.header import RUN, encode_run
from retrace.store.leaves import apart_from_shapes
from retrace.store.programs import Shelf
from retrace.store.schema import FORMAT, LONGEST_LINE

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

RETRY_SECONDS = 1.0
"""How long a recording that cannot be written is left alone before the next attempt."""

_SHARED = 1 << 10
_KNOWN_PARTS = 1 << 16
"""Maximum number of digests kept (about 10 MB); then parts are written again."""


def _untold(value: object) -> str:
    # This should have been plain data by now: only its type is written, and that is counted.
    name = type(value).__name__
    _untold_types.append(name)
    return f"<{name}>"


_untold_types: list[str] = []


def _encoder() -> Callable[[object], str]:
    # `JSONEncoder.encode` makes a new one of these for each line: half of its time.
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return encoder.JSONEncoder(separators=(",", ":"), default=_untold).encode
    default = _untold
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

    def __init__(
        self,
        sink: Sink,
        run: Run,
        programs: Sink | None = None,
        redaction: Redaction | None = None,
        turn: Callable[[], bool] | None = None,
    ) -> None:
        """Begin the recording of `run` with its header; never raises OSError.

        The text of programs goes to `programs`, and nowhere without it. With a
        `redaction`, whoever writes passes everything through it. Asked before each
        miss, `turn` lets a sink that is full go on elsewhere, and tells whether it does.
        """
        self.run = run if redaction is None else redaction.run(run)
        self.redaction = redaction
        self.failure: OSError | None = None
        """Why nothing can be written at present; None where all is well."""
        self.lost = 0
        """Lines lost since the last one that was written; a part counts with its misses."""
        self.told_backend = False
        """Whether whoever writes has said where compiled programs run."""
        self._sink = sink
        self._turn = turn
        self._shelf = Shelf(programs) if programs is not None else None
        self._told = False
        self._open = False
        self._headed = False
        self._retry_at = 0.0
        self._pid = os.getpid()
        self._parts: dict[bytes, int] = {}
        self._shared: dict[int, tuple[object, int]] = {}
        self._numbers = count()
        self._first: int | None = None
        """The earliest of the misses it was given."""
        try:
            self._begin()
        except OSError as error:
            self._fail(error)

    def part(self, kind: str, value: JSON) -> int:
        """Write a part unless an equal one is written; its number."""
        self._turn_page()
        lines: list[str] = []
        new: list[tuple[bytes, int]] = []
        number = self._held(kind, value, lines, new)
        if lines and self._put(lines[0], part=True):
            self._know(new)
        return number

    def is_new(self, kind: str, value: tuple[JSON, ...]) -> bool:
        """Whether something that stands in a miss is not yet in this file, and will be now."""
        name = _quick(f"once {kind}", value)
        if name in self._parts:
            return False
        self._know([(name, 0)])
        return True

    def miss(
        self,
        number: int,
        fields: Mapping[str, JSON],
        parts: Mapping[str, JSON] = _NOTHING,
        bodies: Sequence[JSON] = (),
        shared: Mapping[str, object] = _NOTHING,
    ) -> None:
        """Write that a miss began, and those of its parts that are new, in one append.

        Args:
            number: of the miss, in this process.
            fields: what is known of it yet.
            parts: by kind, by their content.
            bodies: functions that an operation was given.
            shared: by kind, the object that a part was made from, where the same
                object makes the same part again; it is kept, and must be ours.
        """
        self._turn_page()
        lines: list[str] = []
        new: list[tuple[bytes, int]] = []
        line: dict[str, JSON] = {"miss": number, **fields}
        self._first = number if self._first is None else min(self._first, number)
        parent = line.get("parent")
        if isinstance(parent, int) and parent < self._first:
            del line["parent"]  # it was before this recording began
        for kind, value in parts.items():
            origin = shared.get(kind)
            known = self._shared.get(id(origin)) if origin is not None else None
            if known is None:
                line[kind] = index = self._held(kind, value, lines, new)
                if origin is not None and not lines:
                    self._share(origin, index)
            else:
                line[kind] = known[1]
        if bodies:
            line["bodies"] = [self._held("function", body, lines, new) for body in bodies]
        lines.append(_encode(line))
        if self._put("\n".join(lines)):
            self._know(new)
        while _untold_types:
            self.loss(f"a {_untold_types.pop()} of which only the type could be written")

    def _held(
        self, kind: str, value: JSON, lines: list[str], new: list[tuple[bytes, int]]
    ) -> int:
        quick = _quick(kind, value)
        number = self._parts.get(quick)
        if number is not None:
            return number
        kin = _quick("like", apart_from_shapes(value)) if kind == "leaves" and quick else b""
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
            # Known to other threads when it is written, not before.
            new.append((digest, number))
        new += [(known, number) for known in (quick, kin) if known]
        return number

    def _know(self, new: Sequence[tuple[bytes, int]]) -> None:
        if len(self._parts) >= _KNOWN_PARTS:
            self._parts.clear()
            self._shared.clear()
        self._parts.update(new)

    def _share(self, origin: object, number: int) -> None:
        if len(self._shared) >= _SHARED:
            self._shared.clear()
        self._shared[id(origin)] = (origin, number)

    def keep_programs(self, programs: Sink) -> None:
        """From here on the text of programs goes to `programs`, where it went nowhere."""
        if self._shelf is None:
            self._shelf = Shelf(programs)

    def listings(self, listings: Sequence[Listing]) -> None:
        """Write the text of programs, each once; where that fails, no more of it."""
        shelf = self._shelf
        if shelf is None or os.getpid() != self._pid:
            return
        if self.redaction is not None:
            hide = self.redaction
            new = [one for one in listings if not shelf.holds(hide.listing_id(one.id))]
            listings = [hide.listing(one) for one in new]
        try:
            shelf.put(listings)
        except OSError as error:
            self._shelf = None
            shelf.close()
            self.loss(f"programs not written: {error.strerror or type(error).__name__}")

    def amend(self, number: int, fields: Mapping[str, JSON]) -> None:
        """Write what became known of a miss later."""
        self._put(_encode({"amend": number, **fields}))

    def amend_run(self, fields: Mapping[str, JSON]) -> None:
        """Write what became known of the run later: its `backend`, its `process_index`."""
        self._put(_encode({"run": shown(fields, RUN, self.redaction)}))

    def audit(self, fields: Mapping[str, JSON]) -> None:
        """Write what an audit found."""
        self._put(_encode(fields))

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
        if self._shelf is not None:
            self._shelf.close()

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
        """Go on elsewhere, with the header and without the parts that are written here."""
        if self._turn is None or not self._open or os.getpid() != self._pid:
            return
        try:
            if self._turn():
                self._headed = False
                self._begin()
        except OSError as error:
            self._fail(error)
            self._tell()

    def _fail(self, error: OSError) -> None:
        self._open = False
        self._shared.clear()
        self._parts.clear()  # the next attempt may begin a new file
        self.failure = error
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _tell(self) -> None:
        if not self._told and self.failure is not None:
            self._told = True
            raise self.failure


def _quick(kind: str, value: JSON) -> bytes:
    """The hash of a part of plain tuples: it need not be encoded to be known again."""
    if type(value) is not tuple:
        return b""
    try:
        return hash((kind, cast(tuple[JSON, ...], value))).to_bytes(8, "big", signed=True)
    except TypeError:  # data of a value may be a list
        return b""


def _loss(reason: str, number: int) -> dict[str, JSON]:
    return {"loss": reason} if number == 1 else {"loss": reason, "count": number}

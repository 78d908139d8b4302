"""Makes a recording from logs."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from retrace.errors import UnreadableError, UsageError
from retrace.logs import source
from retrace.logs.message import (
    BEGIN,
    HEAD,
    Compiled,
    Event,
    Explained,
    Lowered,
    Traced,
    may_tell,
    read,
    read_whole,
    starts,
)
from retrace.logs.observed import CUT_SHORT, LONG_LINE
from retrace.logs.prefix import Prefix, Reading
from retrace.logs.recording import ProcessRecording
from retrace.logs.words import MAX_LINES
from retrace.model import Run
from retrace.store import files
from retrace.store.attempts import attempt_of

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

_MAX_PROCESSES = 1024
_MAX_UNWRITTEN = 1 << 22
"""Maximum number of characters waiting to be written, for all processes together."""
_MAX_OUTER = 4096
_SEARCHED_BYTES = 1 << 23
"""How much of the beginning is searched for explanations by JAX."""
_MAX_BETWEEN = 8
"""Maximum number of unrelated lines within one explanation."""
_IS_HANDLED = {**dict.fromkeys(BEGIN, False), "WARNING": True, "DEBUG:2": True, "INFO:20": True}
_MARK = "TRACING CACHE MISS"
_BELOW = re.compile(r"^\s+(?:never seen function:|all previously seen cache keys)")


class Imported(NamedTuple):
    """The result of importing."""

    lines: int
    processes: int
    misses: int
    compiled: int
    broken: str = ""
    """Why the log could only be read in part."""


class _Sink:
    """Collects lines and appends them to a file at once, so that thousands need no open file."""

    def __init__(self, path: Path, held: list[_Sink]) -> None:
        self.path = path
        self._held = held
        self._lines: list[str] = []
        self.size = 0
        self._begun = False

    def open(self) -> bool:
        begun, self._begun = self._begun, True
        return not begun

    def write(self, line: str) -> None:
        self._lines.append(line)
        self.size += len(line)

    def close(self) -> None:
        self.flush()

    def flush(self) -> None:
        if self._lines:
            mode = os.O_WRONLY | os.O_APPEND | os.O_CREAT | files.NO_LINK
            try:
                with os.fdopen(os.open(self.path, mode, 0o600), "a", encoding="utf-8") as file:
                    file.write("\n".join(self._lines) + "\n")
            except OSError as error:
                reason = files.reason(error)
                raise UsageError(f"cannot write to {self.path.parent}: {reason}") from error
            self._lines.clear()
            self.size = 0


class _Pending:
    """An explanation with lines still to come."""

    __slots__ = ("others", "recording", "text")

    def __init__(self, recording: ProcessRecording) -> None:
        self.recording = recording
        self.text: list[str] = []
        self.others = 0


class Importer:
    """Reads logs one after the other, and writes a recording of each process in them."""

    def __init__(self, directory: Path, redaction: Redaction | None = None) -> None:
        """Write to `directory`, which must exist."""
        self._directory = directory
        self._redaction = redaction
        self._attempt = attempt_of(directory)
        self._held: list[_Sink] = []
        self._recordings: dict[tuple[str, str], ProcessRecording] = {}
        self._pending: dict[str, _Pending] = {}
        self._partial: dict[str, str] = {}
        self._plain: ProcessRecording | None = None
        """The process of lines that do not name a process."""
        self._path = Path()
        self._written = 0.0
        self._reading = Reading(1970)
        self._number, self._hint, self._broken = 0, "", ""
        self._lost: list[str] = []
        """Losses found before there is a process to report them with."""
        self._explanation_lost = False
        self._explains = False
        self._since = 0

    def take(self, path: Path, progress: Callable[[int], object] | None = None) -> Imported:
        """Read one log.

        Raises:
            UnreadableError: it cannot be read, or it has no lines by JAX.
        """
        self._path = path
        try:
            self._written = path.stat().st_mtime if str(path) != "-" else time.time()
        except OSError:
            self._written = time.time()
        self._reading = Reading(time.gmtime(self._written).tm_year)
        self._recordings = {}
        self._pending, self._partial = {}, {}
        self._plain = None
        self._number, self._hint, self._broken = 0, "", ""
        self._lost.clear()
        self._explanation_lost = False
        try:
            with source.opened(path) as file:
                self._read(file, progress)
        except UnreadableError as error:
            if not self._recordings:
                raise
            self._broken = str(error)
            self._lose_one(CUT_SHORT)
        for outer in list(self._pending):
            self._explained(outer)
        return self._end(path)

    def _read(self, file: IO[bytes], progress: Callable[[int], object] | None) -> None:
        head: list[str | None] = []
        size = 0
        every = source.lines(file, progress)
        broken: Exception | None = None
        try:
            for line in every:
                head.append(line)
                size += len(line or b"")
                if size >= _SEARCHED_BYTES:
                    break
        except (EOFError, OSError, zlib.error) as error:
            broken = error  # raised once the readable part is processed
        if any(line is not None and "\0" in line for line in head[:100]):
            raise UnreadableError(f"{source.named(self._path)} is not text: name a program's log")
        self._explains = any(line and _MARK in line for line in head)
        for line in chain(head, every):
            self._number += 1
            if line is None:
                self._lose_one(LONG_LINE)
                continue
            handled = _IS_HANDLED.get(line[:HEAD])
            if handled is not None and self._whole(line, handled):
                pass
            elif self._pending or self._partial:
                if line.startswith("  ") and self._continue_explanation(line):
                    continue
                self._line(line)
            elif may_tell(line):
                unread = self._line(line, tells=True)
                self._hint = self._hint or unread
            self._since += 1
            if self._since >= 4096:
                self._flush()
        if broken is not None:
            raise broken

    def _end(self, path: Path) -> Imported:
        if not self._recordings:
            hint = self._hint
            like = f"; the first that looked like one: {hint[:120]!r}" if hint else ""
            raise UnreadableError(
                f"{source.named(path)} has no line by JAX about tracing or compiling{like}: "
                "log with JAX_LOG_COMPILES=1, and JAX_EXPLAIN_CACHE_MISSES=1 for the causes"
            )
        made = list(self._recordings.values())
        for recording in made:
            recording.end()
        self._flush(0)
        return Imported(
            self._number,
            len(made),
            sum(recording.misses for recording in made),
            sum(recording.compiled for recording in made),
            self._broken,
        )

    def _whole(self, line: str, handled: bool) -> bool:
        """Read a message with the prefix of JAX's handler or without any; False if it is none."""
        if self._partial:
            return False
        at = None
        if handled:
            if (jax := self._reading.of_jax(line)) is None:
                return False
            at, begin = jax
            line = line[begin:]
        event = read_whole(line)
        if event is None:
            return False
        if "" in self._pending:
            self._explained("")
        recording = self._plain or self._recording_of("", "", at, event)[0]
        recording.process.feed(event, "", at)
        if isinstance(event, Explained):
            self._pending[""] = _Pending(recording)
        return True

    def _continue_explanation(self, line: str) -> bool:
        """Read a further line of an explanation without a prefix; False if it is none."""
        pending = self._pending.get("")
        if pending is None or self._partial:
            return False
        if len(pending.text) < MAX_LINES:
            pending.text.append(line.rstrip("\r"))
        return True

    def _line(self, line: str, *, tells: bool = False) -> str:
        """Read a line that may be a message; returns it if it only looks like one."""
        outer, text, stamp, more = self._reading.outer(line.rstrip("\r\n"))
        if outer in self._partial or more:
            text = self._partial.pop(outer, "") + text
            if more and len(text) < source.MAX_LINE and len(self._partial) < _MAX_OUTER:
                self._partial[outer] = text
                return ""
            line = text
        pending = self._pending.get(outer)
        if pending is not None:
            if text.startswith("  ") and len(pending.text) < MAX_LINES:
                at = starts(text)
                pending.text.append(text[: at[0]] if at else text)
                if at:  # the end of the line is lost, and another message continues in it
                    self._torn(outer, text[at[0] :], stamp)
                return ""
            if text.startswith("  ") or not text:
                return ""
            tells = may_tell(line)
            if not tells and len(pending.text) < 2 and pending.others < _MAX_BETWEEN:
                pending.others += 1  # the program's output in between
                return ""
            self._explained(outer)
            if not tells:
                return ""
        elif not (tells or may_tell(line)):
            return ""
        found = read(text)
        if found is None or (_MARK in text and not isinstance(found[0], Explained)):
            return "" if self._torn(outer, text, stamp) else text.strip()
        self._take(outer, text, stamp, *found)
        return ""

    def _take(
        self, outer: str, text: str, stamp: float | None, event: Event, start: int
    ) -> ProcessRecording:
        recording, thread, at = self._recording_of(outer, text[:start], stamp, event)
        recording.process.feed(event, thread, at)
        if isinstance(event, Explained):
            self._pending[outer] = _Pending(recording)
        return recording

    def _torn(self, outer: str, text: str, stamp: float | None) -> bool:
        """Read the complete messages in a torn line; False if it is not a line by JAX."""
        at = starts(text)
        took: ProcessRecording | None = None
        # A further line of an explanation whose first line is lost.
        explanation = not at and _BELOW.search(text) is not None
        if not at and not explanation:
            return False
        # The text before the first message is its prefix.
        ends = [0, *at[1:], len(text)]
        for begin, end in pairwise(ends if at else ()):
            part = text[begin:end]
            found = read(part)
            whole = found is not None and (_MARK not in part or isinstance(found[0], Explained))
            explanation = explanation or (_MARK in part and not whole)
            # The process of a second message in the line is only known if there is just one.
            if found is not None and whole and (took is None or took is self._plain):
                took = self._take(outer, part, stamp, *found)
        if not self._recordings:
            self._lost.append("a line of JAX's that is torn")
            self._explanation_lost = self._explanation_lost or explanation
        for (gathered, _), recording in self._recordings.items():
            if gathered == outer or took is None:
                recording.process.torn(explanation=explanation)
        return True

    def _explained(self, outer: str) -> None:
        pending = self._pending.pop(outer)
        pending.recording.process.explain("\n".join(pending.text))

    def _recording_of(
        self, outer: str, text: str, stamp: float | None, event: Event
    ) -> tuple[ProcessRecording, str, float | None]:
        prefix = self._reading.inner(outer, text, stamp)
        key = (prefix.outer, prefix.process)
        recording = self._recordings.get(key)
        if recording is None:
            if len(self._recordings) >= _MAX_PROCESSES:
                recording = next(iter(self._recordings.values()))
                recording.lose(f"a line of more than {_MAX_PROCESSES:,} processes")
            else:
                recording = self._recordings[key] = self._new(prefix, _took(event))
                for reason in self._lost:
                    recording.lose(reason)
                self._lost.clear()
                recording.process.explanation_torn = self._explanation_lost
                if key == ("", ""):
                    self._plain = recording
        return recording, prefix.thread, prefix.time

    def _new(self, prefix: Prefix, took: float) -> ProcessRecording:
        digest = blake2b(digest_size=8)
        for part in (os.path.abspath(self._path), prefix.outer, prefix.process):
            digest.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
        id_ = _id(digest.digest())
        while (self._directory / f"{id_}.jsonl").exists():  # the same log imported again
            digest.update(b"again")
            id_ = _id(digest.digest())
        rank = prefix.outer.removeprefix("rank").partition(",")[2] or prefix.outer.removeprefix(
            "rank"
        )
        pid = prefix.process.rpartition(" ")[2]
        run = Run(
            id=id_,
            host=prefix.outer if not rank.isdecimal() else "",
            pid=int(pid) if pid.isdecimal() else 0,
            process_index=int(rank) if rank.isdecimal() else None,
            # The first line is logged when its stage is over.
            started=(self._written if prefix.time is None else prefix.time) - took,
            argv=[str(self._path)],
            python="",
            jax="",
            jaxlib="",
            job=self._attempt.job,
            attempt=self._attempt.number,
            source="log",
        )
        sink = _Sink(self._directory / f"{id_}.jsonl", self._held)
        self._held.append(sink)
        recording = ProcessRecording(run, sink, self._redaction)
        recording.process.explains = self._explains
        if prefix.time is None:
            recording.lose("the times of its lines; their order is known")
        return recording

    def _lose_one(self, reason: str) -> None:
        """Report a loss with the first process, since its process is unknown."""
        for recording in self._recordings.values():
            recording.lose(reason)
            return
        self._lost.append(reason)

    def _flush(self, limit: int = _MAX_UNWRITTEN) -> None:
        self._since = 0
        if sum(sink.size for sink in self._held) > limit:
            for sink in self._held:
                sink.flush()


def _id(digest: bytes) -> str:
    named = int.from_bytes(digest)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[named // 26**place % 26] for place in range(8))


def _took(event: Event) -> float:
    return event.seconds if isinstance(event, Traced | Lowered | Compiled) else 0.0

"""Reads recordings line by line, tolerating any contents and never executing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from retrace.errors import UnreadableError
from retrace.model import JSON, Audit, Key, Miss, Recording, Run
from retrace.regex import regex
from retrace.store import files, schema
from retrace.store.audits import decode_audit
from retrace.store.bounded_lines import texts
from retrace.store.decoded import NONSENSE, decoded
from retrace.store.header import amend_run, decode_run
from retrace.store.leaves import decode_leaves_like
from retrace.store.parts import PARTS, decode_part
from retrace.store.place import HEADER, ROOT, recordings
from retrace.store.processes import files_of
from retrace.store.programs import BEGINNING, SUFFIX, Library
from retrace.store.schema import FORMAT, amend, check_items, decode_miss
from retrace.store.segments import name_of
from retrace.store.shared import Beginning, Shared, beginning, digest

_RUN_ID = regex("[0-9a-z]{1,40}")
_MAX_AUDITS = 10_000
_MAX_FOREIGN = 1 << 28
"""A file that starts with this many bytes of unrecognised lines is not a recording."""


def read(paths: Sequence[Path], attempt: int | None = None) -> Recording:
    """Read several recordings as one.

    Args:
        paths: directories or single files of recordings; duplicates are read once.
        attempt: the attempt in each directory; None for the newest, 0 for all.

    Returns:
        All runs, in the order of the paths and of their file names, each with its misses in
        the order in which they started.

    Raises:
        UnreadableError: a path has no recording, cannot be opened, or was
            written by a newer retrace.
    """
    parts = list(read_each(paths, attempt=attempt))
    runs = [run for part in parts for run in part.runs]
    misses = [miss for part in parts for miss in part.misses]
    audits = [audit for part in parts for audit in part.audits]
    return Recording(runs, misses, parts[0].listings if parts else {}, audits)


def read_each(
    paths: Sequence[Path],
    progress: Callable[[int], object] | None = None,
    attempt: int | None = None,
    shared: Shared | None = None,
) -> Iterator[Recording]:
    """Read several recordings, one process at a time.

    Args:
        paths: as for `read`.
        progress: called with the number of bytes read since the last call.
        attempt: as for `read`.
        shared: parts read before, which these recordings may have in common.

    Yields:
        The recording of each process; all share one library of programs.

    Raises:
        UnreadableError: as `read` does.
    """
    library = Library()
    files = [(path, list(files_of(path, attempt))) for path in paths]
    is_one = shared is None and sum(len(own) for _, own in files) == 1
    shared = Shared() if shared is None else shared
    seen: set[Path] = set()
    runs: dict[str, Run] = {}
    for path, own in files:
        found = False
        for file in own:
            known = file.resolve() in seen
            seen.add(file.resolve())
            reader = None if known else _read_file(file, progress, None if is_one else shared)
            found = found or known or reader is not None
            if reader is None:
                continue
            run, misses = reader.result()
            for miss in misses:
                shared.thin(miss)
            library.add_file(file.with_suffix(SUFFIX), run)
            if (other := runs.get(run.id)) is not None:
                leave_out(other)
                continue
            runs[run.id] = run
            yield Recording([run], misses, library, reader.audits)
            del misses
        if not found:
            raise UnreadableError(not_found(path))


def read_one(file: Path) -> Recording | None:
    """Read the recording of one process; None if the file is not a recording.

    Raises:
        UnreadableError: it cannot be opened, or was written by a newer retrace.
    """
    reader = _read_file(file, None, None)
    if reader is None:
        return None
    run, misses = reader.result()
    library = Library()
    library.add_file(file.with_suffix(SUFFIX), run)
    return Recording([run], misses, library, reader.audits)


def leave_out(run: Run) -> None:
    """Count a further file that claims to be from the same process."""
    _lose(run, schema.SECOND_FILE)


def read_lines(lines: Iterable[str]) -> Recording:
    """Read a recording from memory, line by line."""
    reader = Reader()
    library = Library()
    for line in lines:
        if line.startswith(BEGINNING):
            library.add_line(line)
        else:
            reader.add(line)
    run, misses = reader.result()
    return Recording([run], misses, library, reader.audits)


class Reader:
    """Reads the lines of one process's recording, one by one."""

    def __init__(
        self,
        name: str = "unknown",
        place: str = "the recording",
        shared: Shared | None = None,
    ) -> None:
        """Prepare for the first line.

        Args:
            name: used as the run's id until it is known.
            place: the name of the file in messages.
            shared: parts that other processes may have in common.
        """
        self.recognised = 0
        """How many lines were recognised."""
        # Used if the header is damaged: what follows can still be read.
        self._run = Run(name, "", 0, None, 0.0, [], "", "", "")
        self._place = place
        self._headed = False
        self._parts: dict[tuple[str, int], Any] = {}
        self._shared = shared
        self._digests: dict[int, bytes] = {}
        """The digests of parts that others may share, by number."""
        self.audits: list[Audit] = []
        self._misses: dict[int, Miss] = {}
        self._begun: list[Miss] = []
        self._parents: dict[int, int] = {}
        self._lowered: dict[int, Key] = {}
        """Keys of lowered programs, without options that were added when they were compiled."""

    def add(self, line: str, last: bool = False) -> None:
        """Read a line; an incomplete one is no loss if it is the `last` of a killed process."""
        if not line or line.isspace():
            return
        begun = None if self._shared is None else beginning(line)
        if begun is not None and self._is_known(begun):
            self.recognised += 1
            return
        try:
            check_items(line)
            fields = decoded(line)
        except (ValueError, RecursionError):
            if not last:
                self.lose(schema.UNREADABLE_LINE)
            return
        try:
            reason = self._read_line(fields)
        except NONSENSE:
            reason = schema.UNREADABLE_LINE
        if reason is None:
            self.recognised += 1
            if begun is not None:
                self._share(begun, fields)
        else:
            self.lose(reason)

    def _is_known(self, begun: Beginning) -> bool:
        """Whether another process has written the same part; if so, use that one."""
        name = begun.kind, begun.number
        own = self._digest(begun)
        if own is None or name in self._parts:
            return False
        assert self._shared is not None
        if (part := self._shared.part(own)) is None:
            return False
        self._parts[name] = part
        self._digests[begun.number] = own
        return True

    def _share(self, begun: Beginning, fields: Mapping[str, Any]) -> None:
        """Share a part with other processes."""
        own = self._digest(begun)
        # If a field occurs twice, JSON takes the last one, which may be in the rest of the line.
        if own is None or begun[:3] != (fields["part"], fields["kind"], fields.get("like")):
            return
        assert self._shared is not None
        self._shared.keep(own, self._parts[begun.kind, begun.number])
        self._digests[begun.number] = own

    def _digest(self, begun: Beginning) -> bytes | None:
        if begun.like is None:
            return digest(begun, b"")
        like = self._digests.get(begun.like)
        return None if like is None else digest(begun, like)

    def lose(self, reason: str, number: int = 1) -> None:
        """Count what could not be read."""
        _lose(self._run, reason, number)

    def result(self) -> tuple[Run, list[Miss]]:
        """Return the run and its misses so far, in the order in which they started."""
        for number, parent in list(self._parents.items()):
            # An enclosing miss started earlier, so a chain of parents cannot be circular.
            if parent not in self._misses or parent >= number:
                del self._parents[number]
                self._misses[number].parent = None
                self.lose(schema.PARENT_MISSING)
            else:
                self._misses[number].parent = self._misses[parent].id  # share one string
        return self._run, [self._misses[number] for number in sorted(self._misses)]

    def since(self, position: int) -> tuple[Run, list[Miss]]:
        """Return the run, and the misses from a position on, in the order of their lines."""
        return self._run, self._begun[position:]

    def _read_line(self, line: dict[str, Any]) -> str | None:
        """Read one line; return the reason if it is a loss."""
        if "miss" in line:
            return self._read_miss(line)
        if "amend" in line:
            miss = self._misses.get(line["amend"])
            if miss is None:
                return schema.LATER_LINE_ALONE
            if "compiled_with" in line:
                self._lowered.setdefault(line["amend"], miss.key)
            amend(miss, line, self._parts)
        elif "part" in line:
            kind, number = line["kind"], line["part"]
            if (kind, number) in self._parts:
                return schema.UNREADABLE_LINE
            if (like := line.get("like")) is None:
                part = decode_part(kind, line["value"])
            else:
                part = decode_leaves_like(self._parts["leaves", like], line["value"])
            self._parts[kind, number] = part
        elif "retrace" in line:
            self._read_header(line)
        elif "run" in line:
            amend_run(self._run, line["run"])
        elif "loss" in line:
            self._read_loss(line)
        elif "audit" in line:
            return self._read_audit(line)
        elif "end" in line:
            self._run.complete = True
        else:
            return schema.UNREADABLE_LINE
        return None

    def _read_miss(self, line: dict[str, Any]) -> str | None:
        site = line.get("call_site")
        reason = None
        if site is not None and ("call_site", site) not in self._parts:
            # Not part of the key: the miss is useful without it.
            line["call_site"] = None
            reason = schema.CALL_SITE_MISSING
        for kind in PARTS[:7]:
            number = line.get(kind)
            if number is not None and (kind, number) not in self._parts:
                return schema.KEY_MISSING
        before = None
        if "again" in line and (before := self._misses.get(line["again"])) is None:
            return schema.KEY_MISSING
        if before is not None and (key := self._lowered.get(line["again"])) is not None:
            before = replace(before, key=key)
        miss = decode_miss(line, self._parts, self._run.id, before)
        if miss.number < 0 or miss.number in self._misses:
            return schema.UNREADABLE_LINE
        if (over := line.get("over")) is not None:
            amend(miss, over, self._parts)
        self._misses[miss.number] = miss
        self._begun.append(miss)
        if miss.parent is not None:
            self._parents[miss.number] = line["parent"]
        self._run.complete = False
        return reason

    def _read_audit(self, line: Mapping[str, Any]) -> str | None:
        if len(self.audits) >= _MAX_AUDITS:
            return "one audit more than are read"
        self.audits.append(decode_audit(line, self._run.id))
        return None

    def _read_header(self, line: Mapping[str, Any]) -> None:
        format_ = line["retrace"]
        if type(format_) is not int or format_ < 1:
            raise ValueError("invalid format")
        if format_ > FORMAT:
            raise UnreadableError(
                f"{self._place} was written by a newer retrace (its format is {format_}, "
                f"this one reads up to {FORMAT}): update retrace"
            )
        run = decode_run(line["run"])
        if not _RUN_ID.fullmatch(run.id):
            raise ValueError("invalid id")
        if self._headed or self._misses:
            # It is written again if the first attempt may have been incomplete.
            if run.id != self._run.id:
                raise ValueError("a header of another run")
            if self._headed:
                return
        run.losses = self._run.losses
        self._run = run
        self._headed = True

    def _read_loss(self, line: Mapping[str, JSON]) -> None:
        reason, number = line["loss"], line.get("count", 1)
        if not isinstance(reason, str) or type(number) is not int or not 0 < number < 1 << 63:
            raise TypeError("a reason and a count expected")
        self.lose(reason, number)


def _read_file(
    path: Path, progress: Callable[[int], object] | None, shared: Shared | None
) -> Reader | None:
    """Return the reader of a file; None if the file is not a recording."""
    named = _RUN_ID.fullmatch(name_of(path)) is not None
    if shared is not None:
        shared.next()
    reader = Reader(name_of(path) if named else "unknown", str(path), shared)
    # A process killed while writing its first line is a recording without misses.
    begun = named
    foreign = 0
    try:
        for index, (text, size, last) in enumerate(texts(path, progress)):
            if not index and text is not None:
                begun = text.startswith(HEADER) or HEADER.startswith(text)
            if text is None:
                reader.lose(schema.UNREADABLE_LINE)
            else:
                reader.add(text, last)
            foreign += size
            if foreign > _MAX_FOREIGN and not reader.recognised:
                return None
    except OSError as error:
        raise UnreadableError(f"cannot read {path}: {files.reason(error)}") from error
    return reader if reader.recognised or begun else None


def not_found(path: Path) -> str:
    """Why nothing can be read at a path, and what to do."""
    if not path.is_dir():
        return f"{path} is not a recording: name the directory that `retrace run --out DIR` wrote"
    for inner in recordings(path):
        return f"no recording in {path}, but there is one in {inner}: name that"
    if path.resolve() == ROOT.resolve():
        return f"no recording under {path}: make one with `retrace run SCRIPT`"
    return f"no recording in {path}: make one with `retrace run --out {path} SCRIPT`"


def _lose(run: Run, reason: str, number: int = 1) -> None:
    run.losses[reason] = run.losses.get(reason, 0) + number

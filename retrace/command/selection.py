"""Finds what a command line refers to: recordings, and misses by id, function or cause."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from retrace.command import console
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.hosts.trail import Trails
    from retrace.model import Listing, Miss, Recording, Verdict
    from retrace.present.view import View
    from retrace.store.redaction import Redaction

Read = TypeVar("Read")
Word = TypeVar("Word", bound=str)

_MAX_HELD = 1 << 24
"""Recordings up to this many bytes are kept in memory; larger ones are read one process at a
time."""


def one_of(option: str, value: str, known: Sequence[Word]) -> Word:
    """The value of an option, checked; raises UsageError if it is not one of `known`."""
    from retrace.present.words import nearest

    for one in known:
        if one == value:
            return one
    guess = nearest(value, known)
    raise UsageError(f"invalid value {value!r} for {option}{guess} ({', '.join(known)})")


def given(directories: Sequence[Path | None] | None) -> list[Path]:
    """The named recordings, or the newest one, announced if it lies in a parent folder."""
    from retrace.store.place import newest

    named = [one for one in directories or () if one is not None]
    return named or [announced(newest())]


def announced(found: Path) -> Path:
    """A recording the user did not name; says which one if it lies in a parent folder."""
    from retrace.store.place import ROOT

    if not found.is_relative_to(ROOT):
        console.say(f"reading {os.path.relpath(found)}")
    return found


def read_view(directories: list[Path]) -> View:
    """Read and explain recordings (default: the newest)."""
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read

    recording = read(given(directories))
    return View(recording, judge(recording), console.here())


def read_at_last(directories: list[Path]) -> View:
    """Like `read_view`, for a process that shows the result and ends."""
    return at_last(read_view(directories))


def at_last(read: Read) -> Read:
    """Keep `read` alive until the process exits."""
    # Freeing misses one by one took a tenth of a report's time; a cycle is left to the exit.
    kept: list[object] = [read]
    kept.append(kept)
    gc.freeze()
    return read


def selected(view: View, function: str | None) -> list[Verdict]:
    """The misses of one function; raises UsageError for an unknown name."""
    verdicts = _of_function(view.verdicts, function)
    if function is not None and not verdicts:
        raise _unknown(function, view)
    return verdicts


def _of_function(verdicts: list[Verdict], function: str | None) -> list[Verdict]:
    if function is None:
        return verdicts
    return [
        verdict
        for verdict in verdicts
        if function in (f := verdict.miss.function).qualname.split(".<locals>.")
        or function in (f.name, f.jax_name, f.qualname)
    ]


def _unknown(function: str, view: View) -> UsageError:
    from retrace.present.words import nearest

    guess = nearest(function, view.names)
    return UsageError(f"no function {function!r} in this recording{guess}")


class Selection:
    """Recordings, read and explained, and the misses chosen from them.

    Large recordings are read one process at a time; each is summed up and freed before the
    next.
    """

    def __init__(
        self,
        directories: list[Path],
        function: str | None = None,
        cause: str | None = None,
        *,
        redact: bool = False,
        every: bool = False,
        jobs: int | None = None,
        dask: str | None = None,
    ) -> None:
        from retrace.model import Recording
        from retrace.present.tally import Tally
        from retrace.present.view import View

        self._paths = given(directories)
        self._attempt = 0 if every else None
        self._function, self._cause = function, cause
        self._jobs, self._dask = jobs, dask
        self.is_part = function is not None or cause is not None
        """Whether some misses may have been left out."""
        trails = _trails(self._paths, self._attempt)
        self._redaction: Redaction | None = None
        if redact:
            from retrace.store.redaction import Redaction
            from retrace.store.roots import project_folders

            self._redaction = Redaction(project_folders(console.here()))
        self.is_large = total_size(self._paths, self._attempt) > _MAX_HELD
        self.view = View(Recording([], []), [], console.here())
        self.tally = Tally()
        self.verdicts: list[Verdict] = []
        """The chosen misses; empty for large recordings, see `again`."""
        matched = False
        for verdicts in self._each(trails):
            of_function = _of_function(verdicts, function)
            matched = matched or bool(of_function)
            chosen = [v for v in of_function if cause is None or v.cause.value == cause]
            self.tally.among += len(verdicts) if self.is_part else 0
            self.tally.add(self.view, chosen)
            if self.is_large:
                self.view.forget(self.tally.settle())
            else:
                self.verdicts += chosen
        if function is not None and not matched:
            raise _unknown(function, self.view)
        if trails is not None:
            self._compare_hosts(trails)

    def _compare_hosts(self, trails: Trails) -> None:
        """Find where the processes of one job diverge."""
        from retrace.hosts.compare import diverge
        from retrace.present import hosts

        if (found := diverge(trails, self._listings)) is not None:
            self.view.hosts = hosts.DivergenceReport(found, self._listings, console.here())

    @property
    def _listings(self) -> Mapping[str, Listing]:
        return self.view.recording.listings

    @property
    def earlier(self) -> int:
        """How many attempts were left out in favour of the newest."""
        from retrace.store.processes import attempts_in

        return sum(attempts_in(path) - 1 for path in self._paths) if self._attempt is None else 0

    @property
    def _size(self) -> int:
        return total_size(self._paths, self._attempt) if self.is_large else 0

    def again(self) -> Iterator[list[Verdict]]:
        """The chosen misses, one process at a time; large recordings are read again."""
        if not self.is_large:
            yield self.verdicts
            return
        for verdicts in self._each():
            found = _of_function(verdicts, self._function)
            yield [v for v in found if self._cause is None or v.cause.value == self._cause]
            self.view.forget(self.tally.settle())

    def _each(self, trails: Trails | None = None) -> Iterator[list[Verdict]]:
        """The verdicts of each process, after adding it to the view and to `trails`."""
        known = {run.id for run in self.view.recording.runs}
        with console.progress("reading", self._size) as progress:
            for part, verdicts in self._explained(progress):
                recording = self.view.recording
                recording.listings = part.listings
                if part.runs[0].id not in known:
                    recording.runs += part.runs
                    if part.audits:
                        from retrace.reason.stale import audited

                        self.view.conclude(audited(part))
                if not self.is_large:
                    recording.misses += part.misses
                if trails is not None:
                    trails.add(part.runs[0], part.misses)
                self.view.add(verdicts)
                yield verdicts

    def _explained(
        self, progress: Callable[[int], object] | None
    ) -> Iterator[tuple[Recording, list[Verdict]]]:
        """Each process with its verdicts, read here or by parallel workers."""
        if self._dask is not None or (self._jobs or 1) > 1:
            from retrace.command.explaining import explained
            from retrace.command.workers import workers

            with workers(self._jobs, self._dask) as found:
                yield from explained(self._paths, self._attempt, found, progress, self._redaction)
            return
        from retrace.reason.alike import Judged
        from retrace.store.reader import read_each

        judged = Judged()
        for part in read_each(self._paths, progress, self._attempt):
            if self._redaction is not None:
                part = self._redaction.recording(part)
            yield part, judged.of(part)


def found_miss(view: View, text: str) -> Verdict:
    """The miss with this id or label; raises UsageError unless there is exactly one."""
    found = view.find(text)
    if len(found) != 1:
        known = (label for v in view.verdicts for label in (view.short_label(v.miss), v.miss.id))
        raise not_one(view, text, [verdict.miss for verdict in found], known)
    return found[0]


def not_one(view: View, text: str, found: Sequence[Miss], known: Iterable[str]) -> UsageError:
    """The error for a text that matches no miss or several; `known` are existing labels."""
    if found:
        named = [f"{miss.id} ({view.label(miss)})" for miss in found[:4]]
        more = f" and {len(found) - 4:,} more" if len(found) > 4 else ""
        return UsageError(f"{text!r} may mean {', '.join(named)}{more}: name one by its id")
    from retrace.present.words import nearest

    guess = nearest(text, known) or "; `retrace report` lists the misses"
    return UsageError(f"no miss {text!r} in this recording{guess}")


def _trails(paths: Iterable[Path], attempt: int | None) -> Trails | None:
    """A place to collect trails if there are several processes."""
    if not _has_several(paths, attempt):
        return None
    from retrace.hosts.trail import Trails

    return Trails()


def _has_several(paths: Iterable[Path], attempt: int | None) -> bool:
    """Whether there is more than one process to read."""
    from itertools import islice

    from retrace.store.processes import files_of

    files = (file for path in paths for file in files_of(path, attempt))
    return len(list(islice(files, 2))) > 1


def total_size(paths: Iterable[Path], attempt: int | None = None) -> int:
    """Bytes of the files of recordings, without their programs."""
    from retrace.store.processes import files_of
    from retrace.store.segments import size

    total = 0
    for path in paths:
        for file in files_of(path, attempt):
            with suppress(OSError):  # it has gone, which the reader will report
                total += size(file)
    return total

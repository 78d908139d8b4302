"""Recording switched on and off in this process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from retrace.capture import lock, place, process
from retrace.capture.asked import Asked, wish
from retrace.capture.commit import commit_of
from retrace.capture.journal import Event
from retrace.capture.observers import observers
from retrace.capture.public import PublicEvents
from retrace.capture.weak import ByObject
from retrace.errors import CannotTellError, RetraceError
from retrace.jax_internals import behavior
from retrace.jax_internals.backend import jaxlib_version
from retrace.jax_internals.names_frames import JITTED_INFO
from retrace.model import CallSite, Function, Key, Run
from retrace.store.attempts import Attempt, attempt_of
from retrace.store.programs import SUFFIX
from retrace.store.sinks import File, Memory, Nothing, Pages
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.capture.meeting import Meeting


class Session:
    """The recording of this process: its hooks, and who is listening."""

    def __init__(self) -> None:
        self.recorder, self._hooks = observers()
        self._lock = threading.RLock()
        self._beginning = lock.make()
        """Held while the recording of `retrace.jit` begins: several threads may miss at once."""
        self.own_directory: Path | None = None
        """Where the misses of functions made with `retrace.jit` are kept."""
        self._own_writer: Writer | None = None
        self._own_place: Callable[[], Path] | None = None
        self._own: ByObject[int] = ByObject(lambda gone: self._own_info.pop(gone, None))
        """The functions made with `retrace.jit`, and for each the id of its options."""
        self._own_info: dict[int, None] = {}
        """The same by the id of their options."""
        self._listener: Writer | None = None
        """Who gets every miss while processes are compared, so that misses are looked at."""
        self.served: Any = None
        """What counts calls, where that is asked for."""
        self.windows: dict[Writer, Memory] = {}
        """The windows in memory that are open."""

    def count_calls(self) -> None:
        """Count from here on how often each program is called, if the environment asks for it."""
        if os.environ.get("RETRACE_COUNT") != "1" or self.served is not None:
            return
        if isinstance(self.recorder, PublicEvents):
            return  # that it shows too little is told already
        from retrace.capture.served import Served

        self.served = self._hooks.guarded(Served, self.recorder.journal, self._hooks.guarded)

    def _stop_counting(self) -> None:
        if self.served is not None:
            served, self.served = self.served, None
            self._hooks.guarded(served.stop)

    def refuse(
        self,
        told: Callable[[int, Event, tuple[Function, ...]], None] | None,
        refusal: Callable[[], BaseException | None] | None,
    ) -> None:
        """Ask at each call that misses what to raise there; None for no more.

        Args:
            told: called with the number of each miss, what became of it, and its function
                with the bodies that this runs, where they are known.
            refusal: asked after that, in the thread and on the stack of the call.
        """
        self.recorder.journal.told = told
        self._hooks.refuse(refusal)

    def meet(
        self,
        meeting: Meeting | None,
        noted: Callable[[int, Function, Key, CallSite | None], None] | None = None,
        stop: Callable[[], BaseException | None] | None = None,
    ) -> None:
        """Tell of each program of several processes before it is compiled; None for no more.

        Args:
            meeting: told of the programs, in the thread and on the stack of the call.
            noted: told of each miss as it begins.
            stop: asked after that what to raise there.
        """
        if isinstance(self.recorder, PublicEvents):
            raise CannotTellError("this JAX shows too little of its programs to compare them")
        if self._listener is None and meeting is not None:
            self._listener = Writer(Nothing(), describe_run())
            self.attach(self._listener)
        elif self._listener is not None and meeting is None:
            listener, self._listener = self._listener, None
            self.detach(listener)
        self.recorder.meeting, self.recorder.journal.noted = meeting, noted
        self._hooks.stop = stop

    def doubts(self, since: int = 0) -> list[str]:
        """Why misses may have gone unseen; empty where a silence means that there were none.

        Args:
            since: how many losses there were when it began to matter (`losses`).
        """
        losses = self.recorder.journal.losses[since:]
        return [*self.recorder.blind(), *self._hooks.cut(), *losses]

    @property
    def losses(self) -> int:
        """How many losses there were up to now."""
        return len(self.recorder.journal.losses)

    def attach(self, writer: Writer) -> None:
        """Give every miss from now on to `writer`, however its function was jitted."""
        with self._lock:
            self._listen()
            self.recorder.began(writer)
            self.recorder.journal.writers = (*self.recorder.journal.writers, writer)

    def detach(self, writer: Writer) -> None:
        """Give nothing more to `writer`."""
        with self._lock:
            if writer in _files.values():
                self._stop_counting()
            self._hooks.guarded(self._tell_cuts, writer)
            self._hooks.guarded(self.recorder.flush)
            # Where that failed, lines may still wait; where not, there is nothing to do.
            self._hooks.guarded(self.recorder.flush)
            self.recorder.journal.writers = tuple(
                other for other in self.recorder.journal.writers if other is not writer
            )
            self.windows.pop(writer, None)
            self._hooks.guarded(writer.end)
            if not self.recorder.journal.writers and not self.owns_any:
                self._hooks.remove()
                self._hooks.guarded(self.recorder.ended)

    def _tell_cuts(self, writer: Writer) -> None:
        for reason in self._hooks.cut():
            writer.loss(reason)

    def own(self, jitted: Any, place: Callable[[], Path]) -> None:
        """Record the misses of one jitted function, even where nothing else is.

        The first of them begins a recording in the directory that `place` gives.
        """
        info = JITTED_INFO.of(jitted)
        with self._lock:
            self._listen()
            self._own.put(jitted, id(info))
            self._own_info[id(info)] = None
            self._own_place = place
            self.recorder.journal.own = self._owners

    @property
    def owns_any(self) -> bool:
        """Whether any function that lives was made with `retrace.jit`."""
        return bool(self._hooks.guarded(self._own.__len__))

    def _owners(self, info: Any) -> tuple[Writer, ...]:
        # `retrace run` and `install` record it already, and say where.
        self._own.forget_dead()
        if _files or id(info) not in self._own_info:
            return ()
        with self._beginning:
            if self._own_writer is None:
                assert self._own_place is not None
                self.own_directory = self._own_place()
                self._own_writer = _file_writer(self.own_directory)
                self.recorder.began(self._own_writer)
                self.recorder.journal.owned = (self._own_writer,)
            return (self._own_writer,)

    def end_own(self) -> None:
        """Say that the recording of `retrace.jit` is complete."""
        if self._own_writer is not None:
            self._hooks.guarded(self.recorder.flush)
            # Where that failed, lines may still wait; where not, there is nothing to do.
            self._hooks.guarded(self.recorder.flush)
            self._hooks.guarded(self._own_writer.end)

    def forked(self) -> None:
        """Go on in a forked child, in a file of its own."""
        self._lock = threading.RLock()
        self.recorder.forked()
        if self.served is not None:
            self._hooks.guarded(self.served.forked)
        successors: dict[Writer, Writer] = {}
        for directory, writer in list(_files.items()):
            writer.close()
            _files[directory] = successors[writer] = _file_writer(directory)
            _listen_for_requests(directory, successors[writer])
            if self._hooks.installed:
                self._hooks.guarded(self.recorder.began, successors[writer])
        if self._own_writer is not None and self.own_directory is not None:
            self._own_writer.close()
            self._own_writer = _file_writer(self.own_directory)
            self.recorder.journal.owned = (self._own_writer,)
        # A window in memory is its parent's: nobody reads it here.
        self.recorder.journal.writers = tuple(
            successors[writer] for writer in self.recorder.journal.writers if writer in successors
        )
        if processes := sys.modules.get("multiprocessing.util"):
            # Its children leave by `os._exit`; what they run first is this.
            processes.register_after_fork(self, _finalize_with_process)

    def _listen(self) -> None:
        if not self._hooks.installed:
            _count()
            self._hooks.install()


def _count() -> None:
    """Begin what `retrace.counts` tells; where this JAX cannot, that says so when it is asked."""
    try:
        from retrace.jax_internals.counting import counting

        counting.begin()
    except (ImportError, AttributeError, RetraceError):
        pass


_session: Session | None = None
_making = lock.make()
_files: dict[Path, Writer] = {}


def session() -> Session:
    """The session of this process, made when it is first needed."""
    global _session
    if _session is None:
        with _making:
            if _session is None:
                _session = Session()
    return _session


def describe_run(directory: Path | None = None) -> Run:
    """This process, for the header of its recording into a directory. Touches no device."""
    attempt = Attempt() if directory is None else attempt_of(directory)
    run = process.describe(jax.__version__, jaxlib_version(), attempt)
    run = replace(run, off_fast_path=behavior.off_fast_path())
    # A window in memory is for the program that opened it, which knows where it is.
    if directory is not None and (checkout := process.checkout()) is not None:
        run = replace(run, commit=commit_of(checkout))
    return run


def _file_writer(directory: Path) -> Writer:
    run = describe_run(directory)
    file = File(directory / f"{run.id}.jsonl")
    programs = Pages(directory / f"{run.id}{SUFFIX}")
    return Writer(file, run, programs, process.redaction(run), file.turn)


def start(directory: Path) -> None:
    """Record everything of this process into a directory, from here on."""
    if package := place.main_package():
        place.adopt(package)
    _files[directory] = writer = _file_writer(directory)
    session().attach(writer)
    session().count_calls()
    _listen_for_requests(directory, writer)


def _listen_for_requests(directory: Path, writer: Writer) -> None:
    asked = getattr(session().recorder, "asked", None)
    if asked is not None:
        asked[directory] = Asked(directory, writer.run.id, wish())


def stop(directory: Path | None = None) -> None:
    """End the recording into a directory, or all of them."""
    for path in [directory] if directory is not None else list(_files):
        writer = _files.get(path)
        if writer is not None:
            if (asked := getattr(session().recorder, "asked", {}).pop(path, None)) is not None:
                asked.stop()
            session().detach(writer)
            _files.pop(path, None)
    if directory is None and _session is not None:
        _session.end_own()


def _end() -> None:
    if (raised := process.uncaught()) is not None:
        for writer in list(_files.values()):
            writer.amend_run({"raised": raised})
    # Whoever presses Ctrl-C as the program ends gets his prompt, and a recording that is whole.
    for _ in range(_MAX_INTERRUPTS):
        try:
            stop()
        except KeyboardInterrupt:
            continue
        return


_MAX_INTERRUPTS = 3
atexit.register(_end)


def _finalize_with_process(_: Session) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, stop, exitpriority=0)


def _after_fork() -> None:
    if _session is not None:
        _session.forked()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)


def begin_file(directory: Path) -> Writer:
    """A window that is written to a directory of its own."""
    writer = _file_writer(directory)
    session().attach(writer)
    return writer


def begin_memory() -> tuple[Writer, Memory]:
    """A window that is kept in memory."""
    sink = Memory()
    writer = Writer(sink, describe_run(), sink)
    session().windows[writer] = sink
    session().attach(writer)
    return writer, sink


def begin_again(writer: Writer, sink: Memory | None) -> None:
    """Go on with a window that was ended."""
    if sink is not None:
        session().windows[writer] = sink
    session().attach(writer)


def flush() -> None:
    """Wait for what is still being worked out of the misses recorded up to now."""
    if _session is not None:
        _session.recorder.flush()


def records_into(directory: Path) -> bool:
    """Whether everything of this process is recorded into a directory."""
    return directory in _files


def records_all() -> bool:
    """Whether everything of this process is recorded somewhere."""
    return bool(_files)


def is_recording() -> bool:
    """Whether anything of this process is recorded anywhere."""
    return _session is not None and (bool(_session.recorder.journal.writers) or _session.owns_any)


def directories() -> list[Path]:
    """Where this process records everything, and what `retrace.jit` made."""
    own = _session.own_directory if _session is not None else None
    return [*_files, *([own] if own is not None else [])]


def site_of(function: Any) -> str:
    """The definition site of a function, jitted or not."""
    return session().recorder.site_of(function)


def describe(function: Any) -> Function:
    """A function, jitted or not, as its misses would name it."""
    return session().recorder.describe(function)

"""Starts and stops recording in this process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from retrace.capture import lock, place, process
from retrace.capture.audit_requests import AuditRequest, wish
from retrace.capture.commit import commit_of
from retrace.capture.journal import Event
from retrace.capture.observers import observers
from retrace.capture.public import PublicEvents
from retrace.capture.weak import ByObject
from retrace.errors import CannotTellError, RetraceError
from retrace.failure import contain, send
from retrace.jax_internals import backend, behavior
from retrace.jax_internals.names_frames import JITTED_INFO
from retrace.model import CallSite, Function, Key, Run
from retrace.store.attempts import Attempt, attempt_of
from retrace.store.programs import SUFFIX
from retrace.store.sinks import File, Memory, Nothing, Pages
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.capture.meeting import Meeting


class Session:
    """The recording of this process: the hooks and the writers that receive misses."""

    def __init__(self) -> None:
        self.recorder, self._hooks = observers()
        self._lock = threading.RLock()
        self._beginning = lock.make()
        """Held while the recording of `retrace.jit` starts: several threads may miss at once."""
        self.own_directory: Path | None = None
        """Where the misses of functions made with `retrace.jit` are recorded."""
        self._own_writer: Writer | None = None
        self._own_place: Callable[[], Path] | None = None
        self._own: ByObject[int] = ByObject(lambda gone: self._own_info.pop(gone, None))
        """The functions made with `retrace.jit`, each with the id of its options."""
        self._own_info: dict[int, None] = {}
        """The ids of these options."""
        self._listener: Writer | None = None
        """Receives every miss while processes are compared, so that misses are observed."""
        self.served: Any = None
        """Counts calls, if this was requested."""
        self.windows: dict[Writer, Memory] = {}
        """The open windows that record into memory."""

    def count_calls(self) -> None:
        """Start counting how often each program is called, if the environment asks for it."""
        if os.environ.get("RETRACE_COUNT") != "1" or self.served is not None:
            return
        if isinstance(self.recorder, PublicEvents):
            return  # the recording already says that it shows too little
        from retrace.capture.served import Served

        self.served = self._hooks.guarded(Served, self.recorder.journal, self._hooks.guarded)

    def _stop_counting(self) -> None:
        if self.served is not None:
            served, self.served = self.served, None
            self._hooks.guarded(served.stop)

    def refuse(
        self,
        on_event: Callable[[int, Event, tuple[Function, ...]], None] | None,
        refusal: Callable[[], BaseException | None] | None,
    ) -> None:
        """Ask at each call that misses what to raise there; None to stop.

        Args:
            on_event: called with the number of each miss, the event, and its function with the
                bodies that it runs, if they are known.
            refusal: called after that, in the thread and on the stack of the call.
        """
        self.recorder.journal.on_event = on_event
        self._hooks.refuse(refusal)

    def meet(
        self,
        meeting: Meeting | None,
        noted: Callable[[int, Function, Key, CallSite | None], None] | None = None,
        stop: Callable[[], BaseException | None] | None = None,
    ) -> None:
        """Report each program of several processes before it is compiled; None to stop.

        Args:
            meeting: receives the programs, in the thread and on the stack of the call.
            noted: called for each miss as it begins.
            stop: called after that, and returns what to raise there.
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
        """Why misses may have gone unseen; empty if all misses were seen.

        Args:
            since: the number of losses (`losses`) before the period in question.
        """
        losses = self.recorder.journal.losses[since:]
        return [*self.recorder.blind(), *self._hooks.cut(), *losses]

    @property
    def losses(self) -> int:
        """Number of losses so far."""
        return len(self.recorder.journal.losses)

    def attach(self, writer: Writer) -> None:
        """Send every miss from now on to `writer`, however its function was jitted."""
        with self._lock:
            self._listen()
            self.recorder.began(writer)
            self.recorder.journal.writers = (*self.recorder.journal.writers, writer)

    def detach(self, writer: Writer) -> None:
        """Send no more misses to `writer`, and end it."""
        with self._lock:
            if writer in _files.values():
                self._stop_counting()
            self._hooks.guarded(self._tell_cuts, writer)
            self._hooks.guarded(self.recorder.flush)
            # If that failed, lines may still be waiting; otherwise this does nothing.
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
        """Record the misses of one jitted function, even if nothing else is recorded.

        Its first miss starts a recording in the directory that `place` returns.
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
        """Whether any live function was made with `retrace.jit`."""
        return bool(self._hooks.guarded(self._own.__len__))

    def _owners(self, info: Any) -> tuple[Writer, ...]:
        # With `retrace run` and `install` it is recorded already, in their directory.
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
        """Mark the recording of `retrace.jit` as complete."""
        if self._own_writer is not None:
            self._hooks.guarded(self.recorder.flush)
            # If that failed, lines may still be waiting; otherwise this does nothing.
            self._hooks.guarded(self.recorder.flush)
            self._hooks.guarded(self._own_writer.end)

    def forked(self) -> None:
        """Continue in a forked child, in a file of its own."""
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
        # Windows in memory belong to the parent: nobody reads them in the child.
        self.recorder.journal.writers = tuple(
            successors[writer] for writer in self.recorder.journal.writers if writer in successors
        )
        if processes := sys.modules.get("multiprocessing.util"):
            # Its children exit with `os._exit`, but run these finalizers first.
            processes.register_after_fork(self, _finalize_with_process)

    def _listen(self) -> None:
        if not self._hooks.installed:
            _count()
            self._hooks.install()


def _count() -> None:
    """Start counting for `retrace.counts`, which itself reports if this JAX cannot."""
    try:
        from retrace.jax_internals.counting import counting

        counting.begin()
    except (ImportError, AttributeError, RetraceError):
        pass


_session: Session | None = None
_making = lock.make()
_files: dict[Path, Writer] = {}


def session() -> Session:
    """The session of this process, created when it is first needed."""
    global _session
    if _session is None:
        with _making:
            if _session is None:
                _session = Session()
    return _session


def describe_run(directory: Path | None = None) -> Run:
    """Describe this process for the header of a recording. Touches no device."""
    attempt = Attempt() if directory is None else attempt_of(directory)
    run = process.describe(jax.__version__, backend.jaxlib_version(), attempt)
    run = replace(run, off_fast_path=behavior.off_fast_path())
    # A window in memory needs no commit: only the program that opened it reads it.
    if directory is not None and (checkout := process.checkout()) is not None:
        run = replace(run, commit=commit_of(checkout))
    return run


def _file_writer(directory: Path) -> Writer:
    run = describe_run(directory)
    file = File(directory / f"{run.id}.jsonl")
    programs = Pages(directory / f"{run.id}{SUFFIX}")
    return Writer(file, run, programs, process.redaction(run), file.turn)


def start(directory: Path) -> None:
    """Start recording everything in this process into a directory."""
    if package := place.main_package():
        place.adopt(package)
    _files[directory] = writer = _file_writer(directory)
    session().attach(writer)
    session().count_calls()
    _listen_for_requests(directory, writer)


def _listen_for_requests(directory: Path, writer: Writer) -> None:
    asked = getattr(session().recorder, "asked", None)
    if asked is not None:
        asked[directory] = AuditRequest(directory, writer.run.id, wish())


def stop(directory: Path | None = None) -> None:
    """Stop recording into a directory, or into all of them."""
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
    # Ctrl-C while the program ends still leaves a complete recording, and returns the prompt.
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


if hasattr(os, "register_at_fork"):  # absent on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def begin_file(directory: Path) -> Writer:
    """Open a window that is written to a directory of its own."""
    writer = _file_writer(directory)
    session().attach(writer)
    return writer


def begin_memory() -> tuple[Writer, Memory]:
    """Open a window that is kept in memory."""
    sink = Memory()
    writer = Writer(sink, describe_run(), sink)
    session().windows[writer] = sink
    session().attach(writer)
    return writer, sink


def begin_again(writer: Writer, sink: Memory | None) -> None:
    """Reopen a window that was ended."""
    if sink is not None:
        session().windows[writer] = sink
    session().attach(writer)


def flush() -> None:
    """Wait until all misses so far are fully recorded."""
    if _session is not None:
        _session.recorder.flush()


def records_into(directory: Path) -> bool:
    """Whether everything in this process is recorded into a directory."""
    return directory in _files


def records_all() -> bool:
    """Whether everything in this process is recorded somewhere."""
    return bool(_files)


def is_recording() -> bool:
    """Whether anything in this process is recorded anywhere."""
    return _session is not None and (bool(_session.recorder.journal.writers) or _session.owns_any)


def directories() -> list[Path]:
    """The directories that this process records into, including that of `retrace.jit`."""
    own = _session.own_directory if _session is not None else None
    return [*_files, *([own] if own is not None else [])]


def site_of(function: Any) -> str:
    """The definition site of a function, jitted or not.

    Raises:
        CannotTellError: it holds something that retrace fails to describe.
    """
    called = getattr(function, "__name__", type(function).__name__)
    tell = partial(send, f"{called} could not be described")
    if (site := contain(tell, session().recorder.site_of, function)) is None:
        raise CannotTellError(f"cannot tell which function {called} is. Name it by a pattern")
    return site


def describe(function: Any) -> Function:
    """Describe a function, jitted or not, as its misses would."""
    return session().recorder.describe(function)

"""Turns events from JAX's hooks into misses: one per call, with its stages as they end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from retrace.capture import interpreter, process
from retrace.capture.audit_requests import AuditRequest
from retrace.capture.background import Background, Task
from retrace.capture.belonging import Belonging
from retrace.capture.carried import carried
from retrace.capture.commit import tell_whether_dirty
from retrace.capture.journal import Journal
from retrace.capture.misses import Misses
from retrace.capture.operation import operation_around
from retrace.capture.programs import AHEAD, NESTED, Programs, numbered
from retrace.capture.underway import Running, Underway, is_lowering, raised, spans, stage_fields
from retrace.capture.unwrapped import is_internal
from retrace.jax_internals import losses, names, shardings, spanning
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import (
    bare,
    count_inner,
    derived_from,
    find,
    is_parallel,
    is_staging,
    transformed,
)
from retrace.jax_internals.disk_cache import Lookup
from retrace.jax_internals.traces import Trace
from retrace.jax_internals.transcript import Transcript
from retrace.model import Function, Stage
from retrace.model.miss_fields import MissFields
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.capture.meeting import Meeting
    from retrace.capture.slow import Clock

_TRACE, _COMPILE = Stage.TRACE, Stage.COMPILE
_MAX_HASHES = 10_000


class Recorder:
    """The observer behind JAX's hooks, for all threads of a process."""

    def __init__(self) -> None:
        self.guarded: Callable[[Task], None] = _unguarded
        """Keeps failures on retrace's threads from the program (`Hooks.guarded`)."""
        self.journal = Journal()
        self._background = self._new_background()
        self.misses = Misses(self.journal)
        self._programs = self._new_programs()
        self._thread = Underway()
        self._belonging = Belonging(self.misses, self.journal, self._thread, self._add_program)
        self.asked: dict[object, AuditRequest] = {}
        """Pending requests for audits, by the directory that they are recorded into."""
        self.meeting: Meeting | None = None
        """Told of each program of several processes before it is compiled."""
        self._hashes: dict[int, str] = {}
        """Hashes of programs that are not compiled yet; kept only for the meeting."""
        self.slow: Clock | None = None
        """Observes slow misses in detail, if this was requested."""
        self._begins = False
        """Whether JAX reports the beginning of stages; jax 0.6.0 does not."""

    def trace_started(self, trace: Trace) -> None:
        """JAX starts to trace a Python function."""
        running = self._thread.running
        staging = is_staging()
        if (running or staging) and is_internal(trace.function):
            self.inner_trace(trace.caller)
            return
        site = find(trace.caller)
        # What the rule of a `custom_vjp` traces under an eager transform is not the call's trace.
        call = None if site.traced else site.call
        # Lowering a primitive traces a Python function; the call's own trace is over.
        if (running or staging) if call is None else is_lowering(running, call.number):
            self.inner_trace(trace.caller)
            return
        if (source := derived_from(trace)) is not None:
            if not running:
                # Rules of a `custom_vjp` trace for the derived program, which has no miss yet.
                self._thread.deriving.append((trace, source))
            return
        if call is not None:
            number = call.number
            if number is None:
                number = self._belonging.begin_call(site, _TRACE, trace.function, staging)
        elif not names.shows(losses.CALLS):
            number = self.misses.of_trace(
                trace.function, trace.caller, self._belonging.fields(_TRACE)
            )
            if number is not None:
                name = getattr(trace.function, "__name__", "")
                self._thread.nameless = (number, bare(str(name)), _TRACE)
        else:
            number = self.misses.of_body(
                trace.function, trace.caller, self._belonging.fields(_TRACE)
            )
        if number is not None:
            trace.number = number
            trace.ahead = call is not None and call.ahead
            trace.body = call is None
            if not trace.ahead and not trace.body and not running:
                self._thread.progress.traced(number)
            self._thread.ended = None
            running.append(Running(number, _TRACE))
            if self.slow is not None and len(running) == 1:
                self.slow.trace_began(number)

    def trace_ended(self, trace: Trace, seconds: float) -> None:
        """The trace returned or raised."""
        if trace.number is None:
            deriving = self._thread.deriving
            if deriving and deriving[-1][0] is trace:
                deriving.pop()
            return
        jaxpr = None if trace.result is None else trace.result[0]
        self.misses.kept.end(trace.number, trace, jaxpr)
        fields = stage_fields(self._thread.pop(trace.number, _TRACE), _TRACE, seconds)
        if self.slow is not None and not self._thread.running:
            self.slow.trace_ended(trace.number)
        if trace.raised is not None:
            fields["raised"] = type(trace.raised).__name__
        # The call will still be lowered and compiled; one line holds all of it.
        self._belonging.hold(trace.number, fields)
        if jaxpr is not None:
            self._belonging.hold(trace.number, carried(trace))
            self._belonging.by_jaxpr.put(jaxpr, trace.number)
            few = NESTED if self._thread.running or trace.body else 0
            self._programs.add(trace.number, jaxpr, AHEAD if trace.ahead else few)
        if self._thread.running or trace.raised is not None or trace.ahead:
            self._belonging.write_held()

    def inner_trace(self, frame: FrameType | None) -> None:
        """JAX traces a function of its own, inside whatever is running."""
        if running := self._thread.running:
            running[-1].inner += 1
        elif deriving := self._thread.deriving:
            self._thread.derived[deriving[-1][1]] += 1
        elif (number := operation_around(frame)) is not None:
            self._belonging.hold(number, {"inner": 1})
        elif (call := transformed(frame, is_internal)) is not None:
            if call.number is not None:
                self._belonging.hold(call.number, {"inner": 1})
            else:
                count_inner(call.frame)

    def stage_started(self, stage: Stage, name: str, frame: FrameType) -> None:
        """JAX begins to lower or to compile."""
        # Traces are seen in JAX's trace function: this event also fires on hits.
        if stage is _TRACE:
            return
        number = self._belonging.of_stage(stage, name, frame)
        if number is None:
            return
        under_way = self._thread.running
        if under_way and (under_way[-1].number, under_way[-1].stage) == (number, stage):
            return  # reported twice
        self._begins = True
        self._thread.ended = None
        under_way.append(Running(number, stage))
        if stage is not _COMPILE:
            self._belonging.hold(number, {"stage": stage})
        else:
            if self._thread.progress.compiles(number):
                self._belonging.missed(losses.LOWERINGS)
            # For `retrace watch`, which follows the recording.
            self._belonging.hold(number, {"stage": stage, **spans(frame), "since": time()})
            # If the process hangs here, the recording must say which process of the job it is.
            self.journal.tell_backend()
            # It may take minutes, and may be the last thing the program does.
            self._belonging.write_held()
            if self.meeting is not None:
                self._meet(self.meeting, number, frame)
            self._background.compiling(+1)
            if self.slow is not None:
                self.slow.compile_began(number, self._programs.waiting(number))

    def _meet(self, meeting: Meeting, number: int, frame: FrameType) -> None:
        processes = spanning.processes_of(frame)
        if len(processes) > 1:
            self._programs.now(number)
            if number not in self._hashes:
                self._background.flush()  # another thread is working on it
            meeting.joint(number, self._hashes.get(number), processes)
        else:
            meeting.alone(number)
        self._hashes.pop(number, None)

    def stage_ended(self, stage: Stage, name: str, seconds: float, frame: FrameType) -> None:
        """JAX has lowered or compiled, or raised while doing so."""
        if stage is _TRACE:
            self._parallel_trace_ended(seconds, frame)
            return
        running = self._thread.running
        top = running[-1] if running and running[-1].stage is stage else None
        if top is None and self._begins and self._thread.ended == (stage, name):
            return  # reported twice
        # jax 0.6.0 does not report when a stage begins.
        number = top.number if top is not None else self._belonging.of_stage(stage, name, frame)
        if number is None or (top is None and self._thread.ended_of == (stage, number)):
            return
        self._thread.ended, self._thread.ended_of = (stage, name), (stage, number)
        fields = stage_fields(top, stage, seconds)
        if top is not None:
            running.pop()
            if stage is _COMPILE:
                self._background.compiling(-1)
        if (error := raised(frame, top)) is not None:
            fields["raised"] = error
        if stage is _COMPILE:
            lookup = (top.lookup if top is not None else self._thread.lookup) or Lookup()
            self._thread.lookup = None
            if (cache := lookup.outcome(seconds)) is not None:
                fields["persistent_cache"] = cache
            if top is None:
                fields |= self._compiled_at_end(number, frame)
            self._compiled(number, seconds, frame)
        else:
            self._thread.lowered = number
            if "raised" not in fields:
                self._thread.progress.lowered(number)
        self._belonging.hold(number, fields)
        if stage is _COMPILE or "raised" in fields or top is None:
            # If beginnings are not reported, this is the last chance before XLA compiles.
            self._belonging.write_held()
        if top is None:
            self._background.compiling(-1 if stage is _COMPILE else +1)
        if self.asked and stage is _COMPILE and not running:
            self._outermost_ended()

    def _compiled(self, number: int, seconds: float, frame: FrameType) -> None:
        if self.slow is not None:
            self.slow.compile_ended(number, seconds, frame)
        self.journal.tell_backend()
        self._programs.compiled(number)

    def _outermost_ended(self) -> None:
        # A miss is over and the program goes on: check whether an audit was requested.
        for one in list(self.asked.values()):
            if one.looks() and not is_staging():
                one.missed()

    def _compiled_at_end(self, number: int, frame: FrameType) -> MissFields:
        """Do what the beginning of a compilation needs, if JAX reports only its end."""
        if self.meeting is not None:
            self._meet(self.meeting, number, frame)
        if self._thread.progress.compiles(number):
            self._belonging.missed(losses.LOWERINGS)
        return spans(frame)

    def cache_event(self, event: str, frame: FrameType) -> None:
        """JAX looked into its on-disk cache."""
        self._thread.looking().event(event, frame)

    def cache_saved(self, seconds: float) -> None:
        """JAX found a program on disk, and reports the time saved."""
        self._thread.looking().saved(seconds)

    def cache_key_part(
        self, name: str, digest: Callable[[], str], alone: Callable[[], tuple[str, bytes]]
    ) -> bool:
        """JAX added a part to the key of its on-disk cache; False if no more are needed."""
        return self._thread.looking().part(name, digest, alone)

    def _parallel_trace_ended(self, seconds: float, frame: FrameType) -> None:
        # Before jax 0.7, pmap traces outside JAX's cached trace function.
        if not is_parallel(frame):
            return
        site = find(frame)
        if site.call is not None:
            number = site.call.number
            if number is None:
                number = self._belonging.begin_call(site, _TRACE)
            if number is not None:
                fields: MissFields = {"stages": {_TRACE: seconds}}
                if (error := raised(frame, None)) is not None:
                    fields["raised"] = error
                self._belonging.hold(number, fields)

    def _program_known(self, number: int, found: Transcript) -> None:
        self.misses.kept.known(number, found.host)
        program = numbered(found, self.misses.number_of)
        if self.meeting is not None:
            if len(self._hashes) >= _MAX_HASHES:
                self._hashes.clear()
            self._hashes[number] = program.hash
        self.journal.listings(number, found.listings)
        fields: MissFields = {"program": program}
        held = self._thread.held
        if held is not None and held[0] == number:
            held[1].update(fields)
        else:
            self.journal.amend(number, fields)

    def _add_program(self, number: int, jaxpr: Any) -> None:
        self._programs.add(number, jaxpr)

    def _new_programs(self) -> Programs:
        return Programs(self._program_known, self.journal.lose, self._background)

    def jitted(self, function: object, frame: FrameType) -> None:
        """`jit` was called."""
        self.misses.jitted(function, frame)

    def configured(self, option: str, frame: FrameType) -> None:
        """`jax.config.update` was called."""
        self.misses.configured(option, frame)

    def evicted(self, function: object) -> None:
        """`f.clear_cache()` was called."""
        self.misses.evicted(function)

    def lowered(self, lowered: object) -> None:
        """`Traced.lower` returned: its `compile` belongs to the same miss."""
        self._belonging.write_held()
        number, self._thread.lowered = self._thread.lowered, None
        lowering = at.LOWERING_OF.of(lowered)
        if number is not None and self._belonging.by_lowering.get(lowering) is None:
            self._belonging.by_lowering.put(lowering, number)

    def failed(self, reason: str) -> None:
        """A failure of retrace was kept from the program."""
        self.journal.lose(reason)

    def lost(self, loss: names.Loss) -> None:
        """This version of JAX turned out not to expose something."""
        self._belonging.lost(loss)

    def blind(self) -> list[str]:
        """Why misses may go unseen with this version of JAX and Python."""
        return [*interpreter.losses(), *names.losses_counted()]

    def began(self, writer: Writer) -> None:
        """Write into a recording what this version of JAX and Python does not expose."""
        writer.gathers = self.gathers
        for loss in interpreter.losses():
            writer.loss(loss)
        for name, number in names.losses_counted().items():
            writer.loss(name, number)
        if writer.run.commit is not None and (checkout := process.checkout()) is not None:
            # May check thousands of files, so it runs while XLA compiles, or at the end.
            self._background.program(partial(tell_whether_dirty, writer, checkout))

    def observe_slow(self, over: float) -> None:
        """Observe in detail the misses that take at least `over` seconds."""
        from retrace.capture.slow import Clock

        self.slow = Clock(over, self.journal, self.journal.later, self.guarded)

    def site_of(self, function: Any) -> str:
        """The definition site of a function, jitted or not."""
        return self.misses.site_of(function)

    def describe(self, function: Any) -> Function:
        """Describe a function, jitted or not, as its misses would."""
        return self.misses.describe(function)

    def ended(self) -> None:
        """There are no more readers: drop the caches that were kept for speed."""
        shardings.forget()

    def forked(self) -> None:
        """Start afresh in a forked child, which does not have its parent's threads."""
        self._background = self._new_background()
        self._programs = self._new_programs()
        if self.slow is not None:
            self.slow.forked()

    def gathers(self) -> bool:
        """Whether more lines will follow at once, so that all can be appended together."""
        return self._background.is_emptying

    def _guard(self, task: Task) -> None:
        self.guarded(task)

    def _new_background(self) -> Background:
        made = Background(self._guard, self.journal.settle)
        self.journal.later = made.line
        return made

    def flush(self) -> None:
        """Write what is buffered, and wait for programs that are still being written down."""
        self._belonging.watch_compiled()
        self._belonging.write_held()
        self._background.flush()


def _unguarded(task: Task) -> None:
    task()

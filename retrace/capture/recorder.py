"""Puts what JAX's hooks tell in order: one miss a call, its stages as they end."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from retrace.capture import interpreter
from retrace.capture.background import Background, Task
from retrace.capture.function import is_internal
from retrace.capture.journal import Journal
from retrace.capture.misses import Misses, program_leaves, source_of_call, source_of_program
from retrace.capture.numbers import Numbers
from retrace.capture.operation import operation_around
from retrace.capture.programs import AHEAD, NESTED, Programs
from retrace.capture.running import Running, Underway, raised
from retrace.jax_internals import losses, names, shardings
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import (
    Site,
    bare,
    count_inner,
    derived_from,
    find,
    inner_of,
    is_clean,
    is_parallel,
    is_served,
    is_staging,
    mark,
    marked,
    transformed,
)
from retrace.jax_internals.disk_cache import Lookup
from retrace.jax_internals.jaxprs import Transcript
from retrace.jax_internals.traces import Trace
from retrace.model import JSON, Function, Stage
from retrace.store.writer import Writer

_ORDER = {stage: position for position, stage in enumerate(Stage)}


class Recorder:
    """The observer behind JAX's hooks, for all threads of a process."""

    def __init__(self) -> None:
        self.guarded: Callable[[Task], None] = _unguarded
        """Keeps what fails on a thread of ours away from the program (`Hooks.guarded`)."""
        self._background = Background(self._guard)
        self.journal = Journal(self._background.line)
        self.misses = Misses(self.journal)
        self._programs = self._new_programs()
        self._thread = Underway()
        self._by_jaxpr = Numbers()
        self._by_lowering = Numbers()
        self._begins = False
        """Whether JAX tells when a stage begins: jax 0.6.0 does not."""
        self._compiled = Numbers()
        """The lowerings that were compiled ahead of time."""

    def trace_started(self, trace: Trace) -> None:
        """JAX runs a Python function to trace it."""
        running = self._thread.running
        site = find(trace.caller)
        # Under an eager transform JAX interprets a program that it has, and runs what it finds
        # there, such as the rule of a `custom_vjp`: what these trace is not the call's own.
        call = None if site.traced else site.call
        if (running or is_staging()) and (call is None or is_internal(trace.function)):
            self.inner_trace(trace.caller)
            return
        if call is not None and _is_lowering(running, call.number):
            # A primitive that is lowered by tracing a Python function: the call's own is done.
            self.inner_trace(trace.caller)
            return
        if (source := derived_from(trace)) is not None:
            if not running:
                # What runs there, such as the rules of a `custom_vjp`, traces for the program
                # that is derived, whose miss is still to come.
                self._thread.deriving.append((trace, source))
            return
        if call is not None:
            number = call.number
            if number is None:
                number = self._begin_call(site, Stage.TRACE, trace.function)
        elif not names.shows(losses.CALLS):
            number = self.misses.of_trace(trace.function, trace.caller, self._fields(Stage.TRACE))
            if number is not None:
                name = getattr(trace.function, "__name__", "")
                self._thread.nameless = (number, bare(str(name)), Stage.TRACE)
        else:
            number = self.misses.of_body(trace.function, trace.caller, self._fields(Stage.TRACE))
        if number is not None:
            trace.number = number
            trace.ahead = call is not None and call.ahead
            trace.body = call is None
            if not trace.ahead and not trace.body and not running:
                self._thread.progress.traced(number)
            self._thread.ended = None
            running.append(Running(number, Stage.TRACE))

    def trace_ended(self, trace: Trace, seconds: float) -> None:
        """The trace returned or raised."""
        if trace.number is None:
            deriving = self._thread.deriving
            if deriving and deriving[-1][0] is trace:
                deriving.pop()
            return
        fields = self._ended(self._pop(trace.number, Stage.TRACE), Stage.TRACE, seconds)
        if trace.raised is not None:
            fields["raised"] = type(trace.raised).__name__
        # A call goes on to be lowered and compiled, and one line tells of all that.
        self._hold(trace.number, fields)
        if trace.result is not None:
            jaxpr = trace.result[0]
            self._by_jaxpr.put(jaxpr, trace.number)
            few = NESTED if self._thread.running or trace.body else 0
            at_once = AHEAD if trace.ahead else few
            self._programs.add(trace.number, jaxpr, at_once)
        if self._thread.running or trace.raised is not None or trace.ahead:
            self._write_held()

    def inner_trace(self, frame: FrameType | None) -> None:
        """A trace of JAX's own, inside whatever runs."""
        if running := self._thread.running:
            running[-1].inner += 1
        elif deriving := self._thread.deriving:
            self._thread.derived[deriving[-1][1]] += 1
        elif (number := operation_around(frame)) is not None:
            self._hold(number, {"inner": 1})
        elif (call := transformed(frame, is_internal)) is not None:
            if call.number is not None:
                self._hold(call.number, {"inner": 1})
            else:
                count_inner(call.frame)

    def stage_started(self, stage: Stage, name: str, frame: FrameType) -> None:
        """JAX begins to lower or to compile."""
        # A trace is told by JAX's trace function: the event fires on hits too.
        if stage is Stage.TRACE:
            return
        number = self._number(stage, name, frame)
        if number is None:
            return
        under_way = self._thread.running
        if under_way and (under_way[-1].number, under_way[-1].stage) == (number, stage):
            return  # told twice
        self._begins = True
        self._thread.ended = None
        under_way.append(Running(number, stage))
        self._hold(number, {"stage": stage})
        if stage is Stage.COMPILE and self._thread.progress.compiles(number):
            self._missed(losses.LOWERINGS)
        if stage is Stage.COMPILE:
            # It may take minutes, and be the last that the program does.
            self._write_held()
            self._background.compiling(+1)

    def stage_ended(self, stage: Stage, name: str, seconds: float, frame: FrameType) -> None:
        """JAX has lowered or compiled, or raised in doing so."""
        if stage is Stage.TRACE:
            self._parallel_trace_ended(seconds, frame)
            return
        running = self._thread.running
        top = running[-1] if running and running[-1].stage is stage else None
        if top is None and self._begins and self._thread.ended == (stage, name):
            return  # told twice
        # jax 0.6.0 does not tell when a stage begins.
        number = top.number if top is not None else self._number(stage, name, frame)
        if number is None or (top is None and self._thread.ended_of == (stage, number)):
            return
        self._thread.ended, self._thread.ended_of = (stage, name), (stage, number)
        fields = self._ended(top, stage, seconds)
        if top is not None:
            running.pop()
            if stage is Stage.COMPILE:
                self._background.compiling(-1)
        if (error := raised(frame, top)) is not None:
            fields["raised"] = error
        if stage is Stage.COMPILE:
            lookup = (top.lookup if top is not None else self._thread.lookup) or Lookup()
            self._thread.lookup = None
            if (cache := lookup.outcome(seconds)) is not None:
                fields["persistent_cache"] = cache
            if top is None and self._thread.progress.compiles(number):
                self._missed(losses.LOWERINGS)
            self.journal.tell_backend()
            self._programs.compiled(number)
        else:
            self._thread.lowered = number
            if "raised" not in fields:
                self._thread.progress.lowered(number)
        self._hold(number, fields)
        if stage is Stage.COMPILE or "raised" in fields or top is None:
            # Where beginnings are not told, this is the last chance before XLA compiles.
            self._write_held()
        if top is None:
            self._background.compiling(-1 if stage is Stage.COMPILE else +1)

    def cache_event(self, event: str, frame: FrameType) -> None:
        """JAX looked into its on-disk cache."""
        self._lookup().event(event, frame)

    def cache_key_part(self, name: str, digest: str) -> None:
        """JAX put one more ingredient into the key of its on-disk cache."""
        self._lookup().part(name, digest)

    def _lookup(self) -> Lookup:
        running = self._thread.running
        lookup = running[-1].lookup if running else None
        if lookup is None:
            lookup = self._thread.lookup = self._thread.lookup or Lookup()
        return lookup

    def _parallel_trace_ended(self, seconds: float, frame: FrameType) -> None:
        # pmap traces outside JAX's cached trace function until 0.7.
        if not is_parallel(frame):
            return
        site = find(frame)
        if site.call is not None:
            number = site.call.number
            if number is None:
                number = self._begin_call(site, Stage.TRACE)
            if number is not None:
                fields: dict[str, JSON] = {"stages": {Stage.TRACE: seconds}}
                if (error := raised(frame, None)) is not None:
                    fields["raised"] = error
                self._hold(number, fields)

    def _number(self, stage: Stage, name: str, frame: FrameType) -> int | None:
        """The miss that a stage belongs to; it begins here where nothing was traced."""
        if not names.shows(losses.CALLS):
            return self._nameless(stage, name, frame)
        site = find(frame)
        if site.lowered is not None:
            number = self._compile_of(site.lowered, stage)
            if number is not None:
                return number
        elif site.call is not None:
            number = site.call.number
            if number is None:
                number = self._begin_call(site, stage)
            if number is not None and site.program is not None and _is_lowered_at(stage):
                self._derive(number, site)
            if number is None and site.call.function is None:
                self.lost(losses.AHEAD if site.call.ahead else losses.CALLS)
                return self._nameless(stage, name, frame)
            return number
        elif site.program is not None:
            number = marked(site.program)
            return number if number is not None else self._begin_derived(site, name, stage)
        elif site.jaxpr is not None:
            number = self._by_jaxpr.get(site.jaxpr)
            if number is not None:
                return number
        return self.misses.of_name(name, frame, self._fields(stage))

    def _nameless(self, stage: Stage, name: str, frame: FrameType) -> int | None:
        """The miss of a stage of which JAX shows the name alone."""
        last, said = self._thread.nameless, bare(name)
        if last is not None and last[1] == said and _ORDER[last[2]] < _ORDER[stage]:
            number = last[0]
        else:
            found = self.misses.of_name(name, frame, self._fields(stage))
            if found is None:
                return None
            number = found
        self._thread.nameless = (number, said, stage)
        return number

    def _missed(self, loss: names.Loss) -> None:
        """An event was not sent that must have been: what it tells is lost from here on."""
        names.lose(loss)
        self.journal.lose(loss.name)

    def _compile_of(self, frame: FrameType, stage: Stage) -> int | None:
        """The miss of `Lowered.compile`: that of the lowering, and another one if done again."""
        if (number := marked(frame)) is not None:
            return number
        lowering = at.LOWERING_OF.of(at.LOWERED_SELF.among(frame.f_locals))
        number = self._by_lowering.get(lowering)
        if number is None:
            return None
        options = self.misses.options_of(frame)
        if not self._compiled.put(lowering, number):
            return self.misses.of_compile(frame, number, options, self._fields(stage))
        mark(frame, number)
        if options:
            self._hold(number, {"compiled_with": options})
        return number

    def _begin_call(self, site: Site, stage: Stage, traced: Any = None) -> int | None:
        call = site.call
        assert call is not None
        running = self._thread.running
        if running and running[-1].stage is not Stage.TRACE and not is_served(call.frame):
            # A lowering that was left without a word, by a signal or an older JAX.
            running.clear()
        given = call.function if call.function is not None else traced
        if call.info is None and given is not None:
            self.lost(losses.OPTIONS)
        self._watch_compiled()
        number = self.misses.of_call(call, given, stage, self._fields(stage))
        if number is None:
            return None
        if inner := inner_of(call.frame):
            self._hold(number, {"inner": inner})
        source = source_of_call(call)
        if source is not None and (site.program is not None or not is_clean()):
            self._thread.forward[source] = number
        if site.jaxpr is not None:
            self._programs.add(number, site.jaxpr)
        return number

    def _begin_derived(self, site: Site, name: str, stage: Stage) -> int | None:
        if site.jaxpr is None and site.program is not None:
            # It is lowered already, and that was not told.
            site = site._replace(jaxpr=at.DERIVED_JAXPR.among(site.program.f_locals))
        source = source_of_program(site.jaxpr)
        fields = self._fields(stage)
        fields["derived"] = site.derived or "backward"
        parent = self._thread.forward.pop(source, None) if source is not None else None
        if parent is not None:
            # Under a `vmap` as well, as in `jax.jacrev`.
            fields |= {"derived": "backward", "parent": parent}
        writers = self.journal.writers_of(parent)
        number = self.misses.of_derived(site, bare(name), source, fields, writers)
        inner = self._thread.derived.pop(source or "", 0)
        if number is not None and inner:
            self._hold(number, {"inner": inner})
        if number is not None and site.jaxpr is not None:
            self._programs.add(number, site.jaxpr)
        return number

    def _watch_compiled(self) -> None:
        """Notice that what was lowered last was not compiled, as far as JAX told."""
        if not self._thread.running and self._thread.progress.left_uncompiled():
            self._missed(losses.COMPILATIONS)

    def _derive(self, number: int, site: Site) -> None:
        """What is lowered is not the call's own program but a transform's of it."""
        assert site.call is not None
        if not is_internal(site.call.function):
            self._hold(
                number, {"derived": site.derived or "forward", "leaves": program_leaves(site)}
            )

    def _fields(self, stage: Stage) -> dict[str, JSON]:
        self._write_held()
        fields: dict[str, JSON] = {"stage": stage}
        if running := self._thread.running:
            fields["parent"] = running[-1].number
        if is_staging():
            fields["nested"] = True
        return fields

    def _hold(self, number: int, fields: dict[str, Any]) -> None:
        """Keep what is known of a miss until there is reason to write it."""
        if (other := self._thread.hold(number, fields)) is not None:
            self.journal.amend(*other)

    def _write_held(self) -> None:
        held, self._thread.held = self._thread.held, None
        if held is not None:
            self.journal.amend(*held)

    def _ended(self, running: Running | None, stage: Stage, seconds: float) -> dict[str, JSON]:
        fields: dict[str, JSON] = {"stages": {stage: seconds}}
        if running is not None and running.inner:
            fields["inner"] = running.inner
        return fields

    def _pop(self, number: int, stage: Stage) -> Running | None:
        running = self._thread.running
        for index in range(len(running) - 1, -1, -1):
            if running[index].number == number and running[index].stage is stage:
                found = running[index]
                del running[index:]
                return found
        return None

    def _program_known(self, number: int, found: Transcript) -> None:
        program = found.program
        fields: dict[str, JSON] = {"program": [program.hash, program.equations]}
        self.journal.listings(number, found.listings)
        fields["listing"] = program.listing
        if found.arrays:
            fields["arrays"] = [self.misses.number_of(array) for array in found.arrays]
        if found.held:
            fields["held"] = [self.misses.number_of(value) for value in found.held]
        if program.callbacks:
            fields["callbacks"] = program.callbacks
        held = self._thread.held
        if held is not None and held[0] == number:
            held[1].update(fields)
        else:
            self.journal.amend(number, fields)

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
        self._write_held()
        number, self._thread.lowered = self._thread.lowered, None
        lowering = at.LOWERING_OF.of(lowered)
        if number is not None and self._by_lowering.get(lowering) is None:
            self._by_lowering.put(lowering, number)

    def failed(self, reason: str) -> None:
        """A failure of ours was kept away from the program."""
        self.journal.lose(reason)

    def lost(self, loss: names.Loss) -> None:
        """This JAX turned out not to show something."""
        if names.lose(loss):
            self.journal.lose(loss.name)

    def blind(self) -> list[str]:
        """Why misses may go unseen on this JAX and this Python."""
        return [*interpreter.losses(), *names.losses_told()]

    def began(self, writer: Writer) -> None:
        """Say in a recording what this JAX and this Python do not show."""
        for loss in interpreter.losses():
            writer.loss(loss)
        for name, number in names.losses_told().items():
            writer.loss(name, number)

    def site_of(self, function: Any) -> str:
        """The definition site of a function, jitted or not."""
        return self.misses.site_of(function)

    def describe(self, function: Any) -> Function:
        """A function, jitted or not, as its misses would name it."""
        return self.misses.describe(function)

    def ended(self) -> None:
        """Nobody listens any more: let go of what was kept to be quick."""
        shardings.forget()

    def forked(self) -> None:
        """This is a child now: what its parent's threads were doing is not its own."""
        self._background = Background(self._guard)
        self.journal.background = self._background.line
        self._programs = self._new_programs()

    def _guard(self, task: Task) -> None:
        self.guarded(task)

    def flush(self) -> None:
        """Write what is held back, and wait for programs that are still being walked."""
        self._watch_compiled()
        self._write_held()
        self._background.flush()


def _is_lowering(running: list[Running], number: int | None) -> bool:
    return any(each.number == number and each.stage is Stage.LOWER for each in running)


def _is_lowered_at(stage: Stage) -> bool:
    """Whether what a call's program is shows at this stage: at its lowering, if that is told."""
    return stage is Stage.LOWER or not names.shows(losses.LOWERINGS)


def _unguarded(task: Task) -> None:
    task()

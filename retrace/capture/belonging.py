"""Which miss a stage belongs to: one already in progress, or one that begins with the stage."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from retrace.capture.derived import program_leaves, source_of_call, source_of_program
from retrace.capture.journal import Journal
from retrace.capture.miss_numbers import Numbers
from retrace.capture.misses import Misses
from retrace.capture.underway import Underway
from retrace.capture.unwrapped import is_internal
from retrace.jax_internals import losses, names
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import (
    Site,
    bare,
    find,
    inner_of,
    is_clean,
    is_served,
    is_staging,
    mark,
    marked,
    read_again,
)
from retrace.jax_internals.lowered import lowered_with
from retrace.model import Stage
from retrace.model.miss_fields import MissFields

_TRACE, _LOWER = Stage.TRACE, Stage.LOWER
_ORDER = {stage: position for position, stage in enumerate(Stage)}


class Belonging:
    """Finds the miss that a stage on the current thread belongs to, or begins one."""

    def __init__(
        self,
        misses: Misses,
        journal: Journal,
        thread: Underway,
        add_program: Callable[[int, Any], None],
    ) -> None:
        """Take the parts of the recorder that this works with.

        Args:
            misses: begins misses.
            journal: where everything known about them is written.
            thread: what is in progress on the current thread.
            add_program: called with the number and the jaxpr of a miss.
        """
        self._misses = misses
        self._journal = journal
        self._thread = thread
        self._add_program = add_program
        self.by_jaxpr = Numbers()
        self.by_lowering = Numbers()
        self._compiled = Numbers()
        """Lowerings that were compiled ahead of time."""

    def of_stage(self, stage: Stage, name: str, frame: FrameType) -> int | None:
        """The miss that a stage belongs to; begins one here if nothing was traced before."""
        if losses.CALLS in names.gone:
            return self._nameless(stage, name, frame)
        site = find(frame)
        number = self._of_site(site, stage, name, frame)
        if (
            number is not None
            and stage is _LOWER
            and site.lowering is not None
            and (digest := lowered_with(site.lowering, site.jaxpr)) is not None
        ):
            self.hold(number, {"lowered_with": digest})
        return number

    def _of_site(self, site: Site, stage: Stage, name: str, frame: FrameType) -> int | None:
        if site.lowered is not None:
            number = self._compile_of(site.lowered, stage)
            if number is not None:
                return number
        elif site.call is not None:
            number = site.call.number
            if number is None:
                number = self.begin_call(site, stage)
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
            number = self.by_jaxpr.get(site.jaxpr)
            if number is not None:
                return number
        why = losses.LOWERED_BEFORE if site.lowered is not None else losses.NO_CALL
        return self._misses.of_name(name, frame, self.fields(stage), why)

    def begin_call(
        self, site: Site, stage: Stage, traced: Any = None, staging: bool | None = None
    ) -> int | None:
        """Begin the miss of a call: its number, or None if unrecorded or if too little is known.

        Args:
            site: the call, and what is in progress around it.
            stage: the first stage that runs.
            traced: the function that JAX traces, if the call itself does not show it.
            staging: the result of `is_staging`, if the caller already has it.
        """
        call = site.call
        assert call is not None
        running = self._thread.running
        if running and running[-1].stage is not _TRACE and not is_served(call.frame):
            # A lowering whose end was never reported: a signal interrupted it, or JAX is older.
            running.clear()
        given = call.function if call.function is not None else traced
        if call.info is None and given is not None:
            self.lost(losses.OPTIONS)
        self.watch_compiled()
        source = source_of_call(call)
        number = self._misses.of_call(call, given, stage, source, self.fields(stage, staging))
        if number is None:
            return None
        if stage is not _TRACE and not running and site.jaxpr is not None:
            self._misses.kept.called(self.by_jaxpr.get(site.jaxpr))
        if inner := inner_of(call.frame):
            self.hold(number, {"inner": inner})
        if source is not None and (site.program is not None or not is_clean()):
            self._thread.forward[source] = number
        if site.jaxpr is not None:
            self._add_program(number, site.jaxpr)
        return number

    def fields(self, stage: Stage, staging: bool | None = None) -> MissFields:
        """The fields of a miss known when it begins, from what is in progress around it."""
        if self._thread.held is not None:
            self.write_held()
        fields: MissFields = {"stage": stage}
        if running := self._thread.running:
            fields["parent"] = running[-1].number
        if is_staging() if staging is None else staging:
            fields["nested"] = True
        return fields

    def hold(self, number: int, fields: MissFields) -> None:
        """Keep fields of a miss in memory until there is a reason to write them."""
        thread = self._thread
        held = thread.held
        if held is None or held[0] != number:
            thread.held = (number, fields)
            if held is not None:
                self._journal.amend(*held)
            return
        known = held[1]
        inner, stages, began = known.get("inner", 0), known.get("stages"), known.get("began")
        known.update(fields)
        if stages and "stages" in fields:
            known["stages"] = {**stages, **fields["stages"]}
        if began and "began" in fields:
            known["began"] = {**began, **fields["began"]}
        if "stage" in known and known["stage"] in known.get("stages", ()):
            del known["stage"]
        if inner and "inner" in fields:
            known["inner"] = inner + fields["inner"]

    def write_held(self) -> None:
        """Write the fields that `hold` kept."""
        held, self._thread.held = self._thread.held, None
        if held is not None:
            self._journal.amend(*held)

    def lost(self, loss: names.Loss) -> None:
        """Note that this JAX does not show something."""
        if names.lose(loss):
            self._journal.lose(loss.name)

    def missed(self, loss: names.Loss) -> None:
        """Note that JAX did not send an expected event: its information is lost from here on."""
        names.lose(loss)
        self._journal.lose(loss.name)

    def watch_compiled(self) -> None:
        """Notice if JAX never reported compiling what it lowered last."""
        if not self._thread.running and self._thread.progress.left_uncompiled():
            self.missed(losses.COMPILATIONS)

    def _nameless(self, stage: Stage, name: str, frame: FrameType) -> int | None:
        """The miss of a stage for which JAX shows only a name."""
        last, said = self._thread.nameless, bare(name)
        if last is not None and last[1] == said and _ORDER[last[2]] < _ORDER[stage]:
            number = last[0]
        else:
            found = self._misses.of_name(name, frame, self.fields(stage), losses.NO_CALL)
            if found is None:
                return None
            number = found
        self._thread.nameless = (number, said, stage)
        return number

    def _compile_of(self, frame: FrameType, stage: Stage) -> int | None:
        """The miss of `Lowered.compile`: that of the lowering, or a new one if repeated."""
        if (number := marked(frame)) is not None:
            return number
        lowering = at.LOWERING_OF.of(at.LOWERED_SELF.among(frame.f_locals))
        number = self.by_lowering.get(lowering)
        if number is None:
            return None
        options = self._misses.options_of(frame)
        if not self._compiled.put(lowering, number):
            return self._misses.of_compile(frame, number, options, self.fields(stage))
        mark(frame, number)
        if options:
            self.hold(number, {"compiled_with": options})
        return number

    def _begin_derived(self, site: Site, name: str, stage: Stage) -> int | None:
        if site.jaxpr is None and site.program is not None:
            # It has been lowered already, but JAX did not report that.
            site = site._replace(jaxpr=at.DERIVED_JAXPR.among(site.program.f_locals))
        source = source_of_program(site.jaxpr)
        fields = self.fields(stage)
        fields["derived"] = site.derived or "backward"
        parent = self._thread.forward.pop(source, None) if source is not None else None
        if parent is not None:
            # Also under a `vmap`, for example in `jax.jacrev`.
            fields |= {"derived": "backward", "parent": parent}
        writers = self._journal.writers_of(parent)
        number = self._misses.of_derived(site, bare(name), source, fields, writers)
        inner = self._thread.derived.pop(source or "", 0)
        if number is not None and inner:
            self.hold(number, {"inner": inner})
        if number is not None and site.jaxpr is not None:
            self._add_program(number, site.jaxpr)
        return number

    def _derive(self, number: int, site: Site) -> None:
        """Note that JAX lowers a transform of the call's program, not the program itself."""
        assert site.call is not None
        call = read_again(site.call)
        site = site._replace(call=call)
        if not is_internal(call.function):
            self.hold(
                number, {"derived": site.derived or "forward", "leaves": program_leaves(site)}
            )
        elif site.derived == "batched":
            # An operation under an eager `vmap`: JAX compiles it for the mapped arrays.
            self.hold(number, {"leaves": program_leaves(site)})
        if site.derived == "batched" and site.jaxpr is not None:
            # The traced program is not enough: it is the same for every batch size.
            self._add_program(number, site.jaxpr)


def _is_lowered_at(stage: Stage) -> bool:
    """Whether this stage shows which program is lowered: the lowering, if JAX reports it."""
    return stage is _LOWER or not names.shows(losses.LOWERINGS)

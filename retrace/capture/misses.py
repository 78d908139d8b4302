"""Begins misses: reads function, key and call site from the live call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

from retrace.capture import lock
from retrace.capture.argument_packing import unpack
from retrace.capture.class_values import ClassValues
from retrace.capture.derived import program_leaves
from retrace.capture.function import Functions
from retrace.capture.journal import Journal
from retrace.capture.kept import Kept, Static, changeable
from retrace.capture.key import Keys, named_arguments, signature_of, without_axis
from retrace.capture.lock import Count
from retrace.capture.of_jax import is_operation
from retrace.capture.operation import (
    at_line,
    body_functions,
    fields_of,
    has_body,
    interface_frame,
    parameters,
)
from retrace.capture.place import Line, call_site, innermost, stack_of
from retrace.capture.settings import Settings
from retrace.capture.snapshot import snapshot
from retrace.capture.surroundings import surroundings
from retrace.capture.tokens import Tokens
from retrace.capture.unwrapped import is_internal
from retrace.jax_internals import losses, names
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import Call, Site, bare, is_clean, is_of_lax, mark, marked
from retrace.jax_internals.clears import Clears
from retrace.jax_internals.names_values import SIGNATURE
from retrace.jax_internals.pmap import Options, is_mapped
from retrace.model import CallSite, Function, Key, Kind, Stage, Value
from retrace.model.miss_fields import MissFields
from retrace.store.writer import Writer

_TRACE, _SIGNATURE = Stage.TRACE, SIGNATURE.name
_OP, _TRANSFORM = Kind.OP, Kind.TRANSFORM
_MAX_SOURCES = 10_000
_MAX_BODIES = 64


class Misses:
    """Begins misses and numbers them consecutively within this process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tokens = Tokens()
        self._functions = Functions(self._tokens)
        self._keys = Keys(self._tokens, journal.lose)
        self._clears = Clears()
        self._settings = Settings()
        self.kept = Kept()
        self._lock = lock.make()
        self._numbers = Count()
        self._seen: set[int] = set()
        self._sources: dict[str, Function] = {}
        self._bodies: dict[int, Function] = {}
        """The first body of each operation whose own call has not been seen yet."""
        self._epochs: dict[int, int] = {}
        self._cold: dict[int, int] = {}
        self.making_cold = False
        """Whether functions are being made cold by a test's marker rather than by the program."""
        self._tokens.forgotten.append(self._forget)

    def of_call(
        self, call: Call, given: Any, stage: Stage, source: str | None, fields: MissFields
    ) -> int | None:
        """Begin the miss of a call to a jitted function or of an eager operation."""
        writers = self._journal.readers_of(call.info)
        if not writers or given is None:
            return None
        stack = stack_of(call.frame)
        if is_operation(given, call.frame):
            return self._of_operation(call, given, stack, fields, writers)
        packed = unpack(call)
        traced = stage is _TRACE
        static: tuple[Static, ...] = ()
        if packed is not None:
            function = self._functions.packed(packed, traced=traced)
            info = call.info if packed.info is None else packed.info
            key = self._keys.of_call(
                packed.signature, info, packed.args, packed.kwargs, packed.is_array
            )
            if packed.options:
                more = [(n, snapshot(v, self._tokens.metadata)) for n, v in packed.options]
                key = key._replace(options=(*key.options, *more))
            if packed.receiver is not None:
                (name, value), *others = key.static
                told = value._replace(text=packed.receiver, data=None)
                key = key._replace(static=((name, told), *others))
        else:
            function = self._functions.describe(given, traced=traced, jitted=True)
            signature = getattr(call.info, _SIGNATURE, None) or signature_of(given)
            key = self._keys.of_call(signature, call.info, call.args, call.kwargs)
            if key.static and traced:
                static = changeable(key, named_arguments(signature, call.args, call.kwargs))
                function = self._functions.of_method(function, given, static)
        if isinstance(call.info, Options):
            key = without_axis(key)
        site = None
        if function.kind is _OP:  # of a `pmap`
            site = innermost(stack)
            function = at_line(function, site)
        number = self._numbers()
        mark(call.frame, number)
        if call.ahead:
            fields["ahead"] = True
        self._begin(number, function, key, fields, writers, call.frame, stack, site)
        if traced:
            subject = given if packed is None else packed.function
            self.kept.begin(number, subject, function, key, static, fields)
        if source:
            if len(self._sources) >= _MAX_SOURCES:
                self._sources.clear()
            self._sources[source] = function
        return number

    def _of_operation(
        self,
        call: Call,
        given: Any,
        stack: list[Line],
        fields: MissFields,
        writers: tuple[Writer, ...],
    ) -> int:
        site = innermost(stack)
        function = self._functions.describe(given)
        key = self._keys.of_operation(call.info, call.args, call.kwargs)
        static = [
            (name, snapshot(value, self._tokens.metadata)) for name, value in parameters(given)
        ]
        key = key._replace(static=(*key.static, *static))
        fields |= fields_of(function, given, call.frame)
        interface = interface_frame(call.frame) if has_body(given) else None
        if interface is None:
            number = self._numbers()
            mark(call.frame, number)
            function = at_line(function, site)
            self._begin(number, function, key, fields, writers, call.frame, stack, site)
            return number
        given_bodies = body_functions(interface)
        number = marked(interface)
        if number is not None:
            function = at_line(function, site, self._body_of(number, given_bodies[:1]))
            # This miss began when its body was traced. If JAX's function runs another operation
            # afterwards (`cg` runs a `cond`, then a `while_loop`), that is a separate miss.
            mark(call.frame, number)
            mark(interface, None)
            self._journal.replace(number, function, key, fields)
            return number
        bodies = self._functions.describe_bodies(given_bodies)
        function = at_line(function, site, bodies)
        number = self._numbers()
        mark(call.frame, number)
        self._begin(number, function, key, fields, writers, call.frame, stack, site, bodies)
        return number

    def _body_of(self, number: int, given: Sequence[Any]) -> Iterator[Function]:
        """The description of the body with which a miss began, or of the one given now."""
        known = self._bodies.pop(number, None)
        for body in given:
            if known is None or known.object != self._tokens.number(body):
                known = self._functions.describe(body, traced=True)
            yield known

    def of_body(self, traced: Any, caller: FrameType | None, fields: MissFields) -> int | None:
        """Begin the miss of an eager operation whose body JAX traces before the operation."""
        interface = interface_frame(caller)
        if not self._journal.writers or interface is None:
            return None
        given, number = body_functions(interface), marked(interface)
        if number is None:
            # `fori_loop`, `map` and others wrap the user's body in a function of JAX.
            if is_internal(traced) and not (given and is_of_lax(interface.f_code)):
                return None
            number = self._of_first_body(given or (traced,), interface, fields)
        subject = given[0] if given and is_internal(traced) else traced
        function = self._bodies.get(number)
        if function is None or function.object != self._tokens.number(subject):
            function = self._functions.describe(subject, traced=True)
        self.kept.begin_body(number, subject, function, self._keys.config(), fields)
        return number

    def _of_first_body(
        self, given: Sequence[Any], interface: FrameType, fields: MissFields
    ) -> int:
        stack = stack_of(interface)
        site = innermost(stack)
        bodies = self._functions.describe_bodies(given)
        name = interface.f_code.co_qualname.split(".")[0]
        function = at_line(self._functions.describe(None, name), site, bodies)
        number = self._numbers()
        mark(interface, number)
        self._bodies[number] = bodies[0]
        if len(self._bodies) > _MAX_BODIES:
            self._bodies.clear()
        key, writers = Key(config=self._keys.config()), self._journal.writers
        self._begin(number, function, key, fields, writers, interface, stack, site, bodies)
        return number

    def of_trace(self, traced: Any, caller: FrameType | None, fields: MissFields) -> int | None:
        """Begin the miss of a trace for which JAX exposes the function but not the call."""
        writers = self._journal.writers
        if not writers or caller is None:
            return None
        function = self._functions.describe(traced, traced=True)
        number = self._numbers()
        key = Key(config=self._keys.config())
        self._begin(number, function, key, fields, writers, caller, stack_of(caller))
        return number

    def _forget(self, dead: int) -> None:
        self._seen.discard(dead)
        self._epochs.pop(dead, None)
        self._cold.pop(dead, None)

    def of_derived(
        self,
        site: Site,
        name: str,
        source: str | None,
        fields: MissFields,
        writers: tuple[Writer, ...],
    ) -> int | None:
        """Begin the miss of a program that JAX derives outside the call (backward pass)."""
        if not writers or site.program is None:
            return None
        function = self._sources.get(source or "")
        if function is not None:
            fields["new"] = False  # the object may have been garbage collected and forgotten
        else:
            function = self._functions.from_source(source, name)
        stack, line = stack_of(site.program), None
        if function.kind is _OP:
            line = innermost(stack)
            function = at_line(function, line)
        key = Key(leaves=program_leaves(site), config=self._keys.config())
        number = self._numbers()
        mark(site.program, number)
        self._begin(number, function, key, fields, writers, site.program, stack, line)
        return number

    def options_of(self, frame: FrameType) -> tuple[tuple[str, Value], ...]:
        """Options passed to `Lowered.compile`, in addition to those of `jit`."""
        given = at.LOWERED_OPTIONS.among(frame.f_locals)
        if not given:
            return ()
        value = snapshot(tuple(given.items()), self._tokens.metadata)
        return (("compiler_options", value),)

    def of_compile(
        self,
        frame: FrameType,
        lowered: int,
        options: tuple[tuple[str, Value], ...],
        fields: MissFields,
    ) -> int | None:
        """Begin the miss of another compilation of what an earlier miss lowered."""
        number = self._numbers()
        mark(frame, number)
        fields |= {"ahead": True, "epoch": self._epoch()}
        if unseen := names.unseen():
            fields["unseen"] = unseen
        if options:
            fields["compiled_with"] = options
        self._journal.again(number, lowered, call_site(frame), fields)
        return number

    def of_name(self, name: str, frame: FrameType, fields: MissFields, why: str) -> int | None:
        """Begin the miss of a stage for which only the name is known; `why` is the loss."""
        if not self._journal.writers:
            return None
        self._journal.lose(why)
        fields["unseen"] = ("calls",)
        number = self._numbers()
        function = self._functions.from_source(None, bare(name) or "<unknown>")
        key = Key(config=self._keys.config())
        self._begin(number, function, key, fields, self._journal.writers, frame, stack_of(frame))
        return number

    def _begin(
        self,
        number: int,
        function: Function,
        key: Key,
        fields: MissFields,
        writers: tuple[Writer, ...],
        frame: FrameType,
        stack: list[Line],
        site: CallSite | None = None,
        bodies: Sequence[Function] = (),
    ) -> None:
        if site is None and self._journal.noted is not None:
            site = innermost(stack)
        settings = self._settings.later(frame, stack, key.config)
        is_outermost = "parent" not in fields and "nested" not in fields
        # Who wrote each line is determined later, on the writer thread.
        told = partial(surroundings, stack, function, is_outermost, settings)
        if names.gone or "unseen" in fields:
            fields["unseen"] = self._unseen(function, frame, fields)
        if "new" not in fields:
            fields["new"] = self._is_new(function.object)
        fields["epoch"] = self._epoch()
        if epoch := self._epochs.get(function.object):
            fields["function_epoch"] = epoch
            # If all caches were cleared since, that was not the marker.
            if self._cold.get(function.object) == fields["epoch"]:
                fields["cold"] = True
        if bodies:
            fields["new_bodies"] = [self._is_new(body.object) for body in bodies]
        self._journal.begin(number, function, key, site, fields, writers, bodies, told)

    def _epoch(self) -> int:
        with self._lock:  # otherwise two threads could count the same clear twice
            return self._clears.epoch()

    def _unseen(
        self, function: Function, frame: FrameType, fields: MissFields
    ) -> tuple[str, ...]:
        """What this version of JAX does not expose about a miss."""
        found = [*cast(tuple[str, ...], fields.get("unseen", ())), *names.unseen()]
        operation = function.kind is _OP
        concerned = (
            (losses.DERIVED, "derived" in fields or not is_clean()),
            (losses.AHEAD, "ahead" in fields),
            (losses.PMAP, is_mapped(frame)),
            (losses.OPERATIONS, operation),
            (losses.JIT_LINES, function.in_library and function.site.endswith(" at ?")),
            (losses.FUNCTIONS, operation or function.kind is _TRANSFORM),
        )
        found += [
            loss.unseen
            for loss, concerns in concerned
            if concerns and loss.unseen is not None and not names.shows(loss)
        ]
        return tuple(dict.fromkeys(found))

    def _is_new(self, number: int) -> bool:
        with self._lock:
            if number in self._seen:
                return False
            self._seen.add(number)
            return True

    def jitted(self, function: Any, frame: FrameType) -> None:
        """`jit` was called: its line distinguishes closures made by a library."""
        self._functions.jitted(function, frame)

    def configured(self, option: str, frame: FrameType) -> None:
        """`jax.config.update` set an option."""
        self._settings.updated(option, frame)

    def described_now(
        self, function: Any, static: Sequence[Static]
    ) -> tuple[Function, ClassValues]:
        """Describe a function as if it were traced now, with all that it reads."""
        return self._functions.describe_now(function, static)

    def config_now(self) -> tuple[tuple[str, Value], ...]:
        """The configuration of this thread, as it would be part of a key."""
        return self._keys.config()

    def functions_of(self, function: Any, static: Sequence[Static] = ()) -> list[tuple[Any, Any]]:
        """The user's functions that run with it, each with the object it is bound to."""
        return self._functions.running(function, static)

    def evicted(self, function: Any) -> None:
        """`f.clear_cache()` dropped the cache entries of one function."""
        if (number := self._tokens.number(function)) is not None:
            with self._lock:
                self._epochs[number] = self._epochs.get(number, 0) + 1
                self._cold.pop(number, None)
                if self.making_cold:
                    self._cold[number] = self._clears.epoch()

    @property
    def begun(self) -> int:
        """Number of misses so far."""
        return self._numbers.given

    def number_of(self, value: object) -> int | None:
        """The number of an object in this process; None if it has no weak references."""
        return self._tokens.number(value)

    def site_of(self, function: Any) -> str:
        """The definition site of a function, jitted or not."""
        return self.describe(function).site

    def describe(self, function: Any) -> Function:
        """Describe a function, jitted or not, as its misses would."""
        return self._functions.describe(at.JITTED_FUN.of(function, function), jitted=True)

"""One audit: compares every program that JAX keeps with what the code would give today.

First everything that a function reads is read again, which runs no user code. Then the function
is traced again, from what JAX itself keeps of its call, and the two programs are compared,
constants included. Nothing is lowered or compiled.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from contextlib import ExitStack
from functools import partial
from time import perf_counter, time
from typing import Any, NamedTuple

from retrace.auditing import library_contexts
from retrace.auditing.changed_reads import (
    changed_in_place,
    changed_since,
    is_read_in_part,
    is_same,
    is_written,
    matters,
    values_of,
)
from retrace.auditing.comparison import compared
from retrace.auditing.each_time import changing
from retrace.auditing.effects import Effect, effect
from retrace.auditing.handed_on import uses
from retrace.auditing.modes import set_around
from retrace.auditing.neutral import drawn_from, put_back, undisturbed
from retrace.auditing.own_values import of_context, of_thread
from retrace.auditing.places import values
from retrace.auditing.ran import Ran
from retrace.auditing.reach import ChangedError, Reach
from retrace.auditing.reading import read_at
from retrace.auditing.reading import reads as is_read
from retrace.auditing.stack import Place
from retrace.auditing.time_limit import RaisedError, TooSlowError, limited
from retrace.auditing.weighing import is_current, is_worse
from retrace.auditing.withheld import ActsError, withheld
from retrace.capture.class_values import set_from_classes
from retrace.capture.contexts import differs
from retrace.capture.kept import KeptProgram
from retrace.capture.misses import Misses
from retrace.failure import asked, contain, send
from retrace.jax_internals import config, retracing
from retrace.model import Audit, Checked, Function, Listing, Outcome, Reading, Reason, Value

EACH = 10.0
"""Time limit for each function, in seconds."""
ALL = 60.0
"""Time limit for tracing all functions, in seconds."""
_MAX_READS = 16
_OURS = "an error of retrace"
"""What is told of a program where the error is not its own; stderr shows the error."""


class Limits(NamedTuple):
    """What an audit may do."""

    each: float = EACH
    """Seconds for each function."""
    all: float = ALL
    """Seconds for tracing all functions."""
    effects: bool = False
    """Whether to trace functions that write state of others."""
    since: int = 0
    """The first miss whose program is checked."""
    traced: int = 0
    """How many programs had been traced before that miss."""


class Found(NamedTuple):
    """The result of an audit, with the texts of programs that differ."""

    audit: Audit
    functions: dict[int, Function]
    """The function of each checked miss, as it was when it was traced."""
    listings: tuple[Listing, ...]


class Examination:
    """An audit of all programs that JAX keeps."""

    def __init__(self, misses: Misses, limits: Limits, number: int) -> None:
        self._misses = misses
        self._limits = limits
        self._number = number
        self._listings: dict[str, Listing] = {}
        self._left = limits.all
        self._effects: dict[tuple[int, int], Effect | None] = {}
        """Side effects of functions, by the `id` of each and of its receiver."""
        self._ran = Ran(())
        self._reach = Reach([], [])
        """What the function that is traced again reaches."""
        self._seen: list[Any] = []
        """Keeps these objects alive during the audit, so that no `id` is reused."""

    def run(self, run: str, seen: int) -> Found:
        """Check every program.

        Args:
            run: the id of the process.
            seen: how many misses there were.
        """
        began, at = perf_counter(), time()
        since = self._limits.since
        programs = [one for one in self._misses.kept.programs() if one[0] >= since]
        candidates = [(number, one, self._changed(one)) for number, one in programs]
        # Changed functions first, since time may run out.
        kept = [(one, one.recipe.jaxpr()) for _, one in programs]
        self._ran = Ran([jaxpr for _, jaxpr in kept if jaxpr is not None])
        candidates.sort(key=lambda one: (not matters(one[2]), one[0]))
        results: dict[int, Checked] = {}
        functions: dict[int, Function] = {}
        errors: list[Exception] = []
        with ExitStack() as stack:
            may = retracing.possible() and bool(candidates)
            if may:
                stack.enter_context(undisturbed())
                stack.enter_context(retracing.past_caches())
            for number, program, reads in candidates:
                before = len(errors)
                found = contain(errors.append, self._check, number, program, reads, may)
                if len(errors) > before:
                    found = Checked(number, Outcome.UNTRACED, reads, Reason.RAISES, _OURS)
                # A loop or branch outside all functions has several bodies: the worst counts.
                if found is not None and is_worse(found, results.get(number)):
                    results[number], functions[number] = found, program.function
        if errors:  # ours; told here, where stderr is heard again
            send("a program could not be audited", errors[0])
            errors.clear()  # their frames hold what was audited
        called = len(programs) - self._misses.kept.bodies
        audit = Audit(
            run,
            self._number,
            at,
            seen,
            len({number for number, _ in programs}),
            perf_counter() - began,
            tuple([one for one in results.values() if not is_current(one)]),
            tuple([number for number, one in results.items() if one.outcome is Outcome.SAME]),
            max(0, self._misses.kept.traced - self._limits.traced - called),
        )
        functions = {number: program.function for number, program in programs} | functions
        return Found(audit, functions, tuple(self._listings.values()))

    def _changed(self, program: KeptProgram) -> tuple[Reading, ...]:
        """Values a function reads that have changed."""
        subject = None if program.subject is None else program.subject()
        if subject is None:
            return ()
        return asked(self._readings, program, subject) or ()

    def _readings(self, program: KeptProgram, subject: Any) -> tuple[Reading, ...]:
        then = values_of(program.function)
        described, of_classes = self._misses.described_now(subject, program.static)
        now = values_of(described)
        set_from_classes(then, now, of_classes)
        for one in program.static:
            if (changed := changed_since(one)) is not None:
                then[one.name], now[one.name] = one.value, changed
        differ = [
            (name, old, now.get(name))
            for name, old in then.items()
            if (not is_same(old, now[name]) if name in now else not is_read_in_part(name, now))
        ]
        if not differ:
            return ()
        functions = self._misses.functions_of(subject, program.static)
        effects = [self._effect(one) for one in functions]
        written = {each.name for each in effects if each is not None and not each.is_call}
        return tuple(
            [
                Reading(name, old, new, *read_at(functions, name), is_written(name, written))
                for name, old, new in differ[:_MAX_READS]
                if not _is_test(name, functions)
            ]
        )

    def _check(
        self,
        number: int,
        program: KeptProgram,
        reads: tuple[Reading, ...],
        may: bool,
    ) -> Checked | None:
        jaxpr = program.recipe.jaxpr()
        if jaxpr is None:
            return None
        subject = None if program.subject is None else program.subject()
        functions = self._functions(subject, program, jaxpr)

        def untraced(reason: Reason, detail: str = "", seconds: float = 0.0) -> Checked:
            return Checked(number, Outcome.UNTRACED, reads, reason, detail, seconds=seconds)

        if not may:
            return untraced(Reason.JAX)
        effects = () if self._limits.effects else map(self._effect, functions)
        if (what := next((each for each in effects if each is not None), None)) is not None:
            return untraced(Reason.CALLS if what.is_call else Reason.WRITES, what.name)
        written = None if self._limits.effects else self._misses.kept.written.get(number)
        if written is not None:
            return untraced(Reason.WRITES, written)
        if program.thread != get_ident() and (local := of_thread(functions)) is not None:
            return untraced(Reason.THREAD, local)
        settings, differs = self._settings(program)
        if differs is not None:
            return untraced(Reason.CONFIG, differs)
        if self._left <= 0:
            return untraced(Reason.TIME)
        began = perf_counter()
        given = [(one.name, one.object()) for one in program.static]
        reach = self._reach = Reach(functions, given)
        try:
            generators = [*reach.generators, *drawn_from(functions)]
            with retracing.configured(settings), put_back(generators):
                found = self._compare(number, program, jaxpr, reads, functions)
        except retracing.GoneError:
            found = untraced(Reason.GONE)
        except TooSlowError:
            is_last = self._left < self._limits.each
            why = Reason.TIME if is_last else Reason.SLOW
            found = untraced(why, seconds=perf_counter() - began)
        except (ActsError, ChangedError) as error:
            why = Reason.CALLS if isinstance(error, ActsError) else Reason.WRITES
            found = untraced(why, str(error))
        except RaisedError as error:
            found = untraced(Reason.RAISES, str(error))
        finally:
            self._left -= perf_counter() - began
        found = _unless_mode(found, functions, given)
        if not (changed := reach.changed(found.disturbed)):
            return found
        # Seen only now, so that the next audit does not repeat it.
        self._misses.kept.written[number] = changed[0]
        return found._replace(disturbed=changed[:_MAX_READS])

    def _functions(self, subject: Any, program: KeptProgram, jaxpr: Any) -> list[tuple[Any, Any]]:
        """The user's functions that run in a trace, each with the object it is bound to."""
        static = program.static
        found = (asked(self._misses.functions_of, subject, static) or []) if subject else []
        return [*found, *self._ran.besides(found, jaxpr)]

    def _effect(self, function: tuple[Any, Any]) -> Effect | None:
        """The side effect of a function, if any; an unnamed one if that cannot be determined."""
        key = (id(function[0]), id(function[1]))
        if key not in self._effects:
            self._seen.append(function)
            found = asked(_wrapped_effect, [function])
            self._effects[key] = Effect("something") if found is None else found[0]
        return self._effects[key]

    def _compare(
        self,
        number: int,
        program: KeptProgram,
        jaxpr: Any,
        reads: tuple[Reading, ...],
        functions: list[tuple[Any, Any]],
    ) -> Checked:
        began = perf_counter()
        arrays = self._misses.kept.arrays(number)
        # JAX may give its copy of an array that was changed in place, made when converting it.
        may_be_old = bool(arrays) and not retracing.converts_anew()
        contents = changed_in_place(reads)
        is_stuck = may_be_old and bool(contents)
        again = partial(self._traced, program, began)
        found = compared(jaxpr, arrays, contents, is_stuck, again)
        for one in found.transcripts:
            self._listings.update((each.id, each) for each in one.listings)
        if found.outcome is Outcome.OTHER and (local := of_context(functions)) is not None:
            return Checked(number, Outcome.UNTRACED, reads, Reason.CONTEXT, local)
        if found.outcome is Outcome.OTHER and (name := differs(program.contexts)) is not None:
            return Checked(number, Outcome.UNTRACED, reads, Reason.CONFIG, name)
        if late := _read_late(found.ruling, reads, self._misses):
            reads, rule = late
            return Checked(number, Outcome.UNTRACED, reads, Reason.RULES, rule)
        old, new, again = (*(t.program.listing for t in found.transcripts), *[None] * 3)[:3]
        is_each = found.outcome is Outcome.EACH
        return Checked(
            number,
            found.outcome,
            reads,
            found.reason,
            found.detail,
            old,
            new,
            again,
            asked(changing, functions) or () if is_each else (),
            found.returned,
            disturbed=self._disturbed(program, reads),
            seconds=perf_counter() - began,
            uses=asked(uses, functions, reads) or () if reads and not is_each else (),
        )

    def _traced(self, program: KeptProgram, began: float) -> retracing.Retraced:
        """Trace again, within the time limits."""
        self._reach.begin()
        left = min(self._limits.each, self._left) - (perf_counter() - began)
        try:
            with library_contexts.around(program.recipe.function()):
                if self._limits.effects:
                    return limited(left, program.recipe.trace)
                with withheld():
                    return limited(left, partial(program.recipe.trace, computes=False))
        except (retracing.GoneError, TooSlowError, ActsError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the function may raise anything
            raise RaisedError(type(error).__name__) from None
        finally:
            self._reach.empty_caches()

    def _disturbed(self, program: KeptProgram, reads: tuple[Reading, ...]) -> tuple[str, ...]:
        after = {reading.name: reading for reading in self._changed(program)}
        before = {reading.name: reading for reading in reads}
        return tuple(
            [
                name
                for name, reading in after.items()
                if name not in before or before[name].new != reading.new
            ]
        )

    def _settings(self, program: KeptProgram) -> tuple[dict[str, Any], str | None]:
        """The settings to restore for the trace, and the name of one that cannot be restored."""
        now = dict(self._misses.config_now())
        settings: dict[str, Any] = {}
        for name, old in program.config:
            new = now.get(name)
            if new is not None and (new.token, new.text) == (old.token, old.text):
                continue
            if not config.can_be_set(name) or not _is_plain(old):
                return {}, name
            settings[name] = old.data
        return settings, None


def _unless_mode(
    found: Checked, functions: list[tuple[Any, Any]], given: list[tuple[str, Any]]
) -> Checked:
    """What was found, unless all that changed is set around the calls of a function."""
    if found.outcome is not Outcome.OTHER and found.reason is not Reason.RAISES:
        return found
    if (mode := asked(set_around, functions, found.reads, given)) is None:
        return found
    reads = () if mode.is_known else found.reads
    return Checked(found.miss, Outcome.UNTRACED, reads, Reason.CONTEXT, mode.name)


def _read_late(
    ruling: tuple[tuple[Any, Any], ...], changed: tuple[Reading, ...], misses: Misses
) -> tuple[tuple[Reading, ...], str] | None:
    """What the rules of an unchanged program read that has changed, and the first of them."""
    for rule, _ in ruling:
        running = asked(misses.functions_of, rule) or []
        found = [
            one
            for one in changed
            if not one.written
            and any(is_read(each, one.name, inside=True) for each, _ in running)
        ]
        if found:
            return tuple(found), rule.__name__
    return None


def _is_plain(value: Value) -> bool:
    return value.exact and type(value.data) in (bool, int, float, str, type(None))


def _wrapped_effect(functions: list[tuple[Any, Any]]) -> tuple[Effect | None]:
    return (effect(functions),)


def _is_test(name: str, functions: list[tuple[Any, Any]]) -> bool:
    """Whether it is a test case, whose state changes while its test runs."""
    case = getattr(sys.modules.get("unittest.case"), "TestCase", None)
    place = Place("cell", name)
    return case is not None and any(
        isinstance(value, case)
        for function, receiver in functions
        for value in values(place, function, receiver)
    )

"""One audit: every program that JAX keeps is held against what the code would give today.

What each function reads is read again first, which runs nothing of the user's. Then it is
traced anew, from what JAX itself keeps of its call, and the two programs are compared with their
constants. Nothing is lowered or compiled.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from contextlib import ExitStack
from time import perf_counter, time
from typing import Any, NamedTuple

from retrace.auditing import constants
from retrace.auditing.around import around
from retrace.auditing.effects import Effect, changing, effect, generators, of_thread, read_at
from retrace.auditing.limit import TooSlowError, limited
from retrace.auditing.neutral import put_back, undisturbed
from retrace.auditing.places import values
from retrace.auditing.stack import Place
from retrace.capture.kept import Program, Static
from retrace.capture.misses import Misses
from retrace.capture.programs import transcript
from retrace.capture.snapshot import snapshot
from retrace.failure import asked
from retrace.jax_internals import anew, config
from retrace.jax_internals.jaxprs import Transcript, transcribe
from retrace.model import Audit, Checked, Function, Listing, Outcome, Reading, Reason, Value

EACH = 10.0
"""Seconds that each function may take."""
ALL = 60.0
"""Seconds that tracing them all may take."""
_MOST_READS = 16


class Limits(NamedTuple):
    """How long an audit may take."""

    each: float = EACH
    """Seconds for each function."""
    all: float = ALL
    """Seconds for tracing in all."""
    effects: bool = False
    """Whether functions are traced anew that write what is not their own."""
    since: int = 0
    """The first miss whose program is looked at."""
    traced: int = 0
    """How many programs had been traced before that miss."""


class Found(NamedTuple):
    """What an audit found, with the texts of the programs that differ."""

    audit: Audit
    functions: dict[int, Function]
    """The function of each miss that was checked, as it was when it was traced."""
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
        """What functions do besides computing, by the `id` of each and of its receiver."""
        self._seen: list[Any] = []
        """These, so that no `id` is used again; until the audit is over."""

    def run(self, run: str, seen: int) -> Found:
        """Look at every program.

        Args:
            run: the process.
            seen: how many misses there were.
        """
        began, at = perf_counter(), time()
        since = self._limits.since
        programs = [one for one in self._misses.kept.programs() if one[0] >= since]
        candidates = [(number, one, self._changed(one)) for number, one in programs]
        # What has changed is looked at first, since time may run out.
        candidates.sort(key=lambda one: (not _matters(one[2]), one[0]))
        checked: list[Checked] = []
        same: list[int] = []
        with ExitStack() as stack:
            may = anew.possible() and bool(candidates)
            if may:
                stack.enter_context(undisturbed())
                stack.enter_context(anew.past_caches())
            for number, program, reads in candidates:
                found = self._check(number, program, reads, may=may)
                if found is None:
                    continue
                if found.outcome is Outcome.SAME:
                    same.append(number)
                if found.outcome is not Outcome.SAME or found.reads or found.disturbed:
                    checked.append(found)
        audit = Audit(
            run,
            self._number,
            at,
            seen,
            len(programs),
            perf_counter() - began,
            tuple(checked),
            tuple(same),
            max(0, self._misses.kept.traced - self._limits.traced - len(programs)),
        )
        functions = {number: program.function for number, program in programs}
        return Found(audit, functions, tuple(self._listings.values()))

    def _changed(self, program: Program) -> tuple[Reading, ...]:
        """What a function reads, and would find changed."""
        subject = None if program.subject is None else program.subject()
        if subject is None:
            return ()
        return asked(self._readings, program, subject) or ()

    def _readings(self, program: Program, subject: Any) -> tuple[Reading, ...]:
        then = _held(program.function)
        now = _held(self._misses.described_now(subject))
        for one in program.static:
            if (changed := _changed_since(one)) is not None:
                then[one.name], now[one.name] = one.value, changed
        differ = [
            (name, old, now.get(name))
            for name, old in then.items()
            if name not in now or not _same(old, now[name])
        ]
        if not differ:
            return ()
        functions = self._misses.functions_of(subject)
        effects = [self._effect(one) for one in functions]
        written = {each.name for each in effects if each is not None and not each.is_call}
        return tuple(
            [
                Reading(name, old, new, *read_at(functions, name), _is_written(name, written))
                for name, old, new in differ[:_MOST_READS]
                if not _is_test(name, functions)
            ]
        )

    def _check(
        self,
        number: int,
        program: Program,
        reads: tuple[Reading, ...],
        *,
        may: bool,
    ) -> Checked | None:
        jaxpr = program.recipe.jaxpr()
        if jaxpr is None:
            return None
        subject = None if program.subject is None else program.subject()
        functions = (asked(self._misses.functions_of, subject) or []) if subject else []

        def untraced(reason: Reason, detail: str = "", seconds: float = 0.0) -> Checked:
            return Checked(number, Outcome.UNTRACED, reads, reason, detail, seconds=seconds)

        if not may:
            return untraced(Reason.JAX)
        effects = () if self._limits.effects else map(self._effect, functions)
        if (what := next((each for each in effects if each is not None), None)) is not None:
            return untraced(Reason.CALLS if what.is_call else Reason.WRITES, what.name)
        if program.thread != get_ident() and (local := asked(of_thread, functions)) is not None:
            return untraced(Reason.THREAD, local)
        settings, differs = self._settings(program)
        if differs is not None:
            return untraced(Reason.CONFIG, differs)
        if self._left <= 0:
            return untraced(Reason.TIME)
        began = perf_counter()
        try:
            with anew.configured(settings), put_back(generators(functions)):
                return self._compare(number, program, jaxpr, reads, functions)
        except anew.GoneError:
            return untraced(Reason.GONE)
        except TooSlowError:
            is_last = self._left < self._limits.each
            why = Reason.TIME if is_last else Reason.SLOW
            return untraced(why, seconds=perf_counter() - began)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the function may raise anything
            return untraced(Reason.RAISES, type(error).__name__)
        finally:
            self._left -= perf_counter() - began

    def _effect(self, function: tuple[Any, Any]) -> Effect | None:
        """What a function does besides computing; something, where that cannot be told."""
        key = (id(function[0]), id(function[1]))
        if key not in self._effects:
            self._seen.append(function)
            found = asked(_told, [function])
            self._effects[key] = Effect("something") if found is None else found[0]
        return self._effects[key]

    def _compare(
        self,
        number: int,
        program: Program,
        jaxpr: Any,
        reads: tuple[Reading, ...],
        functions: list[tuple[Any, Any]],
    ) -> Checked:
        began = perf_counter()
        old = transcript(jaxpr)
        new, answer, jaxpr_now = self._traced(program, old, began)
        arrays = self._misses.kept.arrays(number)
        if answer is False and _is_but_named(jaxpr, jaxpr_now):
            answer = True
        if answer is True and arrays is not None and arrays != new.host:
            answer = False  # changed in place, and so in what JAX keeps of the trace as well
        again, fresh = None, None
        if answer is False:
            fresh, is_new, jaxpr_again = self._traced(program, new, began)
            if is_new is not True:
                # What a custom rule holds may be another at each trace, as the traceback that
                # equinox keeps for an error; it takes no part in what the program computes.
                if _computes(jaxpr_now, jaxpr_again) is True:
                    answer = _computes(jaxpr, jaxpr_now)
                else:
                    again = fresh
        disturbed = self._disturbed(program, reads)
        seconds = perf_counter() - began
        in_place = bool(arrays) and not anew.converts_anew() and any(map(_is_in_place, reads))
        if answer is True and not in_place:
            found = Checked(number, Outcome.SAME, reads)
        elif answer is not False:
            # An array that was changed in place may have been traced anew as it was: JAX keeps
            # the copy that it made when it converted its type.
            found = Checked(number, Outcome.UNTRACED, reads, Reason.CONSTANTS)
        else:
            told = [old, new] if again is None else [old, new, again]
            for one in told:
                self._listings.update((each.id, each) for each in one.listings)
            found = Checked(
                number,
                Outcome.OTHER if again is None else Outcome.EACH,
                reads,
                old=old.program.listing,
                new=new.program.listing,
                again=None if again is None else again.program.listing,
                sources=() if again is None else asked(changing, functions) or (),
            )
        return found._replace(seconds=seconds, disturbed=disturbed)

    def _traced(
        self, program: Program, old: Transcript, began: float
    ) -> tuple[Transcript, bool | None, Any]:
        """The program of today, and whether it is the old one; None where that is not known.

        With it the jaxpr.
        """
        left = min(self._limits.each, self._left) - (perf_counter() - began)
        with around(program.recipe.function()):
            jaxpr = limited(left, program.recipe.trace)
        new = transcript(jaxpr)
        if new.program.hash != old.program.hash:
            return new, False, jaxpr
        return new, _captured_same(old, new), jaxpr

    def _disturbed(self, program: Program, reads: tuple[Reading, ...]) -> tuple[str, ...]:
        after = {reading.name: reading for reading in self._changed(program)}
        before = {reading.name: reading for reading in reads}
        return tuple(
            [
                name
                for name, reading in after.items()
                if name not in before or before[name].new != reading.new
            ]
        )

    def _settings(self, program: Program) -> tuple[dict[str, Any], str | None]:
        """What is to be set as it was when it was traced; the name of what cannot be."""
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


def _changed_since(one: Static) -> Value | None:
    """A static argument as it is now; None where it is as it was, or is gone."""
    if (given := one.object()) is None:
        return None
    now = snapshot(given, _no_token)
    if repr(now.data) == repr(one.value.data):
        return None
    return one.value._replace(data=now.data, text=now.text)


def _computes(one: Any, other: Any) -> bool | None:
    """Whether two jaxprs compute the same, whatever their custom rules hold."""
    first, second = (transcribe(jaxpr, with_rules=False) for jaxpr in (one, other))
    return first.program.hash == second.program.hash and _captured_same(first, second)


def _is_but_named(one: Any, other: Any) -> bool:
    """Whether two jaxprs differ in nothing but the names of functions called inside."""
    first, second = transcript(one, with_names=False), transcript(other, with_names=False)
    return first.program.hash == second.program.hash and _captured_same(first, second) is True


def _captured_same(one: Transcript, other: Transcript) -> bool | None:
    return constants.same((*one.arrays, *one.large), (*other.arrays, *other.large))


def _no_token(_: object) -> str | None:
    return None


def _is_in_place(read: Reading) -> bool:
    return (
        read.new is not None
        and read.old.type == read.new.type == "numpy.ndarray"
        and read.old.text == read.new.text
    )


def _is_plain(value: Value) -> bool:
    return value.exact and type(value.data) in (bool, int, float, str, type(None))


def _matters(reads: tuple[Reading, ...]) -> bool:
    return any(not reading.written for reading in reads)


def _told(functions: list[tuple[Any, Any]]) -> tuple[Effect | None]:
    return (effect(functions),)


def _is_written(name: str, written: set[str]) -> bool:
    """Whether a read is of what a function writes, or of what holds that."""
    name = name.partition("[")[0]
    last = name.rpartition(".")[2]
    return any(
        place.startswith(f"{name}.")
        or name.startswith(f"{place}.")
        or place.rpartition(".")[2] == last
        for place in written
    )


def _is_test(name: str, functions: list[tuple[Any, Any]]) -> bool:
    """Whether it is a test case, which holds how far its test has come."""
    case = getattr(sys.modules.get("unittest.case"), "TestCase", None)
    place = Place("cell", name)
    return case is not None and any(
        isinstance(value, case)
        for function, receiver in functions
        for value in values(place, function, receiver)
    )


def _held(function: Function) -> dict[str, Value]:
    """What a function holds and reads, by name."""
    return dict((*function.closure, *function.defaults, *function.bound, *function.reads))


def _same(old: Value, new: Value) -> bool:
    # Not by equality alone: 1 == 1.0 == True.
    return (old.type, old.token, old.text, repr(old.data)) == (
        new.type,
        new.token,
        new.text,
        repr(new.data),
    )

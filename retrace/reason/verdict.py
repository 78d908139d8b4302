"""Judges misses one by one, in the order they started."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from retrace.causes import Cause
from retrace.compare.keys import changes as compare
from retrace.compare.keys import doubts, function_changes
from retrace.compare.nearest import Distance, Index, Nearest, was_lowered
from retrace.model import (
    Change,
    Component,
    Detail,
    Function,
    How,
    Kind,
    Listing,
    Miss,
    ObjectChange,
    Recording,
    Verdict,
)
from retrace.reason import precedence, rules, unseen
from retrace.reason.conclusion import concluded, was_traced
from retrace.reason.history import revise
from retrace.reason.patterns import recognise
from retrace.reason.unfinished import Unfinished

Site: TypeAlias = tuple[str, str | None, tuple[str, ...]]
"""Identifies a history: the definition site, how the program was derived from it, and the
transforms in between. `grad(f)` is not a recreated `f`."""

_SMALLEST_CACHE = 2048
"""Entries in JAX's smallest bounded cache (`jax/_src/interpreters/pxla.py`)."""


def judge(recording: Recording) -> list[Verdict]:
    """A verdict for each miss, in the order of the recording."""
    judges: dict[str, Judge] = {}
    found: dict[int, Verdict] = {}
    for miss in sorted(recording.misses, key=lambda miss: miss.number):
        if (own := judges.get(miss.run)) is None:
            own = judges[miss.run] = Judge(recording.listings)
        found[id(miss)] = own.judge(miss)
    verdicts = revise([found[id(miss)] for miss in recording.misses])
    named = recognise(verdicts)
    for verdict in verdicts:
        verdict.pattern = named.get(verdict.miss.id)
    return verdicts


class _History:
    """What one site has missed so far."""

    def __init__(self) -> None:
        self.keys = Index()
        """Misses that left an entry in JAX's caches."""
        self.raised = Index()
        self.programs: dict[str, Miss] = {}
        """The latest miss that gave each program, by its hash."""
        self.bodies: dict[str, Function] = {}
        self.unfinished = Unfinished()
        self.begun = False


class Judge:
    """Explains the misses of one process as they arrive."""

    def __init__(self, listings: Mapping[str, Listing] | None = None) -> None:
        """`listings` holds the texts of the programs, by id."""
        self._listings: Mapping[str, Listing] = {} if listings is None else listings
        self._histories: dict[Site, _History] = {}
        self._moved: dict[tuple[int, str, object, object], Site] = {}
        """The latest site of each function object, and of what was derived from it."""
        self._verdicts: dict[str, Verdict] = {}
        """By the id of the miss."""
        self._traces = 0
        self._traces_by: dict[str, int] = {}
        """How many traces JAX had made when each of these misses was judged."""
        self._lines: set[tuple[str, str, int]] = set()

    def judge(self, miss: Miss) -> Verdict:
        """The verdict on a miss, given all misses judged before.

        Args:
            miss: the next miss of the process, with its stages finished.

        Returns:
            The verdict. This never raises for a miss that could be recorded.
        """
        verdict = self.look(miss)
        self._keep(verdict)
        return verdict

    def look(self, miss: Miss, running: Sequence[Miss] = ()) -> Verdict:
        """The verdict on a miss that may still be running. It is not kept for comparisons.

        Args:
            miss: the miss.
            running: earlier misses of its site that were not judged, because they are still
                running in other threads.
        """
        history = self._history(miss) or _History()
        operation = miss.function.kind is Kind.OP
        found = self._operation(miss, history) if operation else self._call(miss, history)
        if not running:
            return found
        # The nearest is either the nearest one that was judged, or one of these.
        few = Judge(self._listings)
        for one in (found.nearest, *running):
            if one is not None:
                few.judge(one)
        return few.look(miss)

    def _history(self, miss: Miss) -> _History | None:
        """What the function has missed so far, also under the site that it had before."""
        history = self._histories.get(site_of(miss))
        if history is not None or miss.function.kind is Kind.OP or not miss.function.object:
            return history
        # Its code was replaced, as IPython's autoreload does when a line above it was added.
        return self._histories.get(self._moved.get(_object_of(miss), site_of(miss)))

    def _keep(self, verdict: Verdict) -> None:
        miss = verdict.miss
        site = site_of(miss)
        history = self._history(miss) or _History()
        self._histories[site] = history
        self._moved[_object_of(miss)] = site
        if miss.function.kind is Kind.OP:
            for body in miss.bodies:
                history.bodies[body.site] = body
            self._lines.add((miss.function.site, *_line(miss)))
        history.begun = True
        if miss.raised is None:
            history.keys.add(miss)
            history.unfinished.add(miss)
            if miss.program is not None:
                history.programs[miss.program.hash] = miss
        elif miss.id not in self._verdicts and not verdict.repeat:
            history.raised.add(miss)
        self._traces += miss.inner
        self._traces_by[miss.id] = self._traces
        self._verdicts[miss.id] = verdict

    def _call(self, miss: Miss, history: _History) -> Verdict:
        if (first := history.unfinished.before(miss)) is not None:
            before = self._verdicts[first.id]
            return concluded(self._listings, miss, first, (), before.cause, before=before)
        # If there was no trace, JAX knew the traced part of the key. Only an earlier call
        # that was lowered can explain why this one was lowered or compiled.
        near = history.keys.nearest(miss, lowered=not was_traced(miss) and was_lowered(miss))
        if not _same_entry(near, miss) and (first := _exact(history.raised, miss)) is not None:
            before = self._verdicts[first.id]
            follows = first.id if before.nearest is None else None
            return replace(before, miss=miss, repeat=True, follows=follows)
        if near is None:
            return self._first(miss, history)
        near = _of_same_program(near, miss, history)
        passed = rules.passed_differently(near.miss, miss)
        found = precedence.by_precedence(compare(near.miss, miss), passed)
        if unseen.hides_changes(miss, near.miss):
            return self._unknown(miss, near.miss, found)
        if miss.derived is not None and any(map(_is_derived_input, found)):
            # Derived with respect to other arguments, so that it gets other values from JAX.
            how = Detail(How.DERIVED_AGAIN)
            first = Cause.FIRST_TRACE
            return concluded(self._listings, miss, None, (), first, how, repeat=True)
        if (cause := precedence.cause_of(found[:1], passed)) is not Cause.UNKNOWN:
            return concluded(self._listings, miss, near.miss, found, cause)
        a, b = near.miss.function, miss.function
        if a.object != b.object:
            cause, detail = precedence.cause_of_function(a, b), rules.detail_of_function(a, b)
            return concluded(self._listings, miss, near.miss, found, cause, detail)
        if unseen.hides_state(miss, near.miss):
            return self._unknown(miss, near.miss, found)
        return self._same_again(miss, near.miss, found, history)

    def _unknown(self, miss: Miss, nearest: Miss | None, found: tuple[Change, ...]) -> Verdict:
        """A miss for which this JAX did not show what its cause depends on."""
        detail = unseen.detail(miss, nearest)
        return concluded(self._listings, miss, nearest, found, Cause.UNKNOWN, detail)

    def _first(self, miss: Miss, history: _History) -> Verdict:
        """A function without an earlier key: a first trace, or part of one already reported."""
        if unseen.hides_first(miss):
            return self._unknown(miss, None, ())
        around = self._verdicts.get(miss.parent or "")
        inside = (
            around is not None
            and around.cause is Cause.FIRST_TRACE
            and around.miss.function.site == miss.function.site
        )
        detail, before, repeat = None, None, history.begun
        site, derived, transforms = site_of(miss)
        plain = self._histories.get((site, derived, ()))
        if inside and miss.derived is None:
            # In `jit(jit(f))` the inner function is traced inside the outer one, and is the same.
            before = around
        elif plain is not None and plain.begun and set(transforms) == {"jit"}:
            detail, repeat = Detail(How.JITTED_AGAIN), True
        elif history.begun and not history.keys:
            detail = Detail(How.ALL_RAISED)
        cause = Cause.FIRST_TRACE
        return concluded(
            self._listings, miss, None, (), cause, detail, repeat=repeat, before=before
        )

    def _same_again(
        self, miss: Miss, near: Miss, found: tuple[Change, ...], history: _History
    ) -> Verdict:
        """Why an equal key of the same function object was not served."""

        def because(
            cause: Cause, detail: Detail | None = None, before: Verdict | None = None
        ) -> Verdict:
            # A first trace is compared with nothing, even if it repeats another.
            again = cause is Cause.FIRST_TRACE
            pair = (None, ()) if again else (near, found)
            return concluded(
                self._listings, miss, *pair, cause, detail, repeat=again, before=before
            )

        if near.thread != miss.thread and near.time + near.seconds > miss.time:
            # There was no entry yet when this call arrived.
            before = self._verdicts[near.id]
            return because(before.cause, Detail(How.IN_ANOTHER_THREAD), before)
        other_program = (
            miss.program is not None
            and near.program is not None
            and miss.program.hash != near.program.hash
        )
        if (miss.epoch, miss.function_epoch) != (near.epoch, near.function_epoch):
            how = "jax.clear_caches()" if miss.epoch != near.epoch else "clear_cache()"
            # Clearing only revealed that the cached program was stale.
            if other_program and was_traced(miss) and miss.derived is None:
                return because(Cause.JAXPR_CHANGED, Detail(How.DROPPED, (how,)))
            by = Detail(How.CLEARED_BY_MARKER) if miss.cold else Detail(How.CLEARED, (how,))
            return because(Cause.CACHE_CLEARED, by)
        if _is_derived(miss, near, history):
            return because(Cause.FIRST_TRACE, Detail(How.DERIVED_AGAIN))
        if miss.derived is not None and miss.parent in self._verdicts:
            before = self._verdicts[miss.parent]
            return because(before.cause, before=before)
        if not miss.function.object:
            return because(Cause.UNKNOWN, Detail(How.NAME_ALONE))
        if unsure := doubts(near, miss):
            cause = precedence.cause_of(unsure)
            return concluded(self._listings, miss, near, unsure, cause)
        if other_program:
            return because(Cause.JAXPR_CHANGED)
        between = miss.number - near.number - 1
        if between + self._traces - self._traces_by[near.id] < _SMALLEST_CACHE:
            # No bounded cache can have dropped it: `linearize` and `vjp` derive one program each.
            if not was_traced(miss):
                return because(Cause.FIRST_TRACE, Detail(How.MADE_AGAIN))
            return because(Cause.UNKNOWN, Detail(How.TRACED_AGAIN))
        return because(Cause.CACHE_EVICTED, Detail(How.WITHOUT_CLEAR, misses=between))

    def _operation(self, miss: Miss, history: _History) -> Verdict:
        near = history.keys.nearest(miss)
        if unseen.hides_first(miss):
            return self._unknown(miss, None if near is None else near.miss, ())
        found: tuple[Change, ...] = ()
        cause = Cause.EAGER_OP
        if near is not None:
            found = precedence.by_precedence(rules.in_key(compare(near.miss, miss)))
            bodies = tuple(_recreated_bodies(miss, near.miss, history))
            if bodies and not found and unseen.hides_changes(miss, near.miss):
                return self._unknown(miss, near.miss, bodies)
            if bodies and not found:
                cause = Cause.CONTROL_FLOW_RECREATED
            found += bodies
        first = (miss.function.site, *_line(miss)) not in self._lines
        nearest = None if near is None else near.miss
        return concluded(self._listings, miss, nearest, found, cause, first_of_line=first)


def site_of(miss: Miss) -> Site:
    """The history that a miss belongs to."""
    function = miss.function
    if function.kind is Kind.OP:
        return (function.site, None, ())
    # A partial is the function with some arguments filled in, so it shares the history.
    transforms = tuple([name for name in function.wrappers if "partial" not in name])
    return (function.site, miss.derived, transforms)


def _object_of(miss: Miss) -> tuple[int, str, object, object]:
    """The function object, whatever its site, with what was made of it."""
    return (miss.function.object, miss.function.name, *site_of(miss)[1:])


def _same_entry(near: Nearest | None, miss: Miss) -> bool:
    return (
        near is not None
        and near.distance == (0, 0)
        and near.miss.function.object == miss.function.object
    )


def _exact(index: Index, miss: Miss) -> Miss | None:
    near = index.nearest(miss) if len(index) else None
    return near.miss if near is not None and _same_entry(near, miss) else None


def _of_same_program(near: Nearest, miss: Miss, history: _History) -> Nearest:
    """For a derived program, what gave the same one before.

    JAX derives one for each set of arguments that are differentiated, which no key shows.
    """
    if miss.derived is None or miss.program is None or near.miss.program is None:
        return near
    same = history.programs.get(miss.program.hash)
    if same is None or near.miss.program.hash == miss.program.hash or same.key != miss.key:
        return near
    return near._replace(miss=same, distance=Distance(0, 0))


def _is_derived_input(change: Change) -> bool:
    """Whether an input of a derived program that has no name of the user's came or went."""
    return change.component is Component.TREE and str(change.path).startswith("args[")


def _is_derived(miss: Miss, near: Miss, history: _History) -> bool:
    """Whether JAX derived another program from a trace that it still had.

    It does so for an eager gradient or `vmap`, ahead of time, and if one gradient takes several
    backward programs.
    """
    if was_traced(miss) and miss.derived is None:
        return False
    if miss.program is not None and history.programs:
        return miss.program.hash not in history.programs
    return miss.number - near.number <= _SMALLEST_CACHE


def _recreated_bodies(miss: Miss, near: Miss, history: _History) -> Iterator[Change]:
    # Branches made in one comprehension have one site: the first is compared with the first.
    of_nearest: dict[str, list[Function]] = defaultdict(list)
    for body in near.bodies:
        of_nearest[body.site].append(body)
    for body, new in zip(miss.bodies, miss.new_bodies, strict=False):
        alike = of_nearest[body.site]
        before = alike[0] if alike else history.bodies.get(body.site)
        if len(alike) > 1:
            del alike[0]
        if not new or before is None:
            continue
        for change in function_changes(before, body):
            is_object = isinstance(change, ObjectChange)
            yield change._replace(body=body.name) if is_object else change


def _line(miss: Miss) -> tuple[str, int]:
    site = miss.entry or miss.call_site
    return ("", 0) if site is None else (site.file, site.line)

"""Watches one test: what it missed, and whether that exceeds its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.guards import budget
from retrace.guards.assertions import in_order, make_budget, unmatched
from retrace.guards.jitted import make_cold
from retrace.guards.stale import Start, Within, out_of_date, start
from retrace.guards.trust import doubt, losses
from retrace.guards.watch import of_numbers, watch
from retrace.model import Miss, Verdict
from retrace.present.guard import explanation
from retrace.present.message import where
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import name, place, times

_MARKER_NAME = "pytest.mark.retrace"
_MAX_PLACES = 5
_LIMITS = {
    "max_traces": "traces",
    "compiles": "compiles",
    "lowerings": "lowerings",
    "seconds": "seconds",
}
_STALE = ("stale", "audit_seconds", "audit_total")
_KNOWN = (*_LIMITS, "allow", "functions", "warmup", "causes", *_STALE)


Marks: TypeAlias = Sequence[tuple[Sequence[Any], Mapping[str, Any]]]


class Found(NamedTuple):
    """The result for a test."""

    heads: list[str]
    """The exceeded limits, one line each."""
    text: str
    """The explanation, if any."""
    doubt: str = ""
    """What could not be checked."""


class Watched:
    """The misses of one test, from the setup of its fixtures on."""

    def __init__(self, *, lists: bool = False) -> None:
        """With `lists`, keep programs to list at the end what the test compiled."""
        self._watch = watch()
        if lists:
            self._watch.keep_programs()
        self._start = self._called = self._losses = 0
        self._budgets: list[budget.Budget] = []
        self.places: list[str] = []
        """The lines whose calls missed too often, without duplicates; set by `excesses`."""
        self._marker_error: UsageError | None = None
        self._not_found: set[budget.Selector] = set()
        """Functions named by markers for which there was no jitted object."""
        self._audits_from: Start | None = None
        """Programs traced from here on must be up to date after the test; None: no check."""
        self._within = Within()

    def __enter__(self) -> Self:
        self._start = self._called = self._watch.open()
        self._losses = losses()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.close()

    def set_up(self, marks: Marks) -> None:
        """Prepare for a test, perhaps a rerun: clear the caches of what its markers name.

        Args:
            marks: the arguments of its markers, the closest first; if several name the same
                functions, the closest applies.
        """
        self._start = self._called = self._watch.position
        self._budgets, self._marker_error, self._audits_from = [], None, None
        self.places = []
        try:
            budgets: dict[object, budget.Budget] = {}
            for arguments, options in marks:
                if _asks_for_audit(options):
                    if self._audits_from is None:  # the closest marker says how long
                        self._audits_from, self._within = start(), _within(options)
                    if not arguments and not set(options).difference(_STALE):
                        continue
                made = _budget(arguments, options)
                budgets.setdefault(made.functions, made)
        except UsageError as error:
            self._marker_error = error
            return
        self._budgets = list(budgets.values())
        named = {one for made in self._budgets for one in made.functions}
        self._not_found = named - make_cold(named)

    def begin(self) -> None:
        """The test itself begins.

        Raises:
            UsageError: a marker has an invalid argument.
        """
        if self._marker_error is not None:
            raise self._marker_error
        self._called = self._watch.position

    def excesses(self) -> Found:
        """The limits that the test exceeded and the programs out of date after it, explained."""
        found = self._exceeded()
        if self._audits_from is None:
            return found
        stale = out_of_date(self._audits_from, self._within)
        parts = [part for part in (found.text, stale.text) if part]
        return Found([*found.heads, *stale.heads], "\n".join(parts), stale.doubt)

    def _exceeded(self) -> Found:
        if not self._budgets:
            return Found([], "")
        unknown = [
            text for one in self._budgets for text in unmatched(self._watch, one.functions)
        ]
        numbers = self._watch.numbers(self._start)
        misses = self._watch.misses_of(numbers)
        unknown = unknown or [
            _not_found_text(one) for one in self._not_found if not _is_missed(one, misses)
        ]
        if not numbers:
            return Found(unknown or self._doubts(), "")
        # Judged alone: misses of earlier tests must make no difference.
        view = self._watch.alone(numbers)
        verdicts = of_numbers(view.verdicts, self._watch.numbers(self._called))
        found = [e for one in self._budgets for e in budget.excesses(view, verdicts, one)]
        if not found:
            return Found(unknown or self._doubts(), "")
        heads = [*unknown, *(excess.text for excess in found)]
        self.places = _places(view, [v for excess in found for v in excess.verdicts])
        counted = in_order(view, (v for excess in found for v in excess.verdicts))
        return Found(heads, explanation(view, heads, counted))

    def _doubts(self) -> list[str]:
        """Why a marked test cannot pass although no limit was exceeded."""
        found = doubt(_MARKER_NAME, self._losses) if self._budgets else None
        return [] if found is None else [str(found)]

    def doubt(self) -> str | None:
        """Why misses of this test may have gone unseen; None if they would have been seen."""
        found = doubt("retrace", self._losses)
        return None if found is None else str(found)

    def missed(self, *, patterns: bool = True) -> tuple[View, list[Verdict]] | None:
        """The view, and the misses of the test and its fixtures; None if there are none."""
        numbers = self._watch.numbers(self._start)
        if not numbers:
            return None
        view = self._watch.view(numbers, patterns=patterns)
        return view, of_numbers(view.verdicts, numbers)

    def properties(self) -> list[tuple[str, str]]:
        """For JUnit XML: how many calls of the test and its fixtures missed, and the seconds."""
        missed = self._watch.misses_of(self._watch.numbers(self._start))
        calls = [miss for miss in missed if miss.parent is None]
        spent = sum(miss.seconds for miss in calls)
        return [("retrace.misses", str(len(calls))), ("retrace.seconds", f"{spent:.3f}")]

    def listed(self) -> tuple[list[tuple[float, str]], list[tuple[Any, ...]]]:
        """What the list at the end needs of this test.

        Returns:
            The seconds and a line of text for each function and cause that missed, and what the
            test compiled, as fields of `runs.again.Compiled` for another process.
        """
        if (missed := self.missed(patterns=False)) is None:
            return [], []
        return self._rows(*missed), self._compiled(*missed)

    def _rows(self, view: View, verdicts: list[Verdict]) -> list[tuple[float, str]]:
        rows: list[tuple[float, str]] = []
        for group in Tally.of(view, verdicts).groups():
            who = name(group.shown.miss.function)
            if group.cause is Cause.EAGER_OP:
                who = "eager operations"
            often = f", {times(group.count)}" if group.count > 1 else ""
            worth = ", avoidable" if group.avoidable == "yes" else ""
            text = f"{who} ({where(view, group)}): {group.cause.value}{often}{worth}"
            rows.append((round(group.seconds, 4), text))
        return rows

    def _compiled(self, view: View, verdicts: list[Verdict]) -> list[tuple[Any, ...]]:
        from retrace.runs.again import compiled

        runs = {run.id: run for run in view.recording.runs}
        listings = self._watch.listings()
        return [
            tuple(one)
            for verdict in verdicts
            if (run := runs.get(verdict.miss.run)) is not None
            for one in compiled([verdict.miss], run, listings, apart=True)
        ]


def _places(view: View, verdicts: Sequence[Verdict]) -> list[str]:
    """The first lines whose calls missed; the explanation has all of them."""
    again = [one for one in verdicts if one.cause is not Cause.FIRST_TRACE] or verdicts
    lines = dict.fromkeys(
        f"{place(site.file, site.line, view.bases)}: missed here: {name(one.miss.function)}"
        for one in again
        if (site := one.miss.call_site) is not None
    )
    return [*lines][:_MAX_PLACES]


def _asks_for_audit(options: Mapping[str, Any]) -> bool:
    if (wish := options.get("stale")) not in (None, "fail"):
        raise UsageError(f'stale must be "fail" or left out, not {wish!r}')
    if wish is None and (given := [one for one in _STALE[1:] if one in options]):
        raise UsageError(f'{given[0]} limits the audit of stale="fail", which is not there')
    return wish is not None


def _within(options: Mapping[str, Any]) -> Within:
    limits: list[float] = []
    for option, usual in zip(_STALE[1:], Within(), strict=True):
        value = options.get(option, usual)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UsageError(f"{option} is a number of seconds, not {value!r}")
        limits.append(value)
    return Within(*limits)


def _is_missed(one: budget.Selector, misses: Sequence[Miss]) -> bool:
    return any(one.matches(f) for miss in misses for f in (miss.function, *miss.bodies))


def _not_found_text(one: budget.Selector) -> str:
    return (
        f"could not clear the caches of {one.pattern!r}: no jitted function of this name was "
        "found before the test and none was traced in it, so nothing was checked; name the "
        "function that is passed to jax.jit"
    )


def _budget(arguments: Sequence[Any], options: Mapping[str, Any]) -> budget.Budget:
    if arguments:
        raise UsageError(f"it takes only keyword arguments: {', '.join(_KNOWN)}")
    for option in options:
        if option not in _KNOWN:
            raise UsageError(
                f"there is no argument {option!r}{budget.nearest(option, _KNOWN)}"
                f" (it takes {', '.join(_KNOWN)})"
            )
    limits: dict[str, float] = {
        limit: options[option]
        for option, limit in _LIMITS.items()
        if options.get(option) is not None
    }
    causes: Mapping[str, int] = options.get("causes") or {}
    limits.update({str(cause): number for cause, number in causes.items()})
    allow = options.get("allow")
    if allow is None:
        allow = () if limits else (Cause.FIRST_TRACE,)
    return make_budget(
        _MARKER_NAME,
        options.get("functions"),
        limits or {"misses": 0},
        allow,
        options.get("warmup", 0),
    )

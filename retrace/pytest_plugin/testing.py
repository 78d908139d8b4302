"""One test under watch: what it missed, and whether that was too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.guards import budget
from retrace.guards.assertions import in_order, make_budget, unmatched
from retrace.guards.jitted import make_cold
from retrace.guards.stale import Start, out_of_date, start
from retrace.guards.trust import doubt, losses
from retrace.guards.watch import of_numbers, watch
from retrace.model import Miss, Verdict
from retrace.present.guard import explanation
from retrace.present.message import where
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import name, place, times

_SAID = "pytest.mark.retrace"
_MOST_PLACES = 5
_LIMITS = {
    "max_traces": "traces",
    "compiles": "compiles",
    "lowerings": "lowerings",
    "seconds": "seconds",
}
_KNOWN = (*_LIMITS, "allow", "functions", "warmup", "causes", "stale")


Marks: TypeAlias = Sequence[tuple[Sequence[Any], Mapping[str, Any]]]


class Found(NamedTuple):
    """What came of a test."""

    heads: list[str]
    """What was exceeded, a line each."""
    text: str
    """The explanation; empty where there is none."""
    doubt: str = ""
    """What could not be checked."""


class Watched:
    """The misses of one test, from the setup of its fixtures on."""

    def __init__(self, *, lists: bool = False) -> None:
        """With `lists`, what the test compiled is to be told at the end."""
        self._watch = watch()
        if lists:
            self._watch.keep_programs()
        self._start = self._called = self._losses = 0
        self._budgets: list[budget.Budget] = []
        self.places: list[str] = []
        """The lines whose calls missed too often, after `excesses`; each line once."""
        self._nonsense: UsageError | None = None
        self._warm: set[budget.Selector] = set()
        """What markers name and no jitted object was found of."""
        self._audits_from: Start | None = None
        """Whose programs are to be up to date after the test: all from there on, or none."""

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
        """The test is about to be set up, perhaps once more: make cold what its markers name.

        Args:
            marks: arguments of its markers, the closest first; of several that name the
                same functions the closest holds.
        """
        self._start = self._called = self._watch.position
        self._budgets, self._nonsense, self._audits_from = [], None, None
        self.places = []
        try:
            budgets: dict[object, budget.Budget] = {}
            for arguments, options in marks:
                if _asks_for_audit(options):
                    self._audits_from = start()
                    if len(options) == 1 and not arguments:
                        continue
                made = _budget(arguments, options)
                budgets.setdefault(made.functions, made)
        except UsageError as error:
            self._nonsense = error
            return
        self._budgets = list(budgets.values())
        named = {one for made in self._budgets for one in made.functions}
        self._warm = named - make_cold(named)

    def begin(self) -> None:
        """The test itself begins.

        Raises:
            UsageError: a marker has an argument that is nonsense.
        """
        if self._nonsense is not None:
            raise self._nonsense
        self._called = self._watch.position

    def excesses(self) -> Found:
        """What the test has exceeded, and what is out of date after it, explained."""
        found = self._exceeded()
        if self._audits_from is None:
            return found
        stale = out_of_date(self._audits_from)
        parts = [part for part in (found.text, stale.text) if part]
        return Found([*found.heads, *stale.heads], "\n".join(parts), stale.gone)

    def _exceeded(self) -> Found:
        if not self._budgets:
            return Found([], "")
        unknown = [
            text for one in self._budgets for text in unmatched(self._watch, one.functions)
        ]
        numbers = self._watch.numbers(self._start)
        misses = self._watch.misses_of(numbers)
        unknown = unknown or [
            _told_warm(one) for one in self._warm if not _is_missed(one, misses)
        ]
        if not numbers:
            return Found(unknown or self._doubts(), "")
        # By itself: whether the tests before it missed the same must make no difference.
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
        """Why a marked test cannot pass although nothing was too much."""
        found = doubt(_SAID, self._losses) if self._budgets else None
        return [] if found is None else [str(found)]

    def doubt(self) -> str | None:
        """Why misses of this test may have gone unseen; None where they would have been seen."""
        found = doubt("retrace", self._losses)
        return None if found is None else str(found)

    def missed(self, *, patterns: bool = True) -> tuple[View, list[Verdict]] | None:
        """All that is known, and what the test missed with its fixtures; None for nothing."""
        numbers = self._watch.numbers(self._start)
        if not numbers:
            return None
        view = self._watch.view(numbers, patterns=patterns)
        return view, of_numbers(view.verdicts, numbers)

    def properties(self) -> list[tuple[str, str]]:
        """For JUnit's XML: how many calls missed, its fixtures' with them, and their seconds."""
        missed = self._watch.misses_of(self._watch.numbers(self._start))
        calls = [miss for miss in missed if miss.parent is None]
        spent = sum(miss.seconds for miss in calls)
        return [("retrace.misses", str(len(calls))), ("retrace.seconds", f"{spent:.3f}")]

    def rows(self) -> list[tuple[float, str]]:
        """Seconds and words, by function and cause, of all that the test missed."""
        if (missed := self.missed(patterns=False)) is None:
            return []
        view, verdicts = missed
        rows: list[tuple[float, str]] = []
        for group in Tally.of(view, verdicts).groups():
            who = name(group.shown.miss.function)
            if group.cause is Cause.EAGER_OP:
                who = "eager operations"
            often = f", {times(group.count)}" if group.count > 1 else ""
            worth = ", avoidable" if group.avoidable == "yes" else ""
            said = f"{who} ({where(view, group)}): {group.cause.value}{often}{worth}"
            rows.append((round(group.seconds, 4), said))
        return rows

    def compiled(self) -> list[tuple[Any, ...]]:
        """What the test compiled: the fields of `runs.again.Compiled`, for another process."""
        from retrace.runs.again import compiled

        if (missed := self.missed(patterns=False)) is None:
            return []
        view, verdicts = missed
        runs = {run.id: run for run in view.recording.runs}
        listings = self._watch.listings()
        return [
            tuple(one)
            for verdict in verdicts
            if (run := runs.get(verdict.miss.run)) is not None
            for one in compiled([verdict.miss], run, listings, apart=True)
        ]


def _places(view: View, verdicts: Sequence[Verdict]) -> list[str]:
    """The lines that called what missed, in order; past a few they are in the explanation."""
    again = [one for one in verdicts if one.cause is not Cause.FIRST_TRACE] or verdicts
    said = dict.fromkeys(
        f"{place(site.file, site.line, view.bases)}: missed here: {name(one.miss.function)}"
        for one in again
        if (site := one.miss.call_site) is not None
    )
    return [*said][:_MOST_PLACES]


def _asks_for_audit(options: Mapping[str, Any]) -> bool:
    if (wish := options.get("stale")) not in (None, "fail"):
        raise UsageError(f'stale is "fail", or is left out: not {wish!r}')
    return wish is not None


def _is_missed(one: budget.Selector, misses: Sequence[Miss]) -> bool:
    return any(one.matches(f) for miss in misses for f in (miss.function, *miss.bodies))


def _told_warm(one: budget.Selector) -> str:
    return (
        f"could not clear the caches of {one.pattern!r}: no jitted function of this name was "
        "found before the test and none was traced in it, so nothing was checked; name the "
        "function that is passed to jax.jit"
    )


def _budget(arguments: Sequence[Any], options: Mapping[str, Any]) -> budget.Budget:
    if arguments:
        raise UsageError(f"it takes arguments by name: {', '.join(_KNOWN)}")
    for option in options:
        if option not in _KNOWN:
            raise UsageError(
                f"there is no argument {option!r}{budget.nearest(option, _KNOWN)}"
                f" (it takes {', '.join(_KNOWN)})"
            )
    most: dict[str, float] = {
        limit: options[option]
        for option, limit in _LIMITS.items()
        if options.get(option) is not None
    }
    causes: Mapping[str, int] = options.get("causes") or {}
    most.update({str(cause): number for cause, number in causes.items()})
    allow = options.get("allow")
    if allow is None:
        allow = () if most else (Cause.FIRST_TRACE,)
    return make_budget(
        _SAID, options.get("functions"), most or {"misses": 0}, allow, options.get("warmup", 0)
    )

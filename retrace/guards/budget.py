"""Limits on the misses of a function, and which misses exceed them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple, cast

from retrace.causes import Cause
from retrace.errors import UsageError
from retrace.model import Function, Kind, Miss, Stage, Verdict
from retrace.present.view import View
from retrace.present.words import listed, name, nearest, seconds, times

COUNTS = ("misses", "traces", "lowerings", "compiles", "seconds")
"""What can be limited, besides causes."""

_STAGES = {"traces": Stage.TRACE, "lowerings": Stage.LOWER, "compiles": Stage.COMPILE}
_MAX_KNOWN = 10_000
_SEPARATORS = re.compile(r"[/\\]+")


class Selector(NamedTuple):
    """Selects functions: those of one definition site, or those matching a name or pattern."""

    pattern: str
    site: str | None = None

    def matches(self, function: Function) -> bool:
        """Whether it selects this function."""
        if self.site is not None:
            # `Model.step` stands for the methods bound to its objects, too.
            bound = function.receiver is not None and function.site.startswith(f"{self.site} of ")
            return bound or function.site == self.site
        return any(fnmatchcase(name, self.pattern) for name in names(function))


def names(function: Function) -> Iterator[str]:
    """Every name a user may use for it: `step`, `Model.step`, `package.module.step`."""
    yield function.name
    yield function.qualname
    yield function.qualname.rpartition(".<locals>.")[2]  # in a class that is local to a function
    yield function.jax_name
    if function.file is not None:
        parts = _SEPARATORS.split(function.file.removesuffix(".py"))
        if parts[-1] == "__init__":
            parts.pop()
        module = ""
        for part in reversed(parts[-6:]):
            module = f"{part}.{module}" if module else part
            yield f"{module}.{function.qualname}"


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the misses of a function, applied to each function separately."""

    limits: Mapping[str, float]
    """By one of `COUNTS` or the code of a cause."""
    functions: tuple[Selector, ...] = ()
    """Empty means every function."""
    allow: frozenset[str] = frozenset()
    """Causes that do not count."""
    warmup: int = 0
    """How many first misses of each function do not count."""
    optional: bool = False
    """Whether the function may be missing from a recording."""

    def matches(self, *functions: Function) -> bool:
        """Whether the budget applies to one of these (the function of a miss, or its bodies)."""
        return not self.functions or any(
            one.matches(function) for one in self.functions for function in functions
        )

    def subject(self, miss: Miss) -> str | None:
        """The definition site that a miss counts for; None if the budget does not apply to it.

        If the body of an eager loop or branch is selected, the miss counts for the body.
        """
        if not self.functions:
            return miss.function.site
        for function in (*miss.bodies, miss.function):
            if self.matches(function):
                return function.site
        return None

    def counted(self, verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
        """The misses that count, by definition site."""
        found: dict[str, list[Verdict]] = {}
        seen: dict[str, int] = {}
        for verdict in verdicts:
            subject = self.subject(verdict.miss)
            if subject is None or verdict.cause.value in self.allow:
                continue
            if not self.functions and _is_first_of_line(verdict):
                continue
            seen[subject] = seen.get(subject, 0) + 1
            if seen[subject] > self.warmup:
                found.setdefault(subject, []).append(verdict)
        return found


class Matcher:
    """Whether a budget applies to a miss; remembers which functions matched."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[tuple[str, str, str], bool] = {}

    def __call__(self, functions: Iterable[Function]) -> bool:
        """Whether it applies to one of these."""
        return not self._budget.functions or any(map(self._matches, functions))

    def _matches(self, function: Function) -> bool:
        key = (function.site, function.name, function.jax_name)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = self._budget.matches(function)
        return known


class Excess(NamedTuple):
    """One limit that was exceeded by one function."""

    text: str
    """`train_step was traced 3 times, at most 1 is allowed`."""
    verdicts: list[Verdict]
    """The misses that count towards it."""
    short: str
    """Without the function: `3 traces, budget 1`."""


def only_compiled(verdict: Verdict) -> Verdict:
    """A miss that began before a block, with what was done in the block alone."""
    spent = verdict.miss.stages.get(Stage.COMPILE, 0.0)
    return replace(verdict, miss=replace(verdict.miss, stages={Stage.COMPILE: spent}))


def excesses(view: View, verdicts: Sequence[Verdict], budget: Budget) -> list[Excess]:
    """The limits of a budget that functions exceed.

    Args:
        view: everything recorded, for labels and places.
        verdicts: the misses to count.
        budget: the limits.
    """
    found: list[Excess] = []
    for group in budget.counted(verdicts).values():
        who = name(group[0].miss.function)
        for limit, most in budget.limits.items():
            counted = [v for v in group if _counts(v, limit, named=bool(budget.functions))]
            if limit == "seconds":
                spent = sum(view.own[v.miss.id] for v in counted)
                if spent > most:
                    allowed = f"at most {seconds(most)} allowed"
                    short = f"{seconds(spent)}, budget {seconds(most)}"
                    found.append(
                        Excess(f"{who} took {seconds(spent)}, {allowed}", counted, short)
                    )
            elif len(counted) > most:
                short = f"{_amount(limit, len(counted))}, budget {int(most):,}"
                found.append(Excess(_text(who, limit, counted, int(most)), counted, short))
    return found


def _text(who: str, limit: str, counted: list[Verdict], most: int) -> str:
    number = times(len(counted))
    allowed = f"at most {most:,} allowed" if most else "none allowed"
    if limit in _STAGES:
        did = {"traces": "traced", "lowerings": "lowered", "compiles": "compiled"}[limit]
        return f"{who} was {did} {number}, {allowed}"
    if limit == "misses":
        causes = dict.fromkeys(verdict.cause.value for verdict in counted)
        return f"{who} missed JAX's caches {number} ({listed(list(causes))}), {allowed}"
    return f"{who} missed JAX's caches {number} by {limit}, {allowed}"


def _amount(limit: str, number: int) -> str:
    if limit not in COUNTS:  # a cause
        return f"{number:,} {limit}"
    one = "miss" if limit == "misses" else limit.removesuffix("s")
    return f"1 {one}" if number == 1 else f"{number:,} {limit}"


def _counts(verdict: Verdict, limit: str, *, named: bool) -> bool:
    miss = verdict.miss
    if limit in _STAGES:
        # An eager operation is not a user function, unless the user named it.
        if miss.function.kind is Kind.OP and not named:
            return False
        stage = _STAGES[limit]
        return stage in miss.stages or miss.in_flight is stage
    return limit in COUNTS or verdict.cause.value == limit


def _is_first_of_line(verdict: Verdict) -> bool:
    return verdict.cause is Cause.EAGER_OP and verdict.avoidable == "no"


def checked_limits(limits: Mapping[str, float], where: str) -> dict[str, float]:
    """The limits, checked; raises UsageError for an unknown name or invalid number."""
    for limit, number in limits.items():
        if limit not in COUNTS:
            checked_causes([limit], where, COUNTS)
        if type(number) not in (int, float) or not number >= 0:
            raise UsageError(f"{where}: {limit} must be a number of 0 or more, not {number!r}")
        if limit != "seconds" and number != int(number):
            raise UsageError(f"{where}: {limit} must be a whole number, not {number!r}")
    return dict(limits)


def checked_causes(
    causes: Iterable[str], where: str, others: Sequence[str] = ()
) -> frozenset[str]:
    """Codes of causes, checked; raises UsageError suggesting the nearest known one."""
    known = [*(cause.value for cause in Cause), *others]
    if isinstance(causes, str):
        causes = [causes]
    elif not isinstance(causes, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{where}: causes are a set of codes, not {causes!r:.40}")
    found = [str(cause) for cause in causes]
    for cause in found:
        if cause not in known:
            every = ", ".join(known)
            raise UsageError(
                f"{where}: there is no cause {cause!r}{nearest(cause, known)} ({every})"
            )
    return frozenset(found)


def selectors(
    functions: object, site_of: Callable[[object], str], where: str
) -> tuple[Selector, ...]:
    """Selectors for a function, a name, a pattern, or several of these.

    Args:
        functions: what the user named; None for all functions.
        site_of: returns the definition site of a function object.
        where: the guard, for error messages.

    Raises:
        UsageError: something is neither a name nor callable.
    """
    if functions is None:
        return ()
    given: Iterable[object] = (functions,)
    if isinstance(functions, list | tuple | set | frozenset):
        given = cast(Iterable[object], functions)
    found: list[Selector] = []
    for one in given:
        if isinstance(one, str):
            found.append(Selector(one))
        elif callable(one):
            called = getattr(one, "__name__", type(one).__name__)
            found.append(Selector(str(called), site_of(one)))
        else:
            raise UsageError(
                f"{where} takes functions or their names, not {type(one).__name__} ({one!r:.60})"
            )
    return tuple(found)

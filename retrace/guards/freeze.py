"""`retrace.freeze`: raises at the call that misses."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from retrace.errors import MissError, RetraceWarning
from retrace.guards.assertions import Functions, Guard, make_budget, warn_of
from retrace.inside.decorated import Decorated
from retrace.inside.explained import explained
from retrace.inside.live import is_off

if TYPE_CHECKING:
    from retrace.guards.budget import Budget
    from retrace.guards.watch import Watch
    from retrace.model import Function, Verdict
    from retrace.present.view import View

_MAX_FULL_WARNINGS = 3
"""For each function and cause; later warnings are one line."""


class freeze(Guard):  # noqa: N801 - it is used like a function
    """From now on every miss raises at the call that caused it, before JAX does the work.

    As a statement it applies until `end()`; with `with`, to the block; as a decorator, to
    each call. JAX and its caches stay intact: the call can be repeated.

    Args:
        f: a function, a name, a pattern, several of these, or None for everything, eager
            operations included.
        allow: causes that do not count: `{"first-trace", "eager-op"}`.
        warmup: how many misses of each function are allowed first.
        warn: issue a `RetraceWarning` at the calling line instead of raising.

    Raises:
        RetraceError: (a `MissError`) from the call that missed; its text explains the
            miss, `misses` has it as data.
        UsageError: an argument is invalid.

    Example:
        >>> import jax, retrace
        >>> step = jax.jit(lambda x: x + 1)
        >>> _ = step(1)
        >>> with retrace.freeze():
        ...     _ = step(2)
    """

    def __init__(
        self,
        f: Functions = None,
        *,
        allow: Iterable[str] = (),
        warmup: int = 0,
        warn: bool = False,
    ) -> None:
        super().__init__()
        self._warn = warn
        self._budget: Budget | None = None
        self.passed: dict[str, int] = {}
        """How many misses of each function there were, of which the first are warm-up."""
        self._times: dict[tuple[str, str], int] = {}
        self._counted: deque[int] = deque(maxlen=64)
        self._lock = threading.Lock()
        self._is_statement = False
        self._losses = 0
        if not is_off():
            from retrace.guards.budget import Matcher

            self._budget = make_budget("freeze", f, {"misses": 0}, allow, warmup)
            self._named = Matcher(self._budget)
            self._begin()
            self._is_statement = True

    def end(self) -> None:
        """Allow misses again."""
        try:
            if self._windows:
                self.check_trust()
        finally:
            self.close()

    def close(self) -> None:
        """Allow misses again, without checking whether one went unseen."""
        self._is_statement = False
        while self._windows:
            self._windows.pop()[0].close(self)

    def __enter__(self) -> Self:
        if self._is_statement:
            self._is_statement = False
            return self
        return super().__enter__()

    def __call__(self, function: Decorated) -> Decorated:
        self.close()
        return super().__call__(function)

    def _copy(self) -> Self:
        copy = super()._copy()
        # The warm-up is over for all calls of a decorated function.
        vars(copy).update(_times={}, _counted=deque[int](maxlen=64))
        return copy

    def _begin(self) -> None:
        from retrace.guards.trust import losses
        from retrace.guards.watch import watch

        here = watch()
        self._windows.append((here, here.open(self)))
        self._losses = losses()
        try:
            self.check_trust()
        except BaseException:
            here.close(self)
            self._windows.pop()
            raise

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        try:
            if error is None:
                self.check_trust()
        finally:
            self._windows.remove(window)
            window[0].close(self)

    def check_trust(self) -> None:
        """Raise or warn if a miss could go unseen."""
        from retrace.guards.trust import doubt

        if (found := doubt("freeze", self._losses)) is None:
            return
        if not self._warn:
            raise found
        warn_of([str(found)])

    def begun(self, number: int, functions: tuple[Function, ...]) -> BaseException | None:
        """A miss began; returns the error to raise at the call."""
        from retrace.guards.watch import watch

        budget = self._budget
        if budget is None or self._is_paused:
            return None
        if functions and not self._named(functions):
            return None
        verdict = watch().verdict(number)
        if verdict is None:
            return None
        subject, cause = budget.subject(verdict.miss), verdict.cause.value
        if subject is None or cause in budget.allow:
            return None
        with self._lock:
            if number in self._counted:
                return None  # already reported under the name of its body
            self._counted.append(number)
            passed = self.passed[subject] = self.passed.get(subject, 0) + 1
            if passed <= budget.warmup:
                return None
            key = (subject, cause)
            times = self._times[key] = self._times.get(key, 0) + 1
        return self._warned(verdict, times) if self._warn else self._error(verdict)

    def compiled(self, number: int) -> BaseException | None:
        """Report a miss that began before, as a `Lowered` did that is compiled now.

        Any other was reported when it began.
        """
        here, start = self._windows[-1] if self._windows else (None, 0)
        if here is None or not here.is_earlier(number, start):
            return None
        ahead = any(miss.ahead for miss in here.misses_of([number]))
        return self.begun(number, ()) if ahead else None

    def _error(self, verdict: Verdict) -> BaseException:
        view, whole = self._shown(verdict)
        return MissError(self._text(view, whole), explained(view, [whole]))

    def _warned(self, verdict: Verdict, times: int) -> BaseException | None:
        if times <= _MAX_FULL_WARNINGS:
            return warned(self._text(*self._shown(verdict)), verdict)
        from retrace.present.guard import repeated

        return warned(repeated(_head(verdict), verdict, times), verdict)

    def _shown(self, verdict: Verdict) -> tuple[View, Verdict]:
        """A miss among those around it, with the patterns that earlier ones show."""
        from retrace.guards.watch import watch

        view = watch().view([verdict.miss.number])
        return view, view.by_id[verdict.miss.id]

    def _text(self, view: View, verdict: Verdict) -> str:
        from retrace.present.guard import explanation

        return explanation(view, [_head(verdict)], [verdict], begun=True)


def _head(verdict: Verdict) -> str:
    from retrace.present.words import name

    who = name(verdict.miss.function)
    return f"{who} missed JAX's caches while frozen ({verdict.cause.value})"


def warned(text: str, verdict: Verdict) -> BaseException | None:
    """Warn at the calling line; returns the warning if filters turn it into an error."""
    site = verdict.miss.call_site
    file, line = (site.file, site.line) if site is not None else ("<unknown>", 0)
    try:
        warnings.warn_explicit(text, RetraceWarning, file, line, registry={})
    except RetraceWarning as warning:
        return warning
    return None

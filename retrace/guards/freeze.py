"""The guard that refuses a miss at the call that caused it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from retrace.errors import MissError, RetraceWarning
from retrace.guards.assertions import Decorated, Functions, Guard, make_budget, warn_of
from retrace.inside.explained import explained
from retrace.inside.live import is_off

if TYPE_CHECKING:
    from retrace.guards.budget import Budget
    from retrace.guards.watch import Watch
    from retrace.model import Verdict
    from retrace.present.view import View


class freeze(Guard):  # noqa: N801 - it is used like a function
    """From here on every miss raises, at the call that caused it, before JAX works.

    As a statement it holds until `end()`; with `with`, for the block; as a decorator,
    for each call. JAX and its caches stay sound: the call may be made again.

    Args:
        f: a function, a name, a pattern, several of these, or None: everything, eager
            operations included.
        allow: causes that do not count: `{"first-trace", "eager-op"}`.
        warmup: so many misses of each function pass, the first ones.
        warn: issue a `RetraceWarning` at the calling line instead of raising.

    Raises:
        RetraceError: (a `MissError`) from the call that missed; its text explains the
            miss, `misses` holds it as data.
        UsageError: an argument is nonsense.

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
        self._passed: dict[str, int] = {}
        self._lock = threading.Lock()
        self._standing = False
        self._losses = 0
        if not is_off():
            self._budget = make_budget("freeze", f, {"misses": 0}, allow, warmup)
            self._begin()
            self._standing = True

    def end(self) -> None:
        """Let misses pass again."""
        try:
            if self._windows:
                self.must_tell()
        finally:
            self.close()

    def close(self) -> None:
        """Let misses pass again, and do not ask whether one went unseen."""
        self._standing = False
        while self._windows:
            self._windows.pop()[0].close(self)

    def __enter__(self) -> Self:
        if self._standing:
            self._standing = False
            return self
        return super().__enter__()

    def __call__(self, function: Decorated) -> Decorated:
        self.close()
        return super().__call__(function)

    def _again(self) -> Self:
        copy = super()._again()
        vars(copy)["_passed"] = {}
        return copy

    def _begin(self) -> None:
        from retrace.guards.trust import losses
        from retrace.guards.watch import watch

        here = watch()
        self._windows.append((here, here.open(self)))
        self._losses = losses()
        try:
            self.must_tell()
        except BaseException:
            here.close(self)
            self._windows.pop()
            raise

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        try:
            if error is None:
                self.must_tell()
        finally:
            self._windows.remove(window)
            window[0].close(self)

    def must_tell(self) -> None:
        """Raise, or warn, where a miss could pass unseen."""
        from retrace.guards.trust import doubt

        if (found := doubt("freeze", self._losses)) is None:
            return
        if not self._warn:
            raise found
        warn_of([str(found)])

    def begun(self, number: int) -> BaseException | None:
        """A miss began: the error to raise at the call."""
        from retrace.guards.watch import watch

        budget = self._budget
        found = watch().judged(number)
        if found is None or budget is None:
            return None
        view, verdict = found
        function = verdict.miss.function
        if not budget.matches(function) or verdict.cause.value in budget.allow:
            return None
        with self._lock:
            passed = self._passed[function.site] = self._passed.get(function.site, 0) + 1
        if passed <= budget.warmup:
            return None
        return self._error(view, verdict)

    def compiled(self, number: int) -> BaseException | None:
        """Nothing: it was told when the miss began."""
        return None

    def _error(self, view: View, verdict: Verdict) -> BaseException | None:
        from retrace.present.guard import explanation
        from retrace.present.words import name

        head = f"{name(verdict.miss.function)} missed JAX's caches while frozen"
        text = explanation(view, [f"{head} ({verdict.cause.value})"], [verdict], begun=True)
        if not self._warn:
            return MissError(text, explained(view, [verdict]))
        return warned(text, verdict)


def warned(text: str, verdict: Verdict) -> BaseException | None:
    """Warn at the line that called; the warning itself where filters make it an error."""
    site = verdict.miss.call_site
    file, line = (site.file, site.line) if site is not None else ("<unknown>", 0)
    try:
        warnings.warn_explicit(text, RetraceWarning, file, line, registry={})
    except RetraceWarning as warning:
        return warning
    return None

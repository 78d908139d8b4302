"""`retrace.policy`: what a process does about misses: nothing, record, warn or raise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from retrace.errors import RetraceError, UsageError
from retrace.failure import say
from retrace.guards.assertions import Functions, Guard, make_budget
from retrace.guards.freeze import freeze
from retrace.inside.decorated import Decorated
from retrace.inside.live import install, is_off, uninstall

if TYPE_CHECKING:
    from retrace.guards.budget import Budget
    from retrace.guards.watch import Watch
    from retrace.model import Function, Verdict

MODES = ("record", "warn", "raise", "off")
DEAR = 0.1
"""Default number of seconds that the misses of one function and cause must cost before `warn`
reports them."""

_REMINDERS = (10, 100, 1_000, 10_000)
"""A one-line reminder is printed when a function has missed this often for the same cause."""
_MAX_BEGUN = 10_000
_MAX_MESSAGES = 10
"""Maximum number of messages per minute."""


class policy(Guard):  # noqa: N801 - it is used like a function
    """Choose what this process does about misses, from now on or for a block.

    The latest policy applies; at the end of a block the previous one applies again.

    Args:
        mode: "record" records everything, like `install`; "warn" prints a message to
            stderr, once per cause and function; "raise" is `freeze`; "off" does nothing.
        f: a function, a name, a pattern, several of these, or None for everything.
        allow: causes that do not count.
        warmup: how many misses of each function are allowed first.
        dear: seconds that the misses of one function and cause must cost before "warn"
            reports them.
        every: also warn about misses that may be unavoidable.

    Raises:
        RetraceError: at a call that misses, with "raise".
        UsageError: an argument is invalid.

    Example:
        >>> import retrace
        >>> with retrace.policy("warn"):
        ...     pass
    """

    def __init__(
        self,
        mode: str,
        f: Functions = None,
        *,
        allow: Iterable[str] = (),
        warmup: int = 0,
        dear: float = DEAR,
        every: bool = False,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            from retrace.present.words import nearest

            guess = nearest(str(mode), MODES) or f": use one of {', '.join(MODES)}"
            raise UsageError(f"there is no policy {mode!r}{guess}")
        self._mode = mode
        self._arguments = (f, tuple(allow), warmup)
        self._worth = (dear, every)
        self._passed: dict[str, int] = {}
        """Shared by all calls of a decorated function: its warm-up is over once."""
        self._undo: list[policy | None] = []
        self._effect: _Warner | freeze | None = None
        self._is_statement = False
        if not is_off():
            make_budget("policy", f, {"misses": 0}, self._arguments[1], warmup)
            self._set()
            self._is_statement = True

    def end(self) -> None:
        """Restore the previous policy."""
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        global _current
        self._is_statement = False
        if self._undo:
            before = self._undo.pop()
            if _current is self:
                _current = before
                try:
                    if error is None and isinstance(self._effect, freeze):
                        self._effect.check_trust()
                finally:
                    self.suspend()
                    if before is not None:
                        before.begin_effect()

    def __enter__(self) -> Self:
        if not self._is_statement and not is_off():
            self._set()
        self._is_statement = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish(error)

    def __call__(self, function: Decorated) -> Decorated:
        self.end()
        return super().__call__(function)

    def pause(self) -> None:
        global _current
        super().pause()
        # Recording continues: that does no harm, and avoids a new recording at each `yield`.
        if _current is self and self._mode != "record":
            if self._effect is not None:
                self._effect.pause()
            _current = self._undo[-1]
            if _current is not None:
                _current.begin_effect()

    def resume(self) -> None:
        global _current
        super().resume()
        if _current is not self and self._undo and self._mode != "record":
            self._undo[-1] = _current
            if _current is not None:
                _current.suspend()
            _current = self
            if self._effect is not None:
                self._effect.resume()

    def leave(self) -> None:
        self.end()

    def _copy(self) -> Self:
        copy = super()._copy()
        vars(copy).update(_undo=[], _effect=None)
        return copy

    def _set(self) -> None:
        global _current
        self._undo.append(_current)
        if _current is not None:
            _current.suspend()
        _current = self
        try:
            self.begin_effect()
        except RetraceError as error:
            self._finish(error)
            raise

    def begin_effect(self) -> None:
        """Put the policy into effect."""
        f, allow, warmup = self._arguments
        if self._mode == "raise":
            self._effect = freeze(f, allow=allow, warmup=warmup)
            self._effect.passed = self._passed
        elif self._mode == "warn":
            budget = make_budget("policy", f, {"misses": 0}, allow, warmup)
            self._effect = _Warner(budget, *self._worth)
            self._effect.passed = self._passed
        elif self._mode == "record":
            install()

    def suspend(self) -> None:
        """Suspend the policy while another one applies."""
        if self._effect is not None:
            self._effect.close()
            self._effect = None
        if self._mode == "record":
            uninstall()


_current: policy | None = None


class _Begun(NamedTuple):
    at: float
    """On the clock of `time.perf_counter`."""
    site: str
    """Where the function is defined; empty if only the recorded miss can tell."""


class _Ended:
    """The misses of one definition site that are over."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """By the clock, from the first event of each miss to its last: at least what it cost."""
        self.unjudged: list[int] = []


class _Warner:
    """Prints a message for each relevant miss once it is compiled."""

    def __init__(self, budget: Budget, dear: float, every: bool) -> None:
        from retrace.guards.budget import Matcher
        from retrace.guards.trust import doubt, losses
        from retrace.guards.watch import watch

        self._budget = budget
        self._named = Matcher(budget)
        self._dear = dear
        self._every = every
        self._lock = threading.Lock()
        self.passed: dict[str, int] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._spent: dict[tuple[str, str], float] = {}
        self._reported: set[tuple[str, str]] = set()
        self._recent: list[float] = []
        self._is_paused = False
        self._begun: dict[int, _Begun] = {}
        """Unfinished misses of the selected functions."""
        self._ended: dict[str, _Ended] = {}
        """By definition site."""
        self._watch: Watch = watch()
        self._watch.open(self)
        if (found := doubt("policy", losses())) is not None:
            say(f"retrace: {found}")

    def close(self) -> None:
        """Stop warning."""
        self._watch.close(self)

    def pause(self) -> None:
        """Stop warning for a while."""
        self._is_paused = True

    def resume(self) -> None:
        """Continue warning."""
        self._is_paused = False

    def begun(self, number: int, functions: tuple[Function, ...]) -> BaseException | None:
        """Remember the miss: its cost is not known yet."""
        if not self._is_paused and (not functions or self._named(functions)):
            site = functions[0].site if functions else ""
            known = self._begun.get(number)
            self._begun[number] = _Begun(time.perf_counter() if known is None else known.at, site)
            if len(self._begun) > _MAX_BEGUN:  # traces that were never compiled
                self._begun.pop(next(iter(self._begun)), None)
        return None

    def compiled(self, number: int) -> BaseException | None:
        """A miss is over: report it if it is worth it."""
        begun = self._begun.pop(number, None)
        if begun is None:
            return None
        with self._lock:
            ended = self._ended.setdefault(begun.site, _Ended())
            ended.seconds += time.perf_counter() - begun.at
            ended.unjudged.append(number)
            # Explaining a miss takes a good part of a small one; most cost too little to be told.
            if begun.site and ended.seconds < self._dear:
                return None
            unjudged, ended.unjudged = ended.unjudged, []
        for one in unjudged:
            verdict = self._watch.verdict(one)
            if verdict is not None and (text := self._text(verdict)):
                say(text)
        return None

    def _text(self, verdict: Verdict) -> str:
        from retrace.present.layout import message
        from retrace.present.words import name, ordinal

        function, cause = verdict.miss.function, verdict.cause.value
        if self._budget.subject(verdict.miss) is None or cause in self._budget.allow:
            return ""
        worth = ("yes", "maybe") if self._every else ("yes",)
        key = (function.site, cause)
        with self._lock:
            passed = self.passed[function.site] = self.passed.get(function.site, 0) + 1
            if passed <= self._budget.warmup or verdict.avoidable not in worth:
                return ""
            times = self._times[key] = self._times.get(key, 0) + 1
            self._spent[key] = self._spent.get(key, 0.0) + verdict.miss.seconds
            if key in self._reported:
                if times in _REMINDERS:
                    return f"retrace: {name(function)}: {cause} for the {ordinal(times)} time"
                return ""
            if self._spent[key] < self._dear or not self._below_rate_limit():
                return ""
            self._reported.add(key)
        view = self._watch.view([verdict.miss.number])
        return message(view, view.by_id[verdict.miss.id])

    def _below_rate_limit(self) -> bool:
        now = time.monotonic()
        self._recent = [at for at in self._recent if now - at < 60]
        if len(self._recent) >= _MAX_MESSAGES:
            return False
        self._recent.append(now)
        return True


def start_from_environment() -> None:
    """Apply `RETRACE_POLICY` once jax is imported; an invalid value is reported and ignored."""
    from retrace.capture.on_import import call

    def begin() -> None:
        try:
            policy(os.environ["RETRACE_POLICY"])
        except RetraceError as error:
            say(f"retrace: RETRACE_POLICY: {error}")

    call(begin)

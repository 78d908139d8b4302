"""What a process does about misses from here on: nothing, record, warn or raise."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from retrace.errors import RetraceError, UsageError
from retrace.guards.assertions import Functions, Guard, make_budget
from retrace.guards.freeze import freeze
from retrace.inside.decorated import Decorated
from retrace.inside.live import install, is_off, uninstall

if TYPE_CHECKING:
    from retrace.guards.budget import Budget
    from retrace.guards.watch import Judged, Watch
    from retrace.model import Function

MODES = ("record", "warn", "raise", "off")
DEAR = 0.1
"""Seconds that the misses of one function and cause cost before `warn` speaks of them."""

_AGAIN = (10, 100, 1_000, 10_000)
"""At these repetitions of one function and cause a line says that it goes on."""
_MAX_BEGUN = 10_000
_MAX_MESSAGES = 10
"""Maximum number of messages per minute."""


class policy(Guard):  # noqa: N801 - it is used like a function
    """What this process does about misses: as a statement from here on, or for a block.

    The latest one holds; at the end of a block the one before it holds again.

    Args:
        mode: "record" records everything, as `install`; "warn" prints the message of a
            miss on stderr, once a cause and function; "raise" is `freeze`; "off" does
            nothing.
        f: a function, a name, a pattern, several of these, or None: everything.
        allow: causes that do not count.
        warmup: how many misses of each function are allowed first.
        dear: seconds that the misses of one function and cause cost before "warn" tells.
        every: whether "warn" also tells what can perhaps not be avoided.

    Raises:
        RetraceError: at a call that misses, under "raise".
        UsageError: an argument is nonsense.

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

            guess = nearest(str(mode), MODES) or f": it is one of {', '.join(MODES)}"
            raise UsageError(f"there is no policy {mode!r}{guess}")
        self._mode = mode
        self._arguments = (f, tuple(allow), warmup)
        self._worth = (dear, every)
        self._undo: list[policy | None] = []
        self._effect: _Warner | freeze | None = None
        self._standing = False
        if not is_off():
            make_budget("policy", f, {"misses": 0}, self._arguments[1], warmup)
            self._set()
            self._standing = True

    def end(self) -> None:
        """Let the policy before this one hold again."""
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        global _holding
        self._standing = False
        if self._undo:
            before = self._undo.pop()
            if _holding is self:
                _holding = before
                try:
                    if error is None and isinstance(self._effect, freeze):
                        self._effect.must_tell()
                finally:
                    self.suspend()
                    if before is not None:
                        before.begin_effect()

    def __enter__(self) -> Self:
        if not self._standing and not is_off():
            self._set()
        self._standing = False
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
        global _holding
        super().pause()
        # What is recorded more does no harm, and a recording is not begun at each `yield`.
        if _holding is self and self._mode != "record":
            if self._effect is not None:
                self._effect.pause()
            _holding = self._undo[-1]
            if _holding is not None:
                _holding.begin_effect()

    def resume(self) -> None:
        global _holding
        super().resume()
        if _holding is not self and self._undo and self._mode != "record":
            self._undo[-1] = _holding
            if _holding is not None:
                _holding.suspend()
            _holding = self
            if self._effect is not None:
                self._effect.resume()

    def leave(self) -> None:
        self.end()

    def _again(self) -> Self:
        copy = super()._again()
        vars(copy).update(_undo=[], _effect=None)
        return copy

    def _set(self) -> None:
        global _holding
        self._undo.append(_holding)
        if _holding is not None:
            _holding.suspend()
        _holding = self
        try:
            self.begin_effect()
        except RetraceError as error:
            self._finish(error)
            raise

    def begin_effect(self) -> None:
        """Hold from here on."""
        f, allow, warmup = self._arguments
        if self._mode == "raise":
            self._effect = freeze(f, allow=allow, warmup=warmup)
        elif self._mode == "warn":
            budget = make_budget("policy", f, {"misses": 0}, allow, warmup)
            self._effect = _Warner(budget, *self._worth)
        elif self._mode == "record":
            install()

    def suspend(self) -> None:
        """Hold no longer, while another policy does."""
        if self._effect is not None:
            self._effect.close()
            self._effect = None
        if self._mode == "record":
            uninstall()


_holding: policy | None = None


class _Warner:
    """Prints the message of each miss that is worth it, when it was compiled."""

    def __init__(self, budget: Budget, dear: float, every: bool) -> None:
        from retrace.guards.budget import Named
        from retrace.guards.trust import doubt, losses
        from retrace.guards.watch import watch

        self._budget = budget
        self._named = Named(budget)
        self._dear = dear
        self._every = every
        self._lock = threading.Lock()
        self._passed: dict[str, int] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._spent: dict[tuple[str, str], float] = {}
        self._told: set[tuple[str, str]] = set()
        self._recent: list[float] = []
        self._is_paused = False
        self._begun: dict[int, None] = {}
        """Misses of the functions that are meant, until they are over."""
        self._watch: Watch = watch()
        self._watch.open(self)
        if (found := doubt("policy", losses())) is not None:
            _say(f"retrace: {found}")

    def close(self) -> None:
        """Warn no more."""
        self._watch.close(self)

    def pause(self) -> None:
        """Warn of nothing for a while."""
        self._is_paused = True

    def resume(self) -> None:
        """Warn again."""
        self._is_paused = False

    def begun(self, number: int, functions: tuple[Function, ...]) -> BaseException | None:
        """What it cost is not known yet."""
        if not self._is_paused and (not functions or self._named(functions)):
            self._begun[number] = None
            if len(self._begun) > _MAX_BEGUN:  # traces that nothing was compiled of
                self._begun.pop(next(iter(self._begun)), None)
        return None

    def compiled(self, number: int) -> BaseException | None:
        """A miss is over: tell of it where that is worth it."""
        if number not in self._begun:
            return None
        self._begun.pop(number, None)
        found = self._watch.judged(number)
        if found is not None and (text := self._text(found)):
            _say(text)
        return None

    def _text(self, found: Judged) -> str:
        from retrace.present.layout import message
        from retrace.present.words import name, ordinal

        verdict = found.verdict
        function, cause = verdict.miss.function, verdict.cause.value
        if self._budget.subject(verdict.miss) is None or cause in self._budget.allow:
            return ""
        worth = ("yes", "maybe") if self._every else ("yes",)
        key = (function.site, cause)
        with self._lock:
            passed = self._passed[function.site] = self._passed.get(function.site, 0) + 1
            if passed <= self._budget.warmup or verdict.avoidable not in worth:
                return ""
            times = self._times[key] = self._times.get(key, 0) + 1
            self._spent[key] = self._spent.get(key, 0.0) + verdict.miss.seconds
            if key in self._told:
                if times in _AGAIN:
                    return f"retrace: {name(function)}: {cause} for the {ordinal(times)} time"
                return ""
            if self._spent[key] < self._dear or not self._may_speak():
                return ""
            self._told.add(key)
        view = found.view()
        return message(view, view.by_id[verdict.miss.id])

    def _may_speak(self) -> bool:
        now = time.monotonic()
        self._recent = [at for at in self._recent if now - at < 60]
        if len(self._recent) >= _MAX_MESSAGES:
            return False
        self._recent.append(now)
        return True


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, or None: there is nobody to tell


def start_from_environment() -> None:
    """Do what `RETRACE_POLICY` says, once jax is there; a wrong value is told and ignored."""
    from retrace.capture.on_import import call

    def begin() -> None:
        try:
            policy(os.environ["RETRACE_POLICY"])
        except RetraceError as error:
            sys.stderr.write(f"retrace: RETRACE_POLICY: {error}\n")

    call(begin)

"""Guards inside a running program: `assert_max_traces` and `assert_no_retrace`."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from retrace.errors import ExceededError, RetraceError, RetraceWarning, UsageError
from retrace.inside.decorated import Decorated, decorate
from retrace.inside.explained import explained
from retrace.inside.live import is_off

if TYPE_CHECKING:
    from retrace.guards.budget import Budget, Selector
    from retrace.guards.watch import Watch
    from retrace.model import Function, Verdict
    from retrace.present.view import View

Functions: TypeAlias = Callable[..., Any] | str | Iterable[Callable[..., Any] | str] | None


class Guard:
    """Watches a block, a function, or everything that follows. Nests, in any thread."""

    def __init__(self) -> None:
        self._windows: list[tuple[Watch, int]] = []
        self._is_paused = False

    def __enter__(self) -> Self:
        if not is_off():
            self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        if self._windows:
            self._end(self._windows[-1], error)

    def __call__(self, function: Decorated) -> Decorated:
        """Guard each call of a function, coroutine or generator while its body runs."""
        return decorate(function, self._copy)

    def pause(self) -> None:
        """The body of a generator waits at a `yield`: misses meanwhile are not its own."""
        self._is_paused = True

    def resume(self) -> None:
        """The body continues."""
        self._is_paused = False

    def leave(self) -> None:
        """The function has returned a body, which may run later or never."""
        while self._windows:
            self._end(self._windows[-1], None)

    def _copy(self) -> Self:
        """A guard of the same kind, for one call."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _windows=[])
        return copy

    def _begin(self) -> None:
        from retrace.guards.watch import watch

        here = watch()
        self._windows.append((here, here.open()))

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        """The block has ended; `error` is what it raised, if anything."""
        self._windows.remove(window)
        window[0].close()


class Assertion(Guard):
    """Counts the misses of a block and raises at its end if there are too many."""

    def __init__(
        self,
        guard: str,
        functions: Functions,
        limits: Mapping[str, float],
        allow: Iterable[str] = (),
        warmup: int = 0,
    ) -> None:
        super().__init__()
        self._guard_name = guard
        self._before: list[tuple[int, int]] = []
        """The number of losses and of compilations when each window began."""
        self._budget: Budget | None = None
        if not is_off():
            self._budget = make_budget(guard, functions, limits, allow, warmup)
        self._numbers: list[int] = []
        """The misses of a generator's body until its last `yield`."""
        self._warm: list[int] = []
        """The misses that were warm-up in earlier blocks, of any call of a decorated function."""

    def _copy(self) -> Self:
        copy = super()._copy()
        vars(copy).update(_numbers=[], _before=[])
        return copy

    def pause(self) -> None:
        __tracebackhide__ = True
        super().pause()
        for watch, start in self._windows[-1:]:
            self._numbers += watch.numbers(start)
            # Raised here, where it happened: the generator may never end.
            failure = self._judge(watch, self._numbers)
            if failure is not None:
                raise failure

    def resume(self) -> None:
        super().resume()
        self._windows = [(watch, watch.position) for watch, _ in self._windows]

    def leave(self) -> None:
        __tracebackhide__ = True
        numbers = [n for watch, start in self._windows[-1:] for n in watch.numbers(start)]
        super().leave()
        self._numbers += numbers

    def _judge(
        self, watch: Watch, numbers: list[int], later: Sequence[int] = ()
    ) -> ExceededError | None:
        """The error for what began in the block, and what was only compiled in it."""
        assert self._budget is not None
        if not numbers and not later:
            return None
        numbers = [*self._warm, *numbers]
        return _failure(watch, numbers, later, self._budget, self._guard_name)

    def _warm_up(self, watch: Watch, numbers: list[int]) -> None:
        """Count the first misses of each function as its warm-up, in later blocks as well."""
        assert self._budget is not None
        if not self._budget.warmup or not numbers:
            return
        subjects = map(self._budget.subject, watch.misses_of(self._warm))
        seen = Counter(subject for subject in subjects if subject is not None)
        for miss in watch.misses_of(numbers):
            subject = self._budget.subject(miss)
            if subject is not None and seen[subject] < self._budget.warmup:
                seen[subject] += 1
                self._warm.append(miss.number)

    def _begin(self) -> None:
        from retrace.guards.trust import losses

        super()._begin()
        self._before.append((losses(), self._windows[-1][0].compilations))

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        __tracebackhide__ = True
        from retrace.guards.trust import doubt

        watch, start = window
        numbers = [*self._numbers, *watch.numbers(start)]
        budget = self._budget
        assert budget is not None
        failure: RetraceError | None = None
        since, compiled = self._before.pop()
        try:
            if error is None:
                later = watch.compiled_since(compiled, numbers)
                failure = self._judge(watch, numbers, later)
            if error is None and failure is None:
                failure = doubt(self._guard_name, since)
            if error is None and failure is None:
                warn_of(f"{self._guard_name}: {t}" for t in unmatched(watch, budget.functions))
        finally:
            self._warm_up(watch, numbers)
            super()._end(window, error)
        if failure is not None:
            raise failure


def _failure(
    watch: Watch, numbers: list[int], later: Sequence[int], budget: Budget, guard: str
) -> ExceededError | None:
    from retrace.guards.budget import excesses, only_compiled
    from retrace.guards.watch import of_numbers
    from retrace.present.guard import explanation

    every = [*numbers, *later]
    if all(budget.subject(miss) is None for miss in watch.misses_of(every)):
        return None
    view = watch.view(every)
    counted = of_numbers(view.verdicts, every)
    counted = [only_compiled(one) if one.miss.number in later else one for one in counted]
    found = excesses(view, counted, budget)
    if not found:
        return None
    counted = in_order(view, (verdict for one in found for verdict in one.verdicts))
    heads = [f"{one.text} ({guard})" for one in found]
    return ExceededError(explanation(view, heads, counted), explained(view, counted))


def in_order(view: View, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """These verdicts without duplicates, in the order the misses began."""
    wanted = {verdict.miss.id for verdict in verdicts}
    return [verdict for verdict in view.verdicts if verdict.miss.id in wanted]


def make_budget(
    guard: str,
    functions: Functions,
    limits: Mapping[str, float],
    allow: Iterable[str] = (),
    warmup: int = 0,
) -> Budget:
    """A budget from the user's arguments; raises UsageError if they are invalid."""
    from retrace.guards.budget import Budget, checked_causes, checked_limits, selectors

    given: Any = warmup
    if type(given) is not int or warmup < 0:
        raise UsageError(f"{guard}: warmup must be a number of misses, not {warmup!r}")
    if isinstance(functions, bool | int | float):
        raise UsageError(f"{guard} takes functions or their names, not {functions!r}")
    return Budget(
        checked_limits(limits, guard),
        selectors(functions, _site_of, guard),
        checked_causes(allow, guard),
        warmup,
    )


def _site_of(function: object) -> str:
    from retrace.capture.session import site_of

    return site_of(function)


def unmatched(watch: Watch, functions: tuple[Selector, ...]) -> list[str]:
    """A message for each function or name that was never traced and is not jitted.

    If a function is jitted, all its calls may have hit the cache. If it is not, and no eager
    loop ran it, it is not guarded at all, and a passing guard means nothing.
    """
    wanted = [one for one in functions if one not in _known]
    if not wanted:
        return []
    from retrace.guards.budget import names
    from retrace.guards.jitted import find
    from retrace.present.words import nearest

    misses = watch.misses_of(watch.numbers(0))
    traced = [one for miss in misses for one in (miss.function, *miss.bodies)]
    _known.update(one for one in wanted if any(map(one.matches, traced)))
    wanted = [one for one in wanted if one not in _known]
    _known.update(find(wanted))
    messages: list[str] = []
    for one in wanted:
        if one in _known:
            continue
        if one.site is None:
            guess = nearest(
                one.pattern, [name for function in traced for name in names(function)]
            )
            who = f"nothing named {one.pattern!r} was ever"
        else:
            guess, who = "", f"the function {one.pattern!r} was never"
        last = one.pattern.rpartition(".")[2]
        if (holder := next((f for f in traced if last in f.around), None)) is not None:
            guess = (
                f"; {holder.name!r}, which contains a function of this name, was traced: pass "
                "what jax.jit returned"
            )
        if not guess and (seen := _latest_names(traced)):
            guess = f"; traced here: {seen}"
        messages.append(
            f"{who} traced here, and there is no jitted function of this name, so nothing is "
            f"guarded{guess}"
        )
    return messages


def _latest_names(functions: list[Function]) -> str:
    """The names of the functions traced last."""
    found = dict.fromkeys(one.name for one in reversed(functions) if one.kind != "op")
    return ", ".join(list(found)[:_MAX_NAMED])


def warn_of(texts: Iterable[str]) -> None:
    """Warn at the user line where the guard was entered."""
    for text in texts:
        warnings.warn_explicit(text, RetraceWarning, *_caller(), registry={})


_MAX_NAMED = 4
_known: set[Selector] = set()
"""Selectors that have matched a traced or jitted function before."""


def _caller() -> tuple[str, int]:
    """User line where the guard was entered."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__package__")).startswith("retrace"):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class assert_max_traces(Assertion):  # noqa: N801 - it is used like a function
    """Fail if a function is traced more than `n` times within a block.

    Works with `with` and as a decorator, where each call of the decorated function is a
    separate block. Blocks nest and count the work of all threads. Whatever is derived from a
    function (its gradient, a partial, a bound method) counts as the function.

    Args:
        f: a function (jitted or not), its name, a pattern (`"mymodule.*"`), several of
            these, or None for every function, each counted separately.
        n: how many traces are allowed.
        warmup: how many first misses of each function are not counted.
        compiles: how many compilations are allowed.
        lowerings: how many lowerings are allowed.
        seconds: how many seconds of tracing, lowering and compiling are allowed.
        causes: how many misses are allowed by cause: `{"shape-changed": 3}`.

    Raises:
        ExceededError: an `AssertionError`, at the end of the block; its text explains
            each miss, `misses` has them as data. A block that raises keeps its error.
        UsageError: an argument is invalid.

    Example:
        >>> import jax, retrace
        >>> step = jax.jit(lambda x: x + 1)
        >>> with retrace.assert_max_traces(step, 1):
        ...     _ = step(1), step(2)
    """

    def __init__(
        self,
        f: Functions = None,
        n: int | None = None,
        *,
        warmup: int = 0,
        compiles: int | None = None,
        lowerings: int | None = None,
        seconds: float | None = None,
        causes: Mapping[str, int] | None = None,
    ) -> None:
        given = {"traces": n, "compiles": compiles, "lowerings": lowerings, "seconds": seconds}
        limits: dict[str, float] = {
            limit: number for limit, number in given.items() if number is not None
        }
        limits.update({str(cause): number for cause, number in (causes or {}).items()})
        if not limits:
            raise UsageError("assert_max_traces needs a limit: assert_max_traces(f, 1)")
        super().__init__("assert_max_traces", f, limits, (), warmup)


class assert_no_retrace(Assertion):  # noqa: N801 - it is used like a function
    """Fail if anything misses JAX's caches within a block.

    Counts every miss, including those that only lower or compile. Eager operations count
    from the second program of a line on.

    Args:
        f: a function, a name, a pattern, several of these, or None for everything.
        allow: codes of causes that do not count: `{"first-trace"}`.
        warmup: how many first misses of each function are not counted.

    Raises:
        ExceededError: an `AssertionError`, at the end of the block; its text explains
            each miss, `misses` has them as data. A block that raises keeps its error.
        UsageError: an argument is invalid.

    Example:
        >>> import jax, retrace
        >>> step = jax.jit(lambda x: x + 1)
        >>> with retrace.assert_no_retrace(allow={"first-trace"}):
        ...     _ = step(1), step(2)
    """

    def __init__(
        self, f: Functions = None, *, allow: Iterable[str] = (), warmup: int = 0
    ) -> None:
        super().__init__("assert_no_retrace", f, {"misses": 0}, allow, warmup)

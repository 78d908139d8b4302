"""Guards inside a running program: what must not be traced again, and says why it was."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
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
    """A block, a function, or all that follows, under watch. Nests, in any thread."""

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
        """Guard each call of a function: while its body runs, of whatever kind it is."""
        return decorate(function, self._again)

    def pause(self) -> None:
        """The body of a generator waits at a `yield`: what others miss meanwhile is not its."""
        self._is_paused = True

    def resume(self) -> None:
        """The body goes on."""
        self._is_paused = False

    def leave(self) -> None:
        """The function has returned a body that may run later, or never."""
        while self._windows:
            self._end(self._windows[-1], None)

    def _again(self) -> Self:
        """A guard of the same kind, for one call."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _windows=[])
        return copy

    def _begin(self) -> None:
        from retrace.guards.watch import watch

        here = watch()
        self._windows.append((here, here.open()))

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        """The block has ended; `error` is what it raised."""
        self._windows.remove(window)
        window[0].close()


class Assertion(Guard):
    """Counts the misses of a block and raises at its end where they are too many."""

    def __init__(
        self,
        said: str,
        functions: Functions,
        most: Mapping[str, float],
        allow: Iterable[str] = (),
        warmup: int = 0,
    ) -> None:
        super().__init__()
        self._said = said
        self._losses: list[int] = []
        """How many losses there were when each window began."""
        self._budget: Budget | None = None
        if not is_off():
            self._budget = make_budget(said, functions, most, allow, warmup)
        self._numbers: list[int] = []
        """The misses of a generator's body up to its last `yield`."""

    def _again(self) -> Self:
        copy = super()._again()
        vars(copy).update(_numbers=[], _losses=[])
        return copy

    def pause(self) -> None:
        __tracebackhide__ = True
        super().pause()
        for watch, start in self._windows[-1:]:
            self._numbers += watch.numbers(start)
            # Said here, where it was done: the generator may go on for ever.
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

    def _judge(self, watch: Watch, numbers: list[int]) -> ExceededError | None:
        assert self._budget is not None
        return _failure(watch, numbers, self._budget, self._said) if numbers else None

    def _begin(self) -> None:
        from retrace.guards.trust import losses

        super()._begin()
        self._losses.append(losses())

    def _end(self, window: tuple[Watch, int], error: BaseException | None) -> None:
        __tracebackhide__ = True
        from retrace.guards.trust import doubt

        watch, start = window
        numbers = [*self._numbers, *watch.numbers(start)]
        budget = self._budget
        assert budget is not None
        failure: RetraceError | None = None
        since = self._losses.pop()
        try:
            if error is None:
                failure = self._judge(watch, numbers)
            if error is None and failure is None:
                failure = doubt(self._said, since)
            if error is None and failure is None:
                warn_of(f"{self._said}: {t}" for t in unmatched(watch, budget.functions))
        finally:
            super()._end(window, error)
        if failure is not None:
            raise failure


def _failure(watch: Watch, numbers: list[int], budget: Budget, said: str) -> ExceededError | None:
    from retrace.guards.budget import excesses
    from retrace.guards.watch import of_numbers
    from retrace.present.guard import explanation

    if all(budget.subject(miss) is None for miss in watch.misses_of(numbers)):
        return None
    view = watch.view(numbers)
    found = excesses(view, of_numbers(view.verdicts, numbers), budget)
    if not found:
        return None
    counted = in_order(view, (verdict for one in found for verdict in one.verdicts))
    heads = [f"{one.text} ({said})" for one in found]
    return ExceededError(explanation(view, heads, counted), explained(view, counted))


def in_order(view: View, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Each of some verdicts once, in the order in which the misses began."""
    wanted = {verdict.miss.id for verdict in verdicts}
    return [verdict for verdict in view.verdicts if verdict.miss.id in wanted]


def make_budget(
    said: str,
    functions: Functions,
    most: Mapping[str, float],
    allow: Iterable[str] = (),
    warmup: int = 0,
) -> Budget:
    """A budget of what a user gave; raises UsageError where that is nonsense."""
    from retrace.guards.budget import Budget, checked_causes, checked_limits, selectors

    given: Any = warmup
    if type(given) is not int or warmup < 0:
        raise UsageError(f"{said}: warmup takes a number of misses, not {warmup!r}")
    if isinstance(functions, bool | int | float):
        raise UsageError(f"{said} takes functions and their names, not {functions!r}")
    return Budget(
        checked_limits(most, said),
        selectors(functions, _site_of, said),
        checked_causes(allow, said),
        warmup,
    )


def _site_of(function: object) -> str:
    from retrace.capture.session import site_of

    return site_of(function)


def unmatched(watch: Watch, functions: tuple[Selector, ...]) -> list[str]:
    """What to say of functions and names of which nothing was ever traced, nor could be.

    Of a function that is jitted all calls may have hit. One that is not, and that no eager
    loop was seen to run, is not guarded at all: a guard that passes for it says nothing.
    """
    asked = [one for one in functions if one not in _known]
    if not asked:
        return []
    from retrace.guards.budget import names
    from retrace.guards.jitted import find
    from retrace.present.words import nearest

    misses = watch.misses_of(watch.numbers(0))
    traced = [one for miss in misses for one in (miss.function, *miss.bodies)]
    _known.update(one for one in asked if any(map(one.matches, traced)))
    asked = [one for one in asked if one not in _known]
    _known.update(find(asked))
    said: list[str] = []
    for one in asked:
        if one in _known:
            continue
        if one.site is None:
            guess = nearest(one.said, [name for function in traced for name in names(function)])
            who = f"nothing named {one.said!r} was"
        else:
            guess, who = "", f"the function {one.said!r} was not"
        last = one.said.rpartition(".")[2]
        if (holder := next((f for f in traced if last in f.around), None)) is not None:
            guess = (
                f"; {holder.name!r}, which holds a function of this name, was traced: name what "
                "jax.jit returned"
            )
        if not guess and (seen := _named(traced)):
            guess = f"; traced here: {seen}"
        said.append(
            f"{who} ever traced here, and no jitted function of this name is alive, so that "
            f"nothing is guarded{guess}"
        )
    return said


def _named(functions: list[Function]) -> str:
    """Those that were traced last, by name."""
    found = dict.fromkeys(one.name for one in reversed(functions) if one.kind != "op")
    return ", ".join(list(found)[:_MAX_NAMED])


def warn_of(texts: Iterable[str]) -> None:
    """Warn at the line of the user's that a guard stands on."""
    for text in texts:
        warnings.warn_explicit(text, RetraceWarning, *_caller(), registry={})


_MAX_NAMED = 4
_known: set[Selector] = set()
"""What was found once: a function that was traced or jitted."""


def _caller() -> tuple[str, int]:
    """The line of the user's that a guard stands on."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__package__")).startswith("retrace"):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class assert_max_traces(Assertion):  # noqa: N801 - it is used like a function
    """Fail where a function is traced more often than `n` times within a block.

    Usable with `with` and as a decorator, where each call of the decorated function
    is a block of its own; nests, and counts what all threads do. What is derived
    from a function (its gradient, a partial, a bound method) counts as the function.

    Args:
        f: a function (jitted or not), its name, a pattern (`"mymodule.*"`), several of
            these, or None: every function, each by itself.
        n: how many traces are allowed.
        warmup: how many first misses of each function are not counted.
        compiles: how many compilations are allowed.
        lowerings: how many lowerings are allowed.
        seconds: how many seconds of tracing, lowering and compiling are allowed.
        causes: how many misses are allowed by cause: `{"shape-changed": 3}`.

    Raises:
        ExceededError: an `AssertionError`, at the end of the block; its text explains
            each miss, `misses` holds them as data. A block that raises keeps its error.
        UsageError: an argument is nonsense.

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
        limits = {"traces": n, "compiles": compiles, "lowerings": lowerings, "seconds": seconds}
        most: dict[str, float] = {
            limit: number for limit, number in limits.items() if number is not None
        }
        most.update({str(cause): number for cause, number in (causes or {}).items()})
        if not most:
            raise UsageError("assert_max_traces takes a limit: assert_max_traces(f, 1)")
        super().__init__("assert_max_traces", f, most, (), warmup)


class assert_no_retrace(Assertion):  # noqa: N801 - it is used like a function
    """Fail where anything misses JAX's caches within a block.

    Counts every miss, one that only lowers or compiles included. Eager operations
    count from the second program of one line on.

    Args:
        f: a function, a name, a pattern, several of these, or None: everything.
        allow: causes that do not count, by their codes: `{"first-trace"}`.
        warmup: how many first misses of each function are not counted.

    Raises:
        ExceededError: an `AssertionError`, at the end of the block; its text explains
            each miss, `misses` holds them as data. A block that raises keeps its error.
        UsageError: an argument is nonsense.

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

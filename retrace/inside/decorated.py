"""A window as a decorator: open while the body of any kind of function runs.

The body of a coroutine, a generator or an asynchronous generator runs after its function has
returned. The kind can usually be seen from the function; if a plain function returns such a body
(a wrapper without `async`, a `functools.partial`, a callable instance), it is seen from the
result. At a `yield` the window is paused: the code that consumes the values is not the body.
While a coroutine awaits, the window stays open: what it awaits is part of its work.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast

from retrace.errors import UsageError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Window(Protocol):
    """Something to hold open while a body runs."""

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> bool | None: ...
    def pause(self) -> None:
        """The body waits at a `yield`."""
        ...

    def resume(self) -> None:
        """The body continues."""
        ...

    def leave(self) -> None:
        """The function has returned its body, which may run later or never."""
        ...


def decorate(function: Decorated, open_: Callable[[], Window]) -> Decorated:
    """Wrap a function so that a new window is open during each call.

    Args:
        function: a function, a method, or another callable.
        open_: creates the window for one call.

    Raises:
        UsageError: it is a class or not callable, so there is no body to guard.
    """
    __tracebackhide__ = True
    given: Any = function
    for kind in (classmethod, staticmethod):
        if type(given) is kind:
            return cast(Any, kind)(decorate(attrgetter("__func__")(given), open_))
    if inspect.isclass(given) or not callable(given):
        what = "a class" if inspect.isclass(given) else f"a {type(given).__name__}"
        raise UsageError(f"this decorates functions, not {what}: decorate its methods")
    called = given if inspect.isroutine(given) else _underlying(given)
    wrapper = _plain
    if inspect.iscoroutinefunction(called):
        wrapper = _coroutine
    elif inspect.isgeneratorfunction(called):
        # A generator made by `types.coroutine` must stay awaitable.
        wrapper = _plain if _is_awaited(called) else _generator
    elif inspect.isasyncgenfunction(called):
        wrapper = _async_generator
    return cast(Decorated, functools.wraps(given)(wrapper(given, open_)))


def _underlying(given: Any) -> Any:
    """What a call runs: the function of a partial, the `__call__` of an instance."""
    while type(given) is functools.partial:
        given = attrgetter("func")(given)
    if inspect.isroutine(given):
        return given
    return getattr(cast(Any, type)(given), "__call__", given)  # noqa: B004 - what is called


def _is_awaited(function: Any) -> bool:
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    return bool(getattr(code, "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE)


def _plain(function: Callable[..., Any], open_: Callable[[], Window]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        window = open_()
        with window:
            result = function(*args, **kwargs)
            kind, is_awaited = _kind(result)
            body = _BODIES.get(kind)
            if body is None and not is_awaited:
                return result
            if body is None:
                raise UsageError(
                    f"{getattr(function, '__name__', function)} returned a "
                    f"{kind.__name__}, which runs after the guard around the call has "
                    "ended: decorate the coroutine function itself"
                )
            window.leave()
        if body is _finish_generator and is_awaited:
            return types.coroutine(_finish_generator)(window, result)
        return body(window, result)

    return call


def _kind(result: Any) -> tuple[type, bool]:
    """The type of a result, and whether it is awaitable."""
    return cast(Any, type)(result), inspect.isawaitable(result)


def _coroutine(function: Callable[..., Any], open_: Callable[[], Window]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with open_():
            return await function(*args, **kwargs)

    return call


def _generator(function: Callable[..., Any], open_: Callable[[], Window]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return (yield from _finish_generator(open_(), function(*args, **kwargs)))

    return call


def _async_generator(
    function: Callable[..., Any], open_: Callable[[], Window]
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        __tracebackhide__ = True
        window = open_()
        body = function(*args, **kwargs)
        step: Callable[[], Any] = body.__anext__
        is_closed = False
        with window:
            while not is_closed:
                try:
                    value = await step()
                except StopAsyncIteration:
                    return
                window.pause()
                try:
                    sent = yield value
                except GeneratorExit:
                    is_closed = True
                    window.resume()
                    await body.aclose()
                except BaseException as error:  # noqa: BLE001 - the body handles it
                    window.resume()
                    step = functools.partial(body.athrow, error)
                else:
                    window.resume()
                    step = functools.partial(body.asend, sent)

    return call


async def _finish_coroutine(window: Window, body: Any) -> Any:
    __tracebackhide__ = True
    with window:
        return await body


def _finish_generator(window: Window, body: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    __tracebackhide__ = True
    step: Callable[[], Any] = functools.partial(next, body)
    is_closed = False
    with window:
        while not is_closed:
            try:
                value = step()
            except StopIteration as end:
                return end.value
            window.pause()
            try:
                sent = yield value
            except GeneratorExit:
                is_closed = True
                window.resume()
                body.close()
            except BaseException as error:  # noqa: BLE001 - the body handles it
                window.resume()
                step = functools.partial(body.throw, error)
            else:
                window.resume()
                step = functools.partial(body.send, sent)
    return None


def _finish_async_generator(
    window: Window, body: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    return _async_generator(lambda: body, lambda: window)()


_BODIES: dict[type, Callable[[Window, Any], Any]] = {
    types.CoroutineType: _finish_coroutine,
    types.GeneratorType: _finish_generator,
    types.AsyncGeneratorType: _finish_async_generator,
}

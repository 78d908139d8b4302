"""Error containment: failures of retrace, or of user code that it calls, never reach the program.

retrace runs inside the program's own calls: JAX's callbacks, an import of jax, the start of a
process. All of these go through `contain`.

An exception raised in the thread from outside meanwhile (by a watchdog, a signal handler or a
debugger) is not ours and propagates into the program, whatever its class. Only a Ctrl-C is raised
again a moment later instead, so that its traceback does not show our code.

This is loaded before the program begins, so it only imports modules that every interpreter has
loaded already.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports] - what `signal` is made of
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType, TracebackType
    from typing import Any, TypeVar

    T = TypeVar("T")

_OURS = os.path.join(os.path.dirname(__file__), "")
_FRAME = type(sys._getframe())  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
_CODE = type(compile("0", "", "eval"))
_VARIADIC = 4
"""`CO_VARARGS`: the function takes `*args`."""
_SIGNALS: Any = _signal
_POSTPONE_SECONDS = 0.002
"""Longer than our code usually runs inside JAX."""

# The instructions of `raise`, and of raising again at the end of a `finally`; each comes last.
_RAISING = frozenset(
    compile(text, "", "exec").co_code[-2] for text in ("raise a", "try: a\nfinally: b")
)
_WITHOUT_ARGUMENTS = (StopIteration, StopAsyncIteration, MemoryError)
"""Exceptions that the interpreter itself raises without arguments."""

_OF_LIBRARIES = frozenset(["builtins", "retrace", "jax", "jaxlib", "numpy"])
_CODE_MODULES = frozenset(["dis", "inspect", "linecache", "opcode"])
"""Standard modules that any caller may pass code and frames to."""
_CALLING_NOTHING = frozenset(
    [
        *("RESUME", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "NOP"),
        *("POP_TOP", "COPY", "SWAP", "PUSH_NULL", "LOAD_CONST", "LOAD_FAST", "STORE_FAST"),
        *("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "RETURN_VALUE"),
        *("LOAD_DEREF", "STORE_DEREF", "RETURN_CONST", "LOAD_GLOBAL", "BUILD_TUPLE"),
    ]
)
"""Instructions that never call user code. If a user function was entered at one of them, the
interpreter called it."""


def contain(
    report: Callable[[Exception], object], call: Callable[..., T], *args: Any
) -> T | None:
    """Run our own code and contain its errors.

    Args:
        report: called with the error. Reporting may fail for the same reason (a full disk);
            that second error is ignored.
        call: what may fail.
        args: its arguments.

    Returns:
        The result of the call, or None after an error.

    Raises:
        Exception: one that was raised in this thread from outside meanwhile.
    """
    try:
        return call(*args)
    except KeyboardInterrupt as error:
        if not postpone(error):
            raise
        return None
    except Exception as error:
        if interrupts(error):
            raise
        if report is not ignore:
            contain(ignore, report, error)
        return None


def asked(call: Callable[..., T], *args: Any) -> T | None:
    """Call user code; None if it raises.

    Args:
        call: what to call.
        args: its arguments.

    Raises:
        Exception: one that was raised in this thread from outside meanwhile.
    """
    try:
        return call(*args)
    except Exception as error:  # it may raise anything
        if interrupts(error):
            raise
        return None


def alone(what: str, call: Callable[[], object], failed: Callable[[], object]) -> None:
    """Run the outermost function of a thread of ours, above which nothing handles an error.

    What came from outside, as from a tracer set for all threads, ends the thread without a word.

    Args:
        what: what a failure of ours means for the user, in one line.
        call: what the thread does.
        failed: called if that was cut short.
    """
    _, error = outcome(call)
    if error is not None:
        failed()
        if isinstance(error, Exception) and not interrupts(error):
            send(what, error)


def outcome(call: Callable[..., T], *args: Any) -> tuple[T | None, BaseException | None]:
    """Run code of the user's, or what runs it, where no caller above could handle an error.

    Args:
        call: what to call.
        args: its arguments.

    Returns:
        The result and None, or None and what was raised, whatever class it has.
    """
    try:
        return call(*args), None
    except BaseException as error:  # noqa: BLE001 - the caller handles it
        return None, error


def ignore(error: Exception) -> None:
    """Drop an error that cannot be reported."""


def say(text: str) -> None:
    """Write a line on stderr, which may be missing, closed or replaced by the program.

    Args:
        text: the line.
    """
    contain(ignore, _write, text)


def _write(text: str) -> None:
    if sys.stderr is not None:  # as in a daemon
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def send(text: str, error: Exception) -> None:
    """Report a bug of retrace on stderr.

    Args:
        text: what it means for the user, in one line.
        error: the error, shown with its stack.
    """
    import traceback

    trace = "".join(traceback.format_exception(error)).rstrip()
    say(f"retrace: {text}, please send this to the maintainers:\n{trace}")


def interrupts(error: BaseException) -> bool:
    """Whether an error caught in our code came from outside and belongs to the program.

    Either nothing on the stack raised it: the interpreter did, between two instructions, because
    another thread asked it to. Or a function raised it that the interpreter called: a signal
    handler, a tracer, a debugger.
    """
    caller: TracebackType | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not _is_ours(frame):
            if _is_given_frame(frame) or frame.f_code in set(_handlers()):
                return True
            if caller is not None and _instruction(caller) in _CALLING_NOTHING:
                return True
        caller, trace = trace, trace.tb_next
    return caller is not None and _came_from_outside(error, caller)


def postpone(error: KeyboardInterrupt) -> bool:
    """Postpone a Ctrl-C that arrived in our code; returns whether it will be raised again.

    Only with Python's default handler: a handler of the program must not be called twice.
    """
    if _SIGNALS.getsignal(_SIGNALS.SIGINT) is not _SIGNALS.default_int_handler:
        return False
    threads = sys.modules.get("threading")
    if threads is not None and _thread.get_ident() != threads.main_thread().ident:
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not _came_from_outside(error, last):
        return False
    try:
        _thread.start_new_thread(_interrupt, (_thread.get_ident(),))
    except RuntimeError:  # no thread available
        return False
    return True


def _interrupt(thread: int) -> None:
    time.sleep(_POSTPONE_SECONDS)
    if os.name == "posix":
        _SIGNALS.pthread_kill(thread, _SIGNALS.SIGINT)  # also wakes it if it is waiting
    else:
        _thread.interrupt_main()


def _came_from_outside(error: BaseException, last: TracebackType) -> bool:
    """Whether the interpreter raised it by itself, as `PyThreadState_SetAsyncExc` makes it do.

    It then calls an exception class without arguments. Errors from C code have some text, and
    errors from Python code come from a `raise`.
    """
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    if not 0 <= at < len(code) or code[at] in _RAISING or isinstance(error, _WITHOUT_ARGUMENTS):
        return False
    if type(error).__module__ == "_queue":  # C code that raises without arguments
        return False
    return not error.args or _is_of_program(type(error).__module__)


def _is_of_program(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in _OF_LIBRARIES and top not in sys.stdlib_module_names


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _instruction(trace: TracebackType) -> str:
    """The name of the current instruction of a frame; empty if unknown."""
    names: Any = getattr(sys.modules.get("opcode"), "opname", None)
    code, at = trace.tb_frame.f_code.co_code, trace.tb_lasti
    return names[code[at]] if names and 0 <= at < len(code) else ""


def _handlers() -> Iterator[CodeType]:
    """The code of the program's signal handlers."""
    signals: Any = sys.modules.get("_signal") or sys.modules.get("signal")
    for number in range(1, getattr(signals, "NSIG", 0)):
        try:
            handler = signals.getsignal(number)
        except (ValueError, OSError):
            continue
        while handler is not None:
            function = getattr(handler, "__func__", handler)
            code: Any = getattr(function, "__code__", None)
            if type(code) is not _CODE and callable(handler):
                code = getattr(type(handler).__call__, "__code__", None)
            if type(code) is _CODE:
                yield code
            handler = getattr(handler, "func", None)  # unwrap a `functools.partial`


def _is_given_frame(frame: FrameType) -> bool:
    """Whether a function was called with a frame or code, as only the interpreter does."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    is_variadic = bool(code.co_flags & _VARIADIC)
    if frame.f_globals.get("__name__") in _CODE_MODULES:
        return False
    given: list[object] = [
        frame.f_locals.get(name) for name in code.co_varnames[: count + is_variadic]
    ]
    # A signal handler that has cleared both its arguments. User code that we call has one
    # parameter, or is a special method.
    is_cleared = (
        count in (2, 3)
        and not is_variadic
        and all(value is None for value in given[-2:])
        and not code.co_name.startswith("__")
        and _is_of_program(str(frame.f_globals.get("__name__")))
    )
    if type(given[0] if given else None) is _CODE and len(given) == 1:
        return False  # `sys.monitoring` would also pass an offset
    return is_cleared or any(map(_is_outsider, given))


def _is_outsider(value: Any) -> bool:
    """Whether it is a frame or code, which only the interpreter passes to functions."""
    if type(value) is tuple:
        return any(map(_is_outsider, value))  # pyright: ignore[reportUnknownArgumentType]
    return type(value) in (_FRAME, _CODE)

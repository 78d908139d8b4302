"""A failure of ours: caught here, told, and kept away from the program under recording.

What retrace does there runs inside calls of the program's own: JAX's callbacks, an
import of jax, the start of a process. Each of them passes through `contain`.

An exception that was put into the thread meanwhile is none of ours: a watchdog's, a signal
handler's, a debugger's. It goes on into the program, whatever its class is. Only a Ctrl-C is
raised there anew, a moment later: its traceback would show where we were.

This is loaded before a program begins, so it imports nothing that an interpreter has not
loaded by itself.
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
"""`CO_VARARGS`, of a function with `*args`."""
_SIGNALS: Any = _signal
_MOMENT = 0.002
"""Seconds: longer than we are mostly at work inside JAX."""

# `raise`, and what goes on with it at the end of a `finally`; both stand last there.
_RAISING = frozenset(
    compile(text, "", "exec").co_code[-2] for text in ("raise a", "try: a\nfinally: b")
)
_EMPTY = (StopIteration, StopAsyncIteration, MemoryError)
"""What the interpreter itself raises without a word."""

_OF_LIBRARIES = frozenset(["builtins", "retrace", "jax", "jaxlib", "numpy"])
_OF_CODE = frozenset(["dis", "inspect", "linecache", "opcode"])
"""Modules of Python's that are given code and frames by whoever asks them."""
_CALLING_NOTHING = frozenset(
    [
        *("RESUME", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "NOP"),
        *("POP_TOP", "COPY", "SWAP", "PUSH_NULL", "LOAD_CONST", "LOAD_FAST", "STORE_FAST"),
        *("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "RETURN_VALUE"),
        *("LOAD_DEREF", "STORE_DEREF", "RETURN_CONST", "LOAD_GLOBAL", "BUILD_TUPLE"),
    ]
)
"""Instructions of ours that never call what the program wrote. Where a function of the program's
was entered at one, something outside called it."""


def contain(told: Callable[[Exception], object], call: Callable[..., T], *args: Any) -> T | None:
    """Run something of ours, and let nothing that it raises go further.

    Args:
        told: given what was raised. Telling can fail for the same reason: the disk is
            full. Then there is nobody left to tell.
        call: what may fail.
        args: of the call.

    Returns:
        What the call returns, or None.

    Raises:
        Exception: what was put into this thread from outside amid it.
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
        if told is not unheard:
            contain(unheard, told, error)
        return None


def asked(call: Callable[..., T], *args: Any) -> T | None:
    """What code of the user's own answers, that we call; None where it raises.

    Args:
        call: asks it.
        args: of the call.

    Raises:
        Exception: what was put into this thread from outside amid it.
    """
    try:
        return call(*args)
    except Exception as error:  # it may raise anything
        if interrupts(error):
            raise
        return None


def unheard(error: Exception) -> None:
    """What becomes of a failure of which nobody can be told."""


def send(text: str, error: Exception) -> None:
    """Tell on stderr of a failure that nobody but the maintainers can mend.

    Args:
        text: what it means for the user, in one line.
        error: shown with its stack.
    """
    import traceback

    trace = "".join(traceback.format_exception(error)).rstrip()
    sys.stderr.write(f"retrace: {text}, please send this to the maintainers:\n{trace}\n")


def interrupts(error: BaseException) -> bool:
    """Whether what was caught in our code came from outside it, and is the program's.

    Either nothing on the stack raised it: the interpreter was told to, between two
    instructions. Or a function did that the interpreter called there: a signal handler, a
    tracer, a debugger.
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
    return caller is not None and _was_put_in(error, caller)


def postpone(error: KeyboardInterrupt) -> bool:
    """Whether a Ctrl-C came amid our code and comes again, in a moment, wherever we are then.

    Only as Python handles it by itself: a handler of the program's is not called twice.
    """
    if _SIGNALS.getsignal(_SIGNALS.SIGINT) is not _SIGNALS.default_int_handler:
        return False
    threads = sys.modules.get("threading")
    if threads is not None and _thread.get_ident() != threads.main_thread().ident:
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not _was_put_in(error, last):
        return False
    try:
        _thread.start_new_thread(_interrupt, (_thread.get_ident(),))
    except RuntimeError:  # no thread is to be had
        return False
    return True


def _interrupt(thread: int) -> None:
    time.sleep(_MOMENT)
    if os.name == "posix":
        _SIGNALS.pthread_kill(thread, _SIGNALS.SIGINT)  # it may wait for something by then
    else:
        _thread.interrupt_main()


def _was_put_in(error: BaseException, last: TracebackType) -> bool:
    """Whether the interpreter raised it of itself, as `PyThreadState_SetAsyncExc` makes it do.

    It is given a class and calls that without arguments. What C code raises has some text;
    what Python raises stands at a `raise`.
    """
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    if not 0 <= at < len(code) or code[at] in _RAISING or isinstance(error, _EMPTY):
        return False
    if type(error).__module__ == "_queue":  # C code that raises without a word
        return False
    return not error.args or _is_of_program(type(error).__module__)


def _is_of_program(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in _OF_LIBRARIES and top not in sys.stdlib_module_names


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _instruction(trace: TracebackType) -> str:
    """The name of the instruction at which a frame was; empty where Python cannot tell."""
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
            handler = getattr(handler, "func", None)  # of a `functools.partial`


def _is_given_frame(frame: FrameType) -> bool:
    """Whether a function was called as only the interpreter calls one: with a frame, or code."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    is_variadic = bool(code.co_flags & _VARIADIC)
    if frame.f_globals.get("__name__") in _OF_CODE:
        return False
    given: list[object] = [
        frame.f_locals.get(name) for name in code.co_varnames[: count + is_variadic]
    ]
    # A handler of signals that has cleared both the signal and the frame; what we call of the
    # program's has one parameter, or is a method of Python's own.
    is_cleared = (
        count in (2, 3)
        and not is_variadic
        and all(value is None for value in given[-2:])
        and not code.co_name.startswith("__")
        and _is_of_program(str(frame.f_globals.get("__name__")))
    )
    if type(given[0] if given else None) is _CODE and len(given) == 1:
        return False  # `sys.monitoring` tells of a place in the code as well
    return is_cleared or any(map(_is_outsider, given))


def _is_outsider(value: Any) -> bool:
    """Whether only the interpreter calls a function with this: a frame, or code."""
    if type(value) is tuple:
        return any(map(_is_outsider, value))  # pyright: ignore[reportUnknownArgumentType]
    return type(value) in (_FRAME, _CODE)

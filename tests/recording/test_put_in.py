"""What is put into a thread from outside while our code runs there is the program's."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

import retrace
from retrace import failure


class Overdue(Exception):
    pass


class WithText(Exception):
    def __init__(self) -> None:
        super().__init__("timed out")


# Code that counts as ours by its file, with a little of everything in it.
OURS = """
import json

def work(times):
    total, known = 0, {}
    for number in range(times):
        known[number % 7] = json.dumps([number])
        os.stat(os.curdir)
        try:
            total += len(str(number))
        finally:
            total -= 1
    return total
"""
names: dict[str, Any] = {"os": os}
exec(compile(OURS, os.path.join(os.path.dirname(failure.__file__), "fake.py"), "exec"), names)
work: Callable[[int], int] = names["work"]


def interrupted(expected: type[BaseException], put: Callable[[], None], tries: int = 50) -> bool:
    """Whether what `put` puts in while our code runs comes out of it."""
    swallowed: list[Exception] = []
    assert tries, "it always came before or after"
    put()
    try:
        failure.contain(swallowed.append, work, 4000)
        time.sleep(1)
    except expected as error:
        trace, files = error.__traceback__, list[str]()
        while trace is not None:
            files.append(os.path.basename(trace.tb_frame.f_code.co_filename))
            trace = trace.tb_next
        # On a busy machine it comes too early or too late.
        return "fake.py" in files or interrupted(expected, put, tries - 1)
    assert swallowed
    return False


KINDS = [Overdue, WithText, TimeoutError, RuntimeError, OSError, KeyError, Exception]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_put_in_by_another_thread_comes_out(kind: type[Exception]) -> None:
    main = threading.get_ident()

    def put() -> None:
        def soon() -> None:
            time.sleep(0.005)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(main), ctypes.py_object(kind)
            )

        # Not by `Thread.start`, which waits, and would be where it lands.
        __import__("_thread").start_new_thread(soon, ())

    assert all(interrupted(kind, put) for _ in range(5))


def clears(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Overdue("cleared")


class Handler:
    def __call__(self, number: Any, frame: Any) -> None:
        del number, frame
        raise Overdue("called")

    def method(self, number: Any, frame: Any) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        del number, frame
        raise Overdue("method")


def bound(_: int, number: Any, frame: Any) -> None:
    del number, frame
    raise Overdue("bound")


HANDLERS = [clears, Handler(), Handler().method, functools.partial(bound, 1)]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_signal_handler_raises_comes_out(handler: Any) -> None:
    before = signal.getsignal(signal.SIGALRM)

    def put() -> None:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.005)

    try:
        assert all(interrupted(Overdue, put) for _ in range(5))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_a_tracer_raises_comes_out() -> None:
    def tracer(frame: Any, event: Any, value: Any) -> Any:
        if event == "line" and frame.f_code.co_name == "work" and frame.f_lineno > 8:
            del frame, event, value
            raise Overdue("traced")
        return tracer

    before = sys.gettrace()
    try:
        assert interrupted(Overdue, lambda: sys.settrace(tracer))
    finally:
        sys.settrace(before)


def test_ctrl_c_amid_our_code_comes_again_outside_of_it() -> None:
    def ours() -> int:
        signal.raise_signal(signal.SIGINT)
        return 1

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        came: Any = None
        for again in range(3):
            try:
                assert failure.contain(failure.ignore, ours) is None
                time.sleep(10)
            except KeyboardInterrupt as error:
                came = error.__traceback__
            assert came.tb_next is None, again
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_programs_is_called_once_for_ctrl_c() -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            failure.contain(failure.ignore, signal.raise_signal, signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("ahead", [False, True])
def test_no_frame_of_ours_stands_in_a_traceback(ahead: bool) -> None:
    """JAX takes its own out of those of an `Exception` only."""

    @jax.jit
    def stops(x: Any) -> Any:
        raise Stopped

    with retrace.recording(), pytest.raises(Stopped) as told, retrace.assert_no_retrace():
        stops.lower(1.0) if ahead else stops(1.0)
    files = [entry.path for entry in told.traceback]
    assert [
        file for file in files if str(file).startswith(os.path.dirname(failure.__file__))
    ] == []
    assert any("pjit" in str(file) for file in files)


@pytest.mark.parametrize(
    "text",
    [
        *("1 / 0", "[][1]", "{}['a']", "int('x')", "open('/no/such')", "None.x", "undefined"),
        *(
            "raise ValueError",
            "raise KeyError()",
            "assert False",
            "next(iter(()))",
            "set().pop()",
        ),
        *("(lambda: 0)(1)", "import no_such", "b'\\xff'.decode()", "json.dumps(object())"),
        *(
            "f = lambda: f()\nf()",
            "with open(os.devnull): raise OSError",
            "a, b = [1]",
        ),
        *("import queue; queue.SimpleQueue().get_nowait()", "memoryview(b'').cast('i')[0]"),
        "import numpy; numpy.zeros(3) + numpy.zeros(4)",
    ],
)
def test_what_our_own_code_raises_is_contained(text: str) -> None:
    file = os.path.join(os.path.dirname(failure.__file__), "fake.py")
    code = compile(f"import json, os\n{text}", file, "exec")
    told: list[Exception] = []
    failure.contain(told.append, exec, code, {})
    assert len(told) == 1


class Setting:
    """A static argument that is equal to others of its value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and other.value == self.value


def test_nothing_of_ours_runs_where_an_object_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where `retrace.jit` records
    # An exception that is put into a callback of a weak reference is printed and lost there.
    held, factor, setting = [], 3, Setting(1)

    def step(x: Any, s: Setting) -> Any:
        return x * factor * s.value

    with retrace.recording(), retrace.recording(tmp_path / "recorded"):
        ours: Any = retrace.jit(lambda x: x + factor)
        held += [ours, jax.jit(step, static_argnums=1)]
        ours(np.ones(3))
        held[1](np.ones(3), setting)
        (n,) = export.symbolic_shape("n")
        held.append(export.export(held[1])(jax.ShapeDtypeStruct((n,), "float32"), setting))
        held += [weakref.ref(one) for one in (step, setting, step.__code__)]
        gc.collect()
        # By its type: some objects of other tests raise where they are asked for their class.
        found = [one for one in gc.get_objects() if issubclass(type(one), weakref.ref)]
        held.clear()
        del ours  # while it lives, retrace listens
    assert len(found) > 100
    ours_among: list[Any] = [type(one) for one in found if type(one).__module__.startswith("ret")]
    assert len(ours_among) > 3, "those that are looked for are not seen"
    called = [getattr(one, "__callback__", None) for one in found]
    called = [getattr(one, "func", one) for one in called if one is not None]
    of_python = [one for one in called if isinstance(one, FunctionType | MethodType)]
    assert of_python, "JAX and the standard library have some"
    assert [one for one in of_python if str(one.__module__).startswith("retrace")] == []
    # Weak dicts and sets call Python as well.
    for name, module in list(sys.modules.items()):
        if name.startswith("retrace."):
            weak = [one for one in vars(module).values() if type(one) in WEAK]
            assert not weak or name == "retrace.capture.lock", name  # locks live on


WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)

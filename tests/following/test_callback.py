"""What the callback for each miss gets, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax as _jax
import numpy as np
import pytest

import retrace
from retrace.capture.session import flush
from retrace.errors import UsageError
from retrace.following import callback as module
from retrace.following import ended_misses
from retrace.following.callback import Following
from retrace.inside.explained import ExplainedMiss

jax: Any = _jax


def fields_of(miss: Any) -> dict[str, Any]:
    """All fields, with its process taken out: two recordings of one are two runs.

    What only later misses tell is left out: patterns, and where a second function of a name is.
    """
    fields: dict[str, Any] = eval(repr(dict(miss)).replace(miss.run, "RUN"))
    later = {"pattern": None, "label": str(fields["label"]).partition(" (")[0]}
    return fields | later


@pytest.fixture
def got() -> list[ExplainedMiss]:
    return []


def make_step(log: Any = None) -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        if log is not None:
            log(x)
        return (x * 2).sum()

    return step


def test_the_callback_gets_the_same_as_a_recording(got: list[ExplainedMiss]) -> None:
    step = make_step()

    def power(x: Any) -> Any:
        return step(x) ** 2

    with retrace.recording() as recorded, retrace.on_miss(got.append) as following:
        for dtype in ("float32", "int32", "float16"):
            step(np.ones(3, dtype))
            following.wait()  # so that both have the same misses
        jax.grad(power)(np.float32(1))
        jax.eval_shape(make_step(), jax.ShapeDtypeStruct((4,), "float32"))
        assert following.wait()
        misses = recorded.misses
    known = sorted(got, key=order)
    assert list(map(fields_of, known)) == list(map(fields_of, misses))
    assert [str(miss) for miss in known[:3]] == [str(miss) for miss in misses[:3]]
    assert (following.handed, following.dropped, following.failed) == (len(misses), 0, 0)
    assert {"dtype-changed", "first-trace"} <= {miss.cause for miss in got}


def order(miss: Any) -> int:
    return int(miss.id.rpartition("-")[2])


def test_a_miss_is_handed_over_while_another_thread_still_traces(
    got: list[ExplainedMiss], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_misses, "SETTLED", 0.0)
    begun, go_on = threading.Event(), threading.Event()

    @jax.jit
    def inner(x: Any) -> Any:
        return x / 2

    def hold(x: Any) -> None:
        if x.shape == (2,):
            inner(x)  # which ends with the whole miss
            begun.set()
            assert go_on.wait(60)

    step = make_step(hold)
    with retrace.on_miss(got.append) as following:
        step(np.ones(1))
        slow = threading.Thread(target=step, args=(np.ones(2),))
        slow.start()
        assert begun.wait(60)
        step(np.ones(3))
        step(np.ones(4))
        assert following.wait()
        early = [order(miss) for miss in got]
        go_on.set()
        slow.join()
    steps = [miss for miss in got if miss.function.name == "step"]
    named = [(miss.changes[0].old, miss.changes[0].new) for miss in steps[1:]]
    # The miss of (2,) began before that of (3,) and was its nearest key; it ended last.
    assert named == [([2], [3]), ([3], [4]), ([1], [2])]
    assert len(early) == 3 and len(got) == 5


def test_a_callback_that_raises_is_called_again(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(miss: Any) -> None:
        raise SystemExit(miss.cause)

    step = make_step()
    with retrace.on_miss(fail) as following:
        assert [float(step(np.ones(size))) for size in (1, 2, 3)] == [2.0, 4.0, 6.0]
    assert (following.handed, following.failed) == (3, 3)
    said = capsys.readouterr().err
    assert said.count("Traceback") == 1 and "SystemExit: first-trace" in said


def test_a_callback_that_hangs_blocks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        begun.set()
        go_on.wait(60)

    step = make_step()
    following = retrace.on_miss(hang, most_waiting=2)
    try:
        step(np.ones(1))
        assert begun.wait(60)
        for size in range(2, 10):
            step(np.ones(size))
        assert not following.stop(timeout=0.01)
        # One is being handed over; the other eight never will be.
        assert following.dropped == 8
    finally:
        go_on.set()
    assert capsys.readouterr().err.startswith("retrace: 8 misses ")


def test_misses_beyond_the_limit_are_counted(got: list[ExplainedMiss]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(miss: Any) -> None:
        got.append(miss)
        begun.set()
        go_on.wait(60)

    step = make_step()
    with retrace.on_miss(slow, most_waiting=2) as following:
        step(np.ones(1))
        assert begun.wait(60)
        for size in range(2, 10):
            step(np.ones(size))
        flush()
        go_on.set()
        assert following.wait()
    assert following.handed == len(got) == 3
    assert following.dropped == 6


def test_waiting_misses_take_limited_memory(
    got: list[ExplainedMiss], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 1)
    begun, go_on = threading.Event(), threading.Event()

    def slow(miss: Any) -> None:
        got.append(miss)
        begun.set()
        go_on.wait(60)

    step = make_step()
    with retrace.on_miss(slow) as following:
        step(np.ones(1))
        step(np.ones(2))
        go_on.set()
    assert following.handed + following.dropped == 2
    assert following.dropped


def test_its_thread_is_invisible(got: list[ExplainedMiss]) -> None:
    names: list[str] = []

    def own(x: Any) -> Any:
        return x - len(got)

    def note(miss: Any) -> None:
        got.append(miss)
        names.append(threading.current_thread().name)  # makes `threading` know it
        jax.jit(own)(np.ones(len(got)))

    before = threading.enumerate()
    step = make_step()
    with retrace.recording() as recorded, retrace.on_miss(note) as following:
        step(np.ones(1))
        step(np.ones(2))
        assert following.wait()
        assert threading.enumerate() == before
        theirs = [miss.function.name for miss in recorded.misses if miss.thread == module.THREAD]
    assert theirs == ["own", "own"]  # recorded, but not handed over
    assert [miss.function.name for miss in got] == ["step", "step"]
    assert len(names) == 2


def test_a_callback_may_stop_itself(got: list[ExplainedMiss]) -> None:
    def once(miss: Any) -> None:
        got.append(miss)
        following.stop()

    step = make_step()
    following: Following = retrace.on_miss(once)
    step(np.ones(1))
    assert following.wait() or following.handed
    for size in range(2, 5):
        step(np.ones(size))
    assert following.stop()
    assert got[0].cause == "first-trace" and len(got) < 4


def test_a_callback_that_is_not_callable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    with pytest.raises(UsageError):
        retrace.on_miss(nothing)
    monkeypatch.setenv("RETRACE", "0")
    with retrace.on_miss(print) as following:
        make_step()(np.ones(1))
        assert following.wait() and following.stop()
    assert not following.handed


PROGRAM = """
import atexit, os, sys, threading, time
import jax, numpy as np, retrace

step = jax.jit(lambda x: x + 1)
retrace.install(sys.argv[1])
step(np.ones(9))
handed = []
atexit.register(lambda: print(*handed, sep="\\n"))  # after what retrace does there
retrace.on_miss(lambda miss: time.sleep(100_000))  # takes no time from the second
second = retrace.on_miss(lambda miss: handed.append(f"{miss.label} {miss.cause}"))
step(np.ones(1))
if not (child := os.fork()):
    os._exit(not second.stop(0) or second.dropped)
assert os.waitpid(child, 0)[1] == 0
for size in range(2, 5):
    second.wait(60)  # the end, which waits two seconds, is left with one miss
    step(np.ones(size))
print(threading.enumerate() == [threading.main_thread()])
"""


@pytest.mark.drawn
def test_the_end_of_a_program_does_not_wait_for_a_callback_that_hangs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Earlier misses are known, but were not handed over.
    assert done.stdout.splitlines() == [
        "True",
        *(f"<lambda> #{number} shape-changed" for number in range(2, 6)),
    ]
    assert done.stderr.count("retrace: 3 misses ") == 1

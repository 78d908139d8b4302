"""No guard passes if its silence means nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import monitoring, pjit, util
from jax._src.interpreters import partial_eval

import retrace
from retrace.capture import function, interpreter
from retrace.capture.session import session
from retrace.errors import CannotTellError
from retrace.guards import trust
from retrace.guards.watch import watch
from retrace.jax_internals import losses
from retrace.jax_internals.row import Loss
from retrace.store.reader import read

pytestmark = pytest.mark.drawn

Spoil = Callable[[], None]


@pytest.fixture
def step() -> Any:
    """A function without further misses."""
    step = jax.jit(lambda x: x * 2)
    step(np.ones(3, np.float32))
    return step


@pytest.fixture
def restored() -> Iterator[None]:
    """Restore what a test removed from JAX, and forget losses."""
    lists = {name: list(held) for name, held in vars(monitoring).items() if type(held) is list}
    yield
    for name, held in lists.items():
        setattr(monitoring, name, held)


def clear_listeners() -> None:
    # Any program may call this public function.
    jax.monitoring.clear_event_listeners()  # pyright: ignore[reportAttributeAccessIssue]


def take_the_slot() -> None:
    util.test_event_listener = None


def take_the_slot_and_listen() -> None:
    util.test_event_listener = lambda *_: None


def put_back_the_trace_function() -> None:
    for module, name in ((partial_eval, "trace_to_jaxpr"), (pjit, "_create_pjit_jaxpr")):
        held: Any = getattr(module, name, None)
        if type(held).__name__ == "TraceProxy":
            setattr(module, name, held.__wrapped__)


def lose() -> None:
    session().recorder.journal.lose("TypeError while recording")


def guarded(guard: Any, *calls: Callable[[], object]) -> None:
    with guard:
        for call in calls:
            call()


CUTS: list[Spoil] = [
    clear_listeners,
    take_the_slot,
    take_the_slot_and_listen,
    put_back_the_trace_function,
    lose,
]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("spoil", CUTS)
def test_a_guard_that_was_cut_off_does_not_pass(spoil: Spoil, step: Any) -> None:
    guards: list[Callable[[], Any]] = [
        retrace.assert_no_retrace,
        lambda: retrace.assert_max_traces(step, 1),
        lambda: retrace.assert_max_traces(step, causes={"shape-changed": 1}),
        retrace.freeze,
        lambda: retrace.policy("raise"),
    ]
    for make in guards:
        with pytest.raises(CannotTellError, match="cannot tell on this JAX"):
            guarded(make(), spoil, lambda: step(np.ones(3, np.float32)))
        with make():  # the next one starts fresh
            step(np.ones(3, np.float32))


def test_a_silent_jax_is_not_taken_for_one_without_misses() -> None:
    program = Path(__file__).parent / "programs" / "silent.py"
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    said = {tuple(found): text for *found, text in json.loads(done.stdout)}
    assert len(said) == 15
    for (silent, work, counts), text in said.items():
        told = silent == "nothing" or ("trace" not in silent and work in ("call", "lower"))
        if not counts:
            expected = "passed" if work == "earlier" else "no miss "
        elif work == "nothing":
            expected = "passed"
        else:  # a miss with any event is a miss
            expected = "missed" if told else "cannot tell"
        assert expected in text, (silent, work, counts, text)


@pytest.mark.usefixtures("restored")
def test_a_block_that_raises_keeps_its_error(step: Any) -> None:
    for make in (retrace.assert_no_retrace, retrace.freeze, lambda: retrace.policy("raise")):
        with pytest.raises(ZeroDivisionError):
            guarded(make(), clear_listeners, lambda: 1 / 0)


@pytest.mark.usefixtures("restored")
def test_misses_that_were_still_seen_count(step: Any) -> None:
    guard = retrace.assert_no_retrace(step)
    with pytest.raises(retrace.RetraceError, match="missed"):
        guarded(guard, lambda: step(np.ones(4, np.float32)), clear_listeners)


@pytest.mark.usefixtures("restored")
def test_a_warning_guard_warns(step: Any) -> None:
    with pytest.warns(retrace.RetraceWarning, match="cannot tell"), retrace.freeze(warn=True):
        clear_listeners()


@pytest.mark.usefixtures("restored")
def test_a_recording_shows_that_it_was_cut_off(tmp_path: Path) -> None:
    with retrace.recording(tmp_path / "recorded"):
        clear_listeners()
    (run,) = read([tmp_path / "recorded"]).runs
    assert any("listeners were removed" in loss for loss in run.losses)


def test_wrappers_that_pass_events_on_do_no_harm(step: Any) -> None:
    heard: list[str] = []
    with retrace.assert_no_retrace(step):
        ours: Any = util.test_event_listener

        def listens(name: str, *args: Any) -> None:
            heard.append(name)
            ours(name, *args)

        util.test_event_listener = listens
    util.test_event_listener = None
    assert set(heard) == {"retrace_probe"}


def test_a_guard_counts_nothing_in_jax(step: Any) -> None:
    events: list[str] = []

    def lasted(event: str, duration: float, **_: Any) -> None:
        events.append(event)

    def happened(event: str, **_: Any) -> None:
        events.append(event)

    register: Any = jax.monitoring.register_event_duration_secs_listener
    register(lasted)
    jax.monitoring.register_event_listener(happened)
    before = watch().position
    try:
        with retrace.assert_no_retrace(), retrace.freeze():
            step(np.ones(3, np.float32))
    finally:
        for held in vars(monitoring).values():
            if type(held) is list:
                held[:] = [one for one in held if one not in (lasted, happened)]
    assert events == [] and watch().position == before


def test_the_lists_of_harmless_losses_match_existing_losses() -> None:
    of_jax = {one.name for one in vars(losses).values() if isinstance(one, Loss)}
    of_python = {row.lost for row in interpreter.ROWS}
    assert {*trust.HARMLESS} <= of_jax | of_python
    # These are prefixes; the rest has details.
    written = "".join(file.read_text() for file in Path(trust.__file__).parents[1].rglob("*.py"))
    for loss in {*trust.OF_PROGRAMS} - of_jax:
        assert len(re.findall(f'"{re.escape(loss)}', written)) > 1, loss
    # A new loss counts as hiding misses until it is listed, here as well.
    assert {loss for loss in of_jax if trust.hiding([loss])} == {
        one.name
        for one in (
            *(losses.TRACES, losses.LOWERINGS, losses.COMPILATIONS, losses.CALLS, losses.OPTIONS),
            *(losses.ARGUMENTS, losses.TREES, losses.PLACEMENT, losses.CONFIG, losses.CLEARS),
            *(losses.DERIVED, losses.AHEAD, losses.PMAP, losses.OPERATIONS),
            *(losses.JIT_LINES, losses.FUNCTIONS),
        )
    }


def shell(folder: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )


SUITE = """
import jax, pytest
step = jax.jit(lambda x: x)

@pytest.mark.retrace
def test_marked():
    jax.monitoring.clear_event_listeners()

def test_not_marked():
    pass
"""


@pytest.mark.parametrize("baseline", [False, True])
def test_a_suite_that_was_cut_off_does_not_pass(tmp_path: Path, baseline: bool) -> None:
    source = SUITE
    if baseline:
        (tmp_path / "retrace-baseline.toml").write_text(
            'schema = "retrace-baseline/1"\n\n[tests."test_it.py::test_marked"]\n'
        )
        source = SUITE.replace("@pytest.mark.retrace", "")
    options = ("-q", "-p", "no:cacheprovider", "-p", "retrace.pytest_plugin", "--retrace")
    done = shell(tmp_path, source, "-m", "pytest", *options)
    assert done.returncode == 1, done.stdout
    assert "cannot tell on this JAX" in done.stdout
    assert "no misses" not in done.stdout
    assert ("1 failed, 1 passed" in done.stdout) is not baseline
    if baseline:
        done = shell(tmp_path, source, "-m", "pytest", *options, "--retrace-update")
        assert done.returncode == 1 and "cannot tell on this JAX" in done.stdout


BUDGET = '[tool.retrace.budgets."step"]\ntraces = 1\n'


def check(folder: Path, *options: str) -> tuple[int, str]:
    (folder / "pyproject.toml").write_text(BUDGET)
    done = shell(folder, "", "-m", "retrace", "check", "recorded", *options)
    assert "Traceback" not in done.stderr
    # If nothing can be told, only that is reported, also to GitHub.
    if done.returncode == 2:
        assert done.stderr.count("\n") == 1
        title = "::error title=retrace check::" if "github" in options else ""
        reason = done.stderr.removeprefix("retrace: ") if title else ""
        assert done.stdout == f"{title}{reason}"
    return done.returncode, done.stderr + done.stdout


def test_check_of_a_recording_in_which_nothing_was_seen(tmp_path: Path) -> None:
    with retrace.recording(tmp_path / "recorded"):
        pass
    for options in ((), ("--format", "github"), ("--update",)):
        code, said = check(tmp_path, *options)
        assert code == 2 and "cannot tell" in said and "no miss " in said, said
        assert "held" not in said
    assert not (tmp_path / "retrace-baseline.toml").exists()


def test_check_of_a_recording_with_losses(tmp_path: Path) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return x

    with retrace.recording(tmp_path / "recorded"):
        step(np.ones(3, np.float32))
    (file,) = (tmp_path / "recorded").glob("*.jsonl")
    whole = file.read_text()
    assert check(tmp_path)[0] == 0
    for loss, expected in (
        (losses.TRACES.name, 2),
        ("TypeError while recording", 2),
        (losses.DISK.name, 0),
        ("programs not written: no space left on device", 0),
    ):
        file.write_text(f'{whole}{{"loss":"{loss}"}}\n')
        code, said = check(tmp_path, "--format", "github")
        assert code == expected and (loss in said or not expected), said
        assert (loss in check(tmp_path)[1]) is (expected == 2)
    # An excess is one, whatever else was lost.
    with retrace.recording(tmp_path / "second"):
        step(np.ones(4, np.float32))
        step(np.ones(5, np.float32))
    (second,) = (tmp_path / "second").glob("*.jsonl")
    second.rename(tmp_path / "recorded" / second.name)
    file.write_text(f'{whole}{{"loss":"TypeError while recording"}}\n')
    code, said = check(tmp_path)
    assert code == 1 and "cannot tell" in said and "step was traced" in said


def test_check_of_a_program_that_never_imported_jax(tmp_path: Path) -> None:
    done = shell(tmp_path, "print(1)", "-m", "retrace", "run", "--out", "recorded", "test_it.py")
    assert done.returncode == 0
    code, said = check(tmp_path)
    assert code == 0 and "never imported jax" in said and "held" not in said
    code, said = check(tmp_path, "--update")
    assert code == 0 and not (tmp_path / "retrace-baseline.toml").exists()


@pytest.mark.parametrize("left", [0, 20])
def test_check_of_a_process_whose_first_line_is_missing(tmp_path: Path, left: int) -> None:
    """As where the disk was full: nothing is known of it, not that it never imported jax."""
    done = shell(tmp_path, "print(1)", "-m", "retrace", "run", "--out", "recorded", "test_it.py")
    assert done.returncode == 0
    (file,) = (tmp_path / "recorded").glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:left])
    code, said = check(tmp_path)
    assert code == 2
    assert f"process {file.stem} did not end" in said
    assert "never imported" not in said


def test_what_was_lowered_before_is_told_as_such() -> None:
    step = jax.jit(lambda x: x * 2)
    lowered = step.lower(np.ones(3, np.float32))
    with (
        pytest.raises(CannotTellError, match="was lowered before") as caught,
        retrace.assert_max_traces(step, 1),
    ):
        lowered.compile()
    assert "doctor" not in str(caught.value)


def test_a_class_without_a_hash_is_no_obstacle() -> None:
    class Meta(type):
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __eq__(cls, other: object) -> bool:
            return cls is other

    class Layer(metaclass=Meta):
        def call(self, x: Any) -> Any:
            return x * 2

    jitted = jax.jit(Layer().call)

    def called_with(*sizes: int) -> None:
        with retrace.assert_max_traces(jitted, 1):
            for size in sizes:
                jitted(np.ones(size, np.float32))

    called_with(3, 3)
    with pytest.raises(AssertionError):
        called_with(4, 5)


def test_a_function_that_cannot_be_described_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LookupError

    jitted = jax.jit(lambda x: x * 2)
    session()
    monkeypatch.setattr(function.Functions, "describe", refuse)
    with (
        pytest.raises(CannotTellError, match="by a pattern"),
        retrace.assert_max_traces(jitted, 1),
    ):
        pass
    assert "LookupError" in capfd.readouterr().err

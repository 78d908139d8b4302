"""What pytest reports about test suites with the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from retrace.store.reader import read
from tests.process import retrace

pytestmark = pytest.mark.drawn

HEAD = """
import asyncio, functools
import jax, numpy as np, pytest

@jax.jit
def step(x):
    return x * 2

def ones(n):
    return np.ones(n, np.float32)
"""


def run(
    folder: Path, *options: str, source: str | None = None, path: str = ""
) -> subprocess.CompletedProcess[str]:
    if source is not None:
        (folder / "test_it.py").write_text(HEAD + textwrap.dedent(source))
    # Without autoloading of other plugins, which takes a second.
    alone = "-n" not in options and not path
    loaded = any(point.name == "retrace" for point in entry_points(group="pytest11"))
    ours = () if loaded and not alone else ("-p", "retrace.pytest_plugin")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *(
                "-p",
                "no:cacheprovider",
                "-p",
                "no:jaxtyping",
                "-W",
                "error",
                *ours,
                *options,
                str(folder),
            ),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (path, *sys.path))),
            **({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if alone else {}),
        },
    )


GUARDED = """
@pytest.mark.retrace(max_traces=1, functions=["step"])
def test_too_often():
    step(ones(2)), step(ones(3))

@pytest.mark.retrace(max_traces=1)
def test_another_window():
    step(ones(4)), step(ones(4))

@pytest.mark.retrace(allow=["first-trace", "shape-changed"])
def test_allowed():
    step(ones(5)), step(ones(6))

@pytest.mark.retrace
class TestClass:
    @pytest.mark.parametrize("size", [7, 8])
    def test_each(self, size):
        again = jax.jit(lambda x: x + 1)
        again(ones(size)), again(ones(size))

    def test_lambdas(self):
        for _ in range(3):
            jax.jit(lambda x: x + 1)(ones(2))

def in_loop(test):
    @functools.wraps(test)
    def run():
        asyncio.run(test())
    return run

@in_loop
@pytest.mark.retrace(max_traces=0, functions="step")
async def test_coroutine():
    await asyncio.sleep(0)
    step(ones(9))

@pytest.mark.retrace(max_trace=1)
def test_misspelt():
    pass

@pytest.mark.retrace(max_traces=1, functions="stpe")
def test_unmatched():
    pass

def test_unmarked():
    step(ones(10)), step(ones(11))

def test_recording(retrace_recording):
    step(ones(12))
    assert [miss.function.name for miss in retrace_recording.misses] == ["step"]
"""


@pytest.mark.parametrize("in_ci", [False, True], ids=["by hand", "in CI"])
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "workers"])
def test_a_guarded_suite(
    options: tuple[str, ...], in_ci: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The variables by which pytest recognises CI, where its summary has full messages.
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.delenv("CI", raising=False)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    if options:
        pytest.importorskip("xdist")
    listed = ("--strict-markers", "--retrace-top=3", "-rA", "--junitxml=junit.xml")
    done = run(tmp_path, *listed, *options, source=GUARDED)
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    failed = {
        line.split("::", 1)[1].split(" ")[0] for line in said.splitlines() if "FAILED t" in line
    }
    assert failed == {
        "test_too_often",
        "TestClass::test_lambdas",
        "test_coroutine",
        "test_misspelt",
        "test_unmatched",
    }, said
    assert "step was traced twice" in said
    assert "entries are hidden" not in said
    line = 1 + (tmp_path / "test_it.py").read_text().split("\n").index("def test_too_often():")
    assert said.count(f"\ntest_it.py:{line - 1}: test_too_often\n") == 1
    assert said.count(f"\ntest_it.py:{line + 1}: missed here: step\n") == 1
    assert "- retrace -" in said and "float32[2] -> float32[3]" in said
    assert "did you mean max_traces" in said and "stpe" in said
    assert "pytest_plugin.py" not in said and "watch.py" not in said
    assert "retrace: slowest misses" in said and " more, " in said
    told = {
        case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
        for case in ET.parse(tmp_path / "junit.xml").iter("testcase")
    }
    assert told["test_too_often"]["retrace.misses"] == "2"
    assert told["test_misspelt"] == {"retrace.misses": "0", "retrace.seconds": "0.000"}
    assert len(told) == 11 and all("retrace.seconds" in row for row in told.values())


ALONE = """
import jax, numpy, pytest

def stepping(rate):
    def step(x):
        return jax.numpy.sin(x) * rate
    jax.jit(step)(numpy.ones((8, 8), "float32"))

@pytest.mark.parametrize("rate", [0.25, 0.5, 0.75])
def test_rates(rate):
    stepping(rate)

def test_once_more():
    stepping(0.25)
"""


def test_tests_that_compile_one_program_are_named_and_what_differs_in_others(
    tmp_path: Path,
) -> None:
    pytest.importorskip("xdist")
    # Even if it would save little here.
    worth = "from retrace.present import again\nagain._MIN_SECONDS = 0.0\n"
    (tmp_path / "conftest.py").write_text(worth)
    done = run(tmp_path, "--retrace", "-n", "2", source=ALONE)
    _, _, said = " ".join(done.stdout.split()).partition("retrace: slowest misses")
    _, _, said = said.partition("compiled more than once")
    assert "::test_rates[0.25]" in said and "::test_once_more" in said, done.stdout
    assert "differ only in `rate` (0.25, 0.5, 0.75)" in said, done.stdout


def test_a_run_that_does_not_use_it_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_plain():\n"
        "    assert 'retrace.pytest_plugin' in sys.modules\n"
        "    heavy = {'jax', 'numpy', 'deepdiff', 'typer', 'retrace.model'}\n"
        "    heavy.add('retrace.inside.live')\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    done = run(tmp_path, "--strict-markers", "-p", "no:hypothesispytest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "retrace:" not in done.stdout


def test_the_whole_run_is_recorded(tmp_path: Path) -> None:
    source = "def test_it():\n    step(ones(2))\n"
    done = run(tmp_path, "--retrace-dir", "recorded", source=source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [miss.function.name for miss in read([tmp_path / "recorded"]).misses] == ["step"]
    # A second run adds another attempt.
    again = run(tmp_path, "--retrace-dir", "recorded")
    assert again.returncode == 0, again.stdout + again.stderr
    assert [run.attempt for run in read([tmp_path / "recorded"]).runs] == [2]


def test_the_example_passes(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "test_guarded.py"
    (tmp_path / "test_guarded.py").write_text(example.read_text())
    done = run(tmp_path, "--strict-markers")
    assert done.returncode == 0, done.stdout + done.stderr


MARKED = """
def test_before_warms(ones_of=ones):
    step(ones(2)), step(ones(3))

@pytest.mark.retrace(max_traces=1, functions=["step"])
def test_by_name():
    step(ones(2)), step(ones(3))

@pytest.mark.retrace(max_traces=1, functions=[step])
def test_by_object():
    step(ones(2)), step(ones(3))

@pytest.mark.retrace(allow=["first-trace"], functions=["st*"])
def test_first_traces_are_first():
    step(ones(4))

@pytest.mark.retrace(functions=["step"])
def test_first_again():
    step(ones(5))

@pytest.fixture
def warmed():
    step(ones(6))

@pytest.mark.retrace(max_traces=0, functions=["step"])
def test_what_fixtures_trace_is_theirs(warmed):
    step(ones(6))

@pytest.mark.retrace
def test_bare_one():
    step(ones(7))

@pytest.mark.retrace
def test_bare_two():
    step(ones(8))

def never(x):
    return x

@pytest.mark.retrace(max_traces=1, functions=["never", "step"])
def test_never_jitted():
    step(ones(2)), step(ones(9))

def body(carry, x):
    return carry + x, x

@pytest.mark.retrace(max_traces=1, functions=[body])
def test_body_of_a_loop():
    for n in (2, 3):
        jax.lax.scan(body, 0.0, ones(n))
"""
FAILING = {"by_name", "by_object", "never_jitted", "body_of_a_loop"}
# As pytest-rerunfailures does: setup, call and teardown repeated within one protocol.
RERUN = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(2):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True

def pytest_collection_modifyitems(items):
    ORDER
"""


def failed_in(said: str) -> set[str]:
    """The tests of `MARKED` that finally failed, by name without the prefix."""
    summary = [line for line in said.splitlines() if line.startswith("FAILED t")]
    return {line.split("::test_", 1)[1].split(" ")[0] for line in summary}


@pytest.mark.parametrize("order", ["pass", "items.reverse()"])
def test_marked_tests_begin_cold_in_each_rerun_and_order(order: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RERUN.replace("ORDER", order))
    done = run(tmp_path, "-rA", source=MARKED)
    said = done.stdout
    assert failed_in(said) == FAILING, said + done.stderr
    assert "never" in said and "nothing is guarded" in said
    # Other guarded functions are reported, too.
    assert "float32[2] -> float32[9]" in said


PLUGINS = os.environ.get("RETRACE_TEST_PLUGINS", "")


@pytest.mark.skipif(not PLUGINS, reason="RETRACE_TEST_PLUGINS names no folder of pytest plugins")
def test_with_pytest_randomly_xdist_and_rerunfailures(tmp_path: Path) -> None:
    # tests/matrix.py installs them separately: pytest-randomly shuffles every run that finds it.
    orders: set[tuple[str, ...]] = set()
    for seed, reruns, workers in ((1, 0, 0), (2, 2, 0), (3, 1, 2)):
        options = ("-v", "-rA", f"--randomly-seed={seed}", f"--reruns={reruns}", f"-n{workers}")
        done = run(tmp_path, *options, source=MARKED, path=PLUGINS)
        said = done.stdout
        assert f"random seed: {seed}" in said or f"--randomly-seed={seed}" in said, said
        assert failed_in(said) == FAILING, said + done.stderr
        assert reruns == 0 or f"{len(FAILING) * reruns} rerun" in said, said
        orders.add(tuple(line.split(" ")[0] for line in said.splitlines() if " [" in line))
    assert len(orders) == 3


COLD = """
@pytest.mark.retrace(max_traces=1, functions=["step"])
@pytest.mark.parametrize("number", range(2))
def test_alone(number):
    step(ones(2))
"""
CLEARED = """
def test_last():
    jax.clear_caches()
    step(ones(2))
"""


def test_a_budget_does_not_count_what_markers_made_cold(tmp_path: Path) -> None:
    done = run(tmp_path, "--retrace-dir", "out", source=COLD)
    assert done.returncode == 0, done.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.retrace.budgets."step"]\ntraces = 1\n')
    checked = retrace("check", "out", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    report = json.loads(retrace("report", "out", "--format", "json", cwd=tmp_path).stdout)
    first, again = [miss for miss in report["misses"] if miss["function"]["name"] == "step"]
    assert (first["cause"], again["cause"]) == ("first-trace", "cache-cleared")
    assert (again["avoidable"], again["fix"]) == ("no", None)
    # Caches that the program itself clears afterwards count.
    done = run(tmp_path, "--retrace-dir", "cleared", source=COLD + CLEARED)
    assert done.returncode == 0, done.stdout
    assert retrace("check", "cleared", cwd=tmp_path).returncode == 1

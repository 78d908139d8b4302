"""`retrace run --slow` and `retrace slow` as commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from retrace.costs.account import account
from retrace.jax_internals import names_slow
from retrace.present import markdown, page, report_json, slow, slow_json, terminal
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.rebuilt.script import timed
from retrace.store.reader import read
from tests.process import retrace
from tests.reading.test_present_schema import SLOW, VALIDATOR

pytestmark = pytest.mark.drawn

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, time
table = np.ones((700, 500), np.float32)

def load():
    time.sleep(0.4)

def step(x):
    load()
    for i in range(60):
        x = jnp.sin(x) * 2 + jnp.cumsum(x)
    return x.sum() + (table * x[0]).sum()

jax.jit(step)(np.ones(16, np.float32))
jax.jit(lambda x: x + 1)(np.ones(3))
"""


def read_view(directory: Path) -> View:
    recording = read([directory])
    return View(recording, judge(recording))


def test_where_the_seconds_went(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    run = retrace(*("run", "-q", "--slow-over", "0.3", "--out", "out", "train.py"), cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")

    told = retrace("slow", "step #1", "out", "--format", "json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    slow_schema: Any = Draft202012Validator(SLOW)
    slow_schema.validate(found)
    program = str(tmp_path / "train.py")
    first = found["trace"][0]
    assert (first["file"], first["line"], first["function"]) == (program, 6, "load")
    assert first["under"] == {"file": program, "line": 9}
    assert first["seconds"] >= 0.2
    assert found["constants"][0]["bytes"] == 700 * 500 * 4
    assert found["constants"][0]["line"] == 12
    assert found["memory"]["arguments"] == 64
    assert found["unrolled"][0]["times"] == 60
    assert {"scan", "argument", "python"} <= {one["code"] for one in found["advice"]}
    lines = {kernel["line"] for kernel in found["compile"]["lines"]}
    assert lines and lines <= {11, 12}

    text = retrace("slow", "out", cwd=tmp_path)
    assert text.returncode == 0, text.stderr
    assert all(len(line) <= 80 for line in text.stdout.splitlines())
    for said in ("step #1", "train.py:6", "train.py:12", "1.4 MB", "`jax.lax.scan`"):
        assert said in text.stdout

    view = read_view(tmp_path / "out")
    step = slow.accounts(view)[0]
    assert step.memory is not None
    for code, is_told in ((16, False), (50_000, True)):  # of each program for a GPU, XLA says 16
        told_of = step._replace(memory=step.memory._replace(code=code))
        assert (", code " in "\n".join(slow.whole(view, told_of))) is is_told
    report = json.loads(report_json.encode(report_json.report(view)))
    VALIDATOR.validate(report)
    # On a busy machine the small one may take as long.
    assert report["slow"][0]["label"] == "step #1"
    redacted = ("report", tmp_path / "out", "--redact", "--format", "json")
    hidden = retrace(*redacted, cwd=Path("/")).stdout
    assert program not in hidden and json.loads(hidden)["slow"][0]["trace"]
    assert "train.py:6" in terminal.report(view)
    assert "train.py:6" in markdown.report(view)
    assert "train.py:6" in "".join(page.report(view, Tally.of(view), [view.verdicts]))


def test_a_recorded_program_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("range(60)", "range(3)"))
    run = retrace(*("run", "-q", "--slow-over", "0.05", "--out", "out", "train.py"), cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")

    asked = ("--bisect", "--try", "xla_backend_optimization_level=0", "--reproducer", "alone.py")
    told = retrace("slow", "step #1", "out", *asked, "--format", "json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    slow_schema: Any = Draft202012Validator(SLOW)
    slow_schema.validate(found)
    flags = [one["flags"] for one in found["tried"]]
    assert flags == [None, "--xla_backend_optimization_level=0"]
    assert all(one["seconds"] and min(one["seconds"]) > 0 for one in found["tried"])
    assert 0 < found["part"]["operations"] <= found["part"]["whole"]["operations"]
    assert {line["file"] for line in found["part"]["lines"]} == {str(tmp_path / "train.py")}
    assert found["reproducer"]["file"] == "alone.py"

    # Only JAX is needed: neither retrace nor the program is importable.
    (tmp_path / "elsewhere").mkdir()
    script = (tmp_path / "alone.py").rename(tmp_path / "elsewhere" / "alone.py")
    assert "train.py" not in script.read_text() and "import retrace" not in script.read_text()
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert timed(alone.stdout) is not None

    unknown = retrace("slow", "step #1", "out", "--try", "xla_bogus=1", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.count("\n") == 1 and "xla_bogus" in unknown.stderr

    (tmp_path / "mine.py").write_text("print('mine')\n")
    mine = retrace("slow", "step #1", "out", "--reproducer", "mine.py", cwd=tmp_path)
    assert mine.returncode == 2 and (tmp_path / "mine.py").read_text() == "print('mine')\n"


def test_a_program_that_profiled_itself_is_profiled_afterwards(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        PROGRAM.replace("range(60)", "range(3)")
        .replace("jax.jit(step)", "jax.profiler.start_trace('log')\njax.jit(step)")
        .replace("jax.jit(lambda", "jax.profiler.stop_trace()\njax.jit(lambda")
    )
    run = retrace(*("run", "-q", "--slow-over", "0.05", "--out", "out", "train.py"), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert list((tmp_path / "log").rglob("*.xplane.pb"))
    asked = ("slow", "step #1", "out", "--format", "json")
    seen = json.loads(retrace(*asked, cwd=tmp_path).stdout)
    assert seen["compile"]["passes"] == [] and seen["again"] is None
    told = retrace(*asked, "--again", cwd=tmp_path)
    if not names_slow.SESSION.expected:
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
        return
    assert seen["compile"]["unprofiled"] == "program"
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    slow_schema: Any = Draft202012Validator(SLOW)
    slow_schema.validate(found)
    assert found["compile"]["unprofiled"] is None and found["again"]["seconds"] > 0
    assert {"pass", "code", "other"} == {one["kind"] for one in found["compile"]["passes"]}
    lines = {one["line"] for one in found["compile"]["lines"] if one["seconds"]}
    assert lines and lines <= {11, 12}
    spent = sum(one["seconds"] for one in found["compile"]["passes"])
    assert 0.5 * found["again"]["seconds"] < spent <= 1.05 * found["again"]["seconds"]
    text = retrace("slow", "step #1", "out", "--again", cwd=tmp_path).stdout
    assert "code generation" in text and "compiled alone" in text


def test_a_recording_made_without_slow_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    assert retrace("run", "-q", "--out", "out", "train.py", cwd=tmp_path).returncode == 0
    told = retrace("slow", "step #1", "out", "--reproducer", "alone.py", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert "--slow" in told.stderr and told.stderr.count("\n") == 1
    assert not (tmp_path / "alone.py").exists()
    view = read_view(tmp_path / "out")
    slowest = max(view.recording.misses, key=lambda miss: miss.seconds)
    found = slow_json.data(view, account(slowest, view.recording))
    assert (found["observed"], found["trace"], found["memory"]) == (False, [], None)
    assert found["constants"] and found["unrolled"]
    assert "--slow" in "\n".join(slow.whole(view, account(slowest, view.recording)))
    assert report_json.report(view)["slow"] == []


def test_a_miss_that_was_not_slow_enough_suggests_options(tmp_path: Path) -> None:
    quick = "def quick(x):\n    return x.sum()\n\njax.jit(quick)(np.ones(3))"
    (tmp_path / "train.py").write_text(PROGRAM.replace("range(60)", "range(8)") + quick)
    run = retrace(*("run", "-q", "--slow-over", "900", "--out", "out", "train.py"), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    for which in ("step #1", "quick #1"):
        told = " ".join(retrace("slow", which, "out", cwd=tmp_path).stdout.split())
        assert "smaller `--slow-over`" in told
    told = retrace("slow", "quick #1", "out", "--reproducer", "alone.py", cwd=tmp_path)
    assert told.returncode == 2 and "--slow-over below 900" in told.stderr
    # Also where nothing at all was observed of any miss of the process.
    (tmp_path / "train.py").write_text(f"import jax, numpy as np\n{quick}")
    run = retrace(*("run", "-q", "--slow-over", "900", "--out", "one", "train.py"), cwd=tmp_path)
    assert read([tmp_path / "one"]).runs[0].slow_from == 900
    assert "smaller `--slow-over`" in retrace("slow", "one", cwd=tmp_path).stdout


def test_impossible_requests_are_reported(tmp_path: Path) -> None:
    for arguments in (
        ["run", "--slow-over", "-1", "x.py"],
        ["slow", "nothing #1", str(tmp_path)],
    ):
        told = retrace(*arguments, cwd=tmp_path)
        assert told.returncode == 2
        assert told.stderr.startswith("retrace: ")
        assert "Traceback" not in told.stderr


KEPT = """
import jax, jax.numpy as jnp, numpy as np
table = np.random.rand(300, 1000).astype(np.float32)

def step(x):
    for i in range(12):
        x = jnp.sin(x) * 2 + jnp.cumsum(x)
    return x.sum() + (table * x[0]).sum()

kept = [jax.jit(lambda x: step(x)) for _ in range(4)]
for each in kept:
    each(np.ones(16, np.float32))
twice = [jax.jit(lambda x: x * 2) for _ in range(2)]
for each in twice:
    each(np.ones(16, np.float32))
"""


def test_programs_compiled_several_times_are_reported_however_fast(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(KEPT)
    asked = ("run", "-q", "--force", "--out", "out")
    recorded = retrace(*asked, "--slow-over", "600", "train.py", cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    view = read_view(tmp_path / "out")
    report = json.loads(report_json.encode(report_json.report(view)))
    VALIDATOR.validate(report)
    assert report["slow"] == []
    (found,) = report["duplicates"]
    assert (found["label"], len(found["misses"])) == ("<lambda> #1 (train.py:10)", 4)
    # Each executable has the array; a CPU does not report its code size.
    assert found["constants"] == 4 * 300 * 1000 * 4
    assert found["equations"] >= 36 and not found["differ"]
    assert 0 < found["seconds"] < sum(miss.seconds for miss in view.recording.misses)
    said = " ".join("\n".join(slow.section(view)).split())
    assert "(train.py:10) compiled 4 times" in said
    assert "4 executables hold 4.8 MB" in said
    chosen = json.loads(retrace("slow", "out", "--format", "json", cwd=tmp_path).stdout)
    assert chosen["copies"]["constants"] == found["constants"]

    assert retrace(*asked, "train.py", cwd=tmp_path).returncode == 0
    view = read_view(tmp_path / "out")
    assert report_json.report(view)["duplicates"] == [] and not list(slow.section(view))

"""Logs of real runs, imported: every compilation is found, and no cause is wrong.

What is right stands beside each log: what a recording of the same process says (`make.py`).
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from retrace.causes import Cause
from retrace.command import cli
from retrace.errors import RetraceError, UnreadableError
from retrace.logs import observed
from retrace.logs.avals import leaves_of
from retrace.logs.importing import Importer
from retrace.model import Recording, Stage, Verdict
from retrace.reason.verdict import judge
from retrace.store.reader import read

HERE = Path(__file__).parent
LOGS = sorted(
    HERE.glob("*.log.gz"), key=lambda log: [int(n) for n in re.findall(r"\d+", log.name)]
)
EXPLAINED = ("first-trace", "eager-op", "shape-changed", "dtype-changed", "weak-type-changed")


def expected(log: Path) -> list[list[Any]]:
    return json.loads(Path(str(log).removesuffix(".log.gz") + ".json").read_text())["misses"]


def text_of(log: Path) -> str:
    return gzip.decompress(log.read_bytes()).decode()


def imported(path: Path, to: Path) -> list[Verdict]:
    return judge(recording(path, to))


def recording(path: Path, to: Path) -> Recording:
    to.mkdir(exist_ok=True)
    Importer(to).take(path)
    return read([to])


def compilations(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if Stage.COMPILE in verdict.miss.stages]


def told(verdicts: list[Verdict]) -> list[tuple[object, ...]]:
    """The results that must not depend on how the lines were collected."""
    return [
        (v.miss.function.name, v.cause, v.miss.key.leaves, sorted(v.miss.stages.items()))
        for v in verdicts
    ]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_every_compilation_is_found_and_no_cause_is_wrong(log: Path, tmp_path: Path) -> None:
    verdicts = imported(log, tmp_path / "rec")
    right = [row for row in expected(log) if row[4] is not None]
    before = {row[1] for row in expected(log) if row[3] == ["trace"]}
    # JAX logs the same seconds that its listeners get, up to some microseconds.
    found = sorted(compilations(verdicts), key=lambda v: v.miss.stages[Stage.COMPILE])
    assert len(found) == len(right) > 20
    known = 0
    for verdict, row in zip(found, sorted(right, key=lambda row: row[4]), strict=True):
        assert abs(verdict.miss.stages[Stage.COMPILE] - row[4]) < 0.005
        assert verdict.cause in (row[2], "unknown"), (verdict.miss.function, row)
        # After `eval_shape` the call finds its trace, which looks the same in the log.
        if not verdict.miss.said:  # otherwise JAX's own words show that it was traced
            assert Stage.TRACE not in verdict.miss.stages or "trace" in row[3] or row[1] in before
        known += verdict.cause != "unknown"
    assert known >= len(right) / 3
    assert all(verdict.cause in (*EXPLAINED, "unknown") for verdict in verdicts)


@pytest.mark.parametrize("log", LOGS[:1] + LOGS[-1:], ids=lambda log: log.name)
def test_jaxs_words_are_kept(log: Path, tmp_path: Path) -> None:
    verdicts = imported(log, tmp_path / "rec")
    said = [text for v in verdicts for who, text in v.miss.said if who == "jax"]
    assert sum("never seen function" in text for text in said) > 5
    assert any("different input types" in text for text in said)
    unknown = [v for v in verdicts if v.cause == "unknown"]
    assert unknown and all(v.miss.unseen for v in unknown)
    assert all(v.fix is None and v.avoidable == "maybe" for v in unknown)


def test_new_explanations_give_no_cause_if_a_static_argument_may_be_hidden(
    tmp_path: Path,
) -> None:
    causes: dict[str, list[str]] = {}
    for log in LOGS:
        version = log.name.removeprefix("jax-").removesuffix(".log.gz")
        found = imported(log, tmp_path / version)
        causes[version] = [v.cause for v in found if v.miss.function.name == "step"]
        # `head` was called with a different shape and static argument at once.
        head = [v.cause for v in found if v.miss.function.name == "head"]
        assert "shape-changed" not in head[:3], version
    assert "shape-changed" in causes["0.6.0"]
    assert "shape-changed" in causes["0.9.2"]
    assert "shape-changed" not in causes["0.12.0.1"]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_disk_cache(log: Path, tmp_path: Path) -> None:
    found = [v.miss for v in imported(log, tmp_path / "rec") if v.miss.persistent_cache]
    right = [row for row in expected(log) if row[5] is not None]
    assert len(found) == len(right)
    kept = {m.function.name: m.persistent_cache for m in found}
    cache = kept["shown"]
    assert cache is not None
    # Up to 0.10, a program with callbacks is not stored.
    assert (cache.outcome, cache.reason) in {("not-stored", "host-callback"), ("miss", None)}
    assert cache.outcome == next(row[5] for row in right if row[1] == "shown")


def kubernetes(line: str) -> str:
    return f"[pod/train-0/main] {line}"


def slurm(line: str) -> str:
    return f"3: {line}"


def cri(line: str) -> str:
    at = "2026-11-22T10:00:00.123456789Z stderr"
    # Long lines are split.
    pieces = [line[i : i + 100] for i in range(0, len(line), 100)] or [""]
    return "\n".join([*(f"{at} P {one}" for one in pieces[:-1]), f"{at} F {pieces[-1]}"])


def docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-22T10:00:00Z"})


def absl(line: str) -> str:
    found = OWN.match(line)
    if found is None:
        return line
    clock = found[2].replace(",", ".") + "000"
    return f"W1122 {clock} 140036918583168 dispatch.py:205] {line[found.end() :]}"


def python_logging(line: str) -> str:
    found = OWN.match(line)
    if found is None:
        return line
    return f"{found[1]} {found[2]} [MainThread] WARNING jax - {line[found.end() :]}"


OWN = re.compile(r"WARNING:(\S+) ([\d:,]+):[\w.]+:\d+: ")
GATHERED = (kubernetes, slurm, cri, docker, absl, python_logging)


@pytest.mark.parametrize("gathered", GATHERED)
def test_prefixes(gathered: Callable[[str], str], tmp_path: Path) -> None:
    for log in (LOGS[0], LOGS[-1]):
        lines = text_of(log).splitlines()
        (tmp_path / "log").write_text("\n".join(map(gathered, lines)))
        plain = imported(log, tmp_path / f"a{log.name}")
        found = recording(tmp_path / "log", tmp_path / f"b{log.name}")
        assert len(found.runs) == 1
        assert [row[:3] for row in told(judge(found))] == [row[:3] for row in told(plain)]
        if gathered is slurm:
            assert found.runs[0].process_index == 3


def finished(name: str, number: int, at: int, where: str = "") -> str:
    """The lines of one compilation, from one thread or process."""
    before = f"W1122 10:00:{at:02}.000000 {number} dispatch.py:205] "
    words = f"  never seen function:\n    {name} id=7 defined at {where}"
    lines = [
        f"Finished tracing {name} for jit in 0.001 sec",
        (
            f"Compiling jit({name}) with global shapes and types (ShapedArray(float32[3]),). "
            "Argument mapping: (UnspecifiedValue,)."
        ),
        f"Finished jaxpr to MLIR module conversion jit({name}) in 0.001 sec",
        f"Finished XLA compilation of jit({name}) in 0.5 sec",
    ]
    head = [f"TRACING CACHE MISS at a.py:1:2 (main):\n{words}"] if where else []
    return "".join(f"{before}{line}\n" for line in [*head, *lines])


def test_a_thread_is_no_process(tmp_path: Path) -> None:
    for one, two, processes in ((140036918583168, 140036918583999, 1), (4711, 4712, 2)):
        path = tmp_path / str(one)
        path.write_text(finished("step", one, 1) + finished("step", two, 2))
        found = recording(path, tmp_path / f"rec{one}")
        assert len(found.runs) == processes
        firsts = [v.cause for v in judge(found)].count(Cause.FIRST_TRACE)
        assert firsts == processes


def test_cells_of_a_notebook_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    places = ("<ipython-input-1-ab>:1", "<ipython-input-2-cd>:1", "/tmp/ipykernel_7/99.py:3")
    path.write_text("".join(finished("f", 7, i, where) for i, where in enumerate(places)))
    found = imported(path, tmp_path / "rec")
    assert [v.cause for v in found] == ["first-trace", "unknown", "unknown"]


def test_processes_mixed_line_by_line(tmp_path: Path) -> None:
    first, second = (text_of(log).splitlines() for log in (LOGS[-1], LOGS[0]))
    draw = random.Random(7)
    mixed: list[str] = []
    queues = [[f"0: {line}" for line in first], [f"1: {line}" for line in second]]
    noise = ["loss 0.1", "2: ready", "  2: not of an explanation"]
    while any(queues):
        queue = draw.choice([queue for queue in queues if queue])
        mixed.append(queue.pop(0))
        if draw.random() < 0.3:
            mixed.append(draw.choice(noise))
    (tmp_path / "log").write_text("\n".join(mixed))
    found = recording(tmp_path / "log", tmp_path / "rec")
    assert sorted(run.process_index or 0 for run in found.runs) == [0, 1]
    for index, log in ((0, LOGS[-1]), (1, LOGS[0])):
        alone = imported(log, tmp_path / f"alone{index}")
        run = next(run.id for run in found.runs if run.process_index == index)
        own = [v for v in judge(found) if v.miss.run == run]
        assert told(own) == told(alone)


def test_torn_logs_lose_and_do_not_invent(tmp_path: Path) -> None:
    draw = random.Random(3)
    for log in (LOGS[0], LOGS[-1]):
        whole = text_of(log)
        compiled = whole.count("Finished XLA compilation of")
        for number in range(12):
            a, b = sorted(draw.sample(range(len(whole)), 2))
            text = whole[:a] if number % 2 else whole[:a] + whole[b:]
            path = tmp_path / "log"
            path.write_text(text)
            to = tmp_path / f"{log.name}{number}"
            try:
                found = imported(path, to)
            except UnreadableError:
                assert "Finished" not in text
                continue
            lines = text.count("Finished XLA compilation of")
            assert lines - 1 <= len(compilations(found)) <= lines <= compiled


NOISE = (
    "loss 0.1",
    "  two words",
    "100%|####| 10/10 [00:01<00:00]\r",
    "",
    "    at x, now f32[3] and before f32[4]",
)


def torn(lines: list[str], kind: str, draw: random.Random) -> str:
    """A log written by several processes without a lock, or with lost line ends."""
    count = max(1, int(len(lines) * draw.choice((0.01, 0.03, 0.1))))
    hit = set(draw.sample(range(len(lines) - 1), count))
    found: list[str] = []
    skipped = False
    for at, line in enumerate(lines):
        if skipped or at not in hit:
            if not skipped:
                found.append(line)
            skipped = False
            continue
        cut = draw.randrange(len(line) + 1)
        if kind == "two halves":
            found += [line[:cut], draw.choice(NOISE), line[cut:]]
        elif kind == "an end lost":
            found.append(line[:cut])
        elif kind == "no line break":
            found.append(line + lines[at + 1])
        else:
            found += [line[:cut] + lines[at + 1], line[cut:]]
        skipped = kind in ("no line break", "one inside another")
    return "\n".join(found)


@pytest.mark.parametrize(
    "kind", ["two halves", "an end lost", "no line break", "one inside another"]
)
def test_torn_lines_leave_causes_unknown(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    number = wrong = known = losses = 0
    for log in LOGS:
        right = {row[4]: row[2] for row in expected(log) if row[4] is not None}
        whole = imported(log, tmp_path / log.name)
        causes = {v.miss.stages[Stage.COMPILE]: v.cause for v in compilations(whole)}
        for again in range(6):
            path = tmp_path / "log"
            path.write_text(torn(text_of(log).splitlines(), kind, draw))
            found = recording(path, tmp_path / f"{log.name}{again}")
            losses += sum(bool(run.losses) for run in found.runs)
            for verdict in compilations(judge(found)):
                seconds = verdict.miss.stages[Stage.COMPILE]
                if seconds in causes:  # its own number may be torn
                    true = right[min(right, key=lambda at: abs(at - seconds))]
                    number += 1
                    wrong += verdict.cause not in (true, "unknown", causes[seconds])
                    known += verdict.cause != "unknown"
    # A line lost without a trace raises no doubt: 1 in 1,000.
    assert wrong * 200 < number
    assert known * 8 > number
    assert losses > 15  # some cuts are at the end of a line


def test_a_number_printed_by_a_program_is_not_a_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = finished("step", 4711, 1).replace("W1122 10:00:01.000000 4711 dispatch.py:205] ", "")
    path.write_text(
        text + "".join(f"step 10{n}0 {line}\n" for n, line in enumerate(text.splitlines()))
    )
    assert len(recording(path, tmp_path / "rec").runs) == 1


def test_a_log_imported_again_is_a_separate_recording(tmp_path: Path) -> None:
    to = tmp_path / "rec"
    once = recording(LOGS[-1], to)
    again = recording(LOGS[-1], to)
    assert len(again.runs) == 2 and len(again.misses) == 2 * len(once.misses) > 0
    assert [run.losses for run in again.runs] == [once.runs[0].losses] * 2


def test_an_explanation_that_is_torn_before_anything_else_leaves_a_doubt(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_text(
        "TRACING CACHE MISS at a.py:1:2 (main):  nev\n" + finished("step", 4711, 1, "a.py:9")
    )
    found = recording(path, tmp_path / "rec")
    assert found.runs[0].losses == {observed.TORN_LINE: 1}
    assert [v.cause for v in judge(found)] == ["unknown"]


def test_lines_about_unknown_programs_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "Persistent compilation cache hit for 'jit_f' with key 'jit_f-0123'\n"
        "Finished jaxpr to MLIR module conversion jit(g) in 0.25 sec\n"
        "Finished XLA compilation of jit(h) in 0.5 sec\n"
    )
    found = recording(path, tmp_path / "rec")
    assert [(miss.function.name, miss.stages) for miss in found.misses] == [
        ("h", {"compile": 0.5})
    ]
    counted = found.runs[0].losses
    assert (counted[observed.DISK_CACHE_ALONE], counted[observed.LOWERING_ALONE]) == (1, 1)


def test_a_compressed_log_without_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(LOGS[-1].read_bytes()[:-500])
    monkeypatch.chdir(tmp_path)
    assert run("import", "log.gz") == 0
    assert "log.gz" in capsys.readouterr().err
    found = recording(path, tmp_path / "rec")
    assert found.misses and observed.CUT_SHORT in found.runs[0].losses


def test_a_line_that_is_too_long_is_reported_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 5_000_000 + "\n" + finished("step", 4711, 1))
    (run,) = recording(path, tmp_path / "rec").runs
    assert run.losses == {observed.LONG_LINE: 1}


def test_arguments_of_programs() -> None:
    text = (
        "(ShapedArray(float32[8@x,4]), ShapedArray(key<fry>[]), "
        "ShapedArray(int32[], weak_type=True), ShapedArray(bfloat16<host>[2]))"
    )
    mapping = (
        "(UnspecifiedValue, UnspecifiedValue, NamedSharding(mesh=M('x': 1), spec=P('x',)), GSPMD)"
    )
    leaves = leaves_of(text, mapping)
    assert leaves is not None
    assert [leaf.shape for leaf in leaves] == [(8, 4), (), (), (2,)]
    assert [leaf.dtype for leaf in leaves] == ["float32", "key<fry>", "int32", "bfloat16"]
    assert [leaf.weak_type for leaf in leaves] == [False, False, True, False]
    assert leaves[2].sharding == "NamedSharding(mesh=M('x': 1), spec=P('x',))"
    assert leaves[3].memory_kind == "host"
    assert leaves_of("(ShapedArray(float32[3]), Nonsense(4))", "") is None


def run(*arguments: str | Path) -> int:
    """The command, in this process."""
    before = sys.argv
    sys.argv = ["retrace", *map(str, arguments)]
    try:
        return _exit_code()
    finally:
        sys.argv = before


def _exit_code() -> int:
    with pytest.raises(SystemExit) as ended:
        _main()
    return int(ended.value.code or 0)


def _main() -> NoReturn:
    cli.main()


def test_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = {
        "empty": b"",
        "other": b"Finished downloading data\nepoch 1\n",
        "binary": bytes(range(256)) * 100,
        "torn.gz": LOGS[0].read_bytes()[:30],
        "long": b"x" * (10 << 20),
    }
    for name, data in bad.items():
        Path(name).write_bytes(data)
    for name in (*bad, "missing", "."):
        assert run("import", name) == 2, name
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("retrace: ") and said.err.count("\n") == 1, said.err
        assert not list(Path(".retrace").glob("2*")), name
    assert run("import") == 2
    assert "Finished downloading" in _error(capsys, "other")
    with Path("empty").open() as file:
        done = subprocess.run(
            [sys.executable, "-m", "retrace", "import", "-"],
            stdin=file,
            check=False,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("retrace: standard input "), done.stderr


def test_the_first_trace_of_a_function_is_not_a_retrace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # `_fun` is `pmap`'s name for its function: the log shows only this one trace.
    assert run("import", LOGS[-1], "--out", tmp_path / "rec") == 0
    capsys.readouterr()
    assert run("report", tmp_path / "rec", "--all") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "_fun traced (1st time" in said
    assert "reason is unknown" in said
    assert "traced again (1st time" not in said
    assert "perhaps avoidable) not in" in said
    assert "inside jax" not in said


def _error(capsys: pytest.CaptureFixture[str], name: str) -> str:
    capsys.readouterr()
    run("import", name)
    return capsys.readouterr().err


@pytest.mark.parametrize("log", LOGS[:1] + LOGS[-1:], ids=lambda log: log.name)
def test_all_commands_read_what_was_imported(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        assert run("import", log, "--out", name) == 0
    capsys.readouterr()
    for format_ in ("text", "markdown", "html", "github"):
        assert run("report", "a", "--format", format_) == 0
        assert "bug in retrace" not in capsys.readouterr().out.partition("<dl")[0]
    assert run("report", "a", "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [run["source"] for run in report["runs"]] == ["log"]
    assert any(miss["said"] for miss in report["misses"])
    unknown = [
        m["id"] for m in report["misses"] if m["cause"] == "unknown" and m["parent"] is None
    ]
    assert run("plan", "a", "--format", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    # No step promises to avoid a miss with an unknown cause.
    assert not {name for step in plan["steps"] for name in step["misses"]} & set(unknown)
    assert run("show", unknown[0], "a") == 0
    assert run("diff", "a", "b") == 0
    assert run("check", "a") in (0, 1, 2)
    assert run("programs", "a") == 2  # a log has no program texts


def test_redacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import", LOGS[0], "--out", tmp_path / "rec", "--redact") == 0
    text = "".join(path.read_text() for path in (tmp_path / "rec").glob("*.jsonl"))
    assert "never seen function" in text
    assert "/tmp/retrace-logs" not in text
    assert "now 3 and before 2" not in text
    capsys.readouterr()


def test_large_log_in_bounded_memory(tmp_path: Path) -> None:
    lines = text_of(LOGS[0])
    with gzip.open(tmp_path / "log.gz", "wt", compresslevel=1) as file:
        for _ in range(120):
            file.write(lines)
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from retrace.logs.importing import Importer\n"
        "Importer(Path(sys.argv[2])).take(Path(sys.argv[1]))\n"
        # Not `getrusage`, which includes the process before it ran Python.
        "print(re.search('VmHWM:\\\\s*(\\\\d+)', Path('/proc/self/status').read_text())[1])\n"
    )
    (tmp_path / "rec").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log.gz", tmp_path / "rec"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) < 100 << 10


def test_a_write_error_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    with pytest.raises((RetraceError, OSError)):
        Importer(missing).take(LOGS[0])

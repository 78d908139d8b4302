"""Recordings go in, tables come out, and queries of these give answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from retrace.command import exporting as command
from retrace.errors import UnreadableError, UsageError
from retrace.model import Stage
from retrace.present import report_json
from retrace.present.view import View
from retrace.reason.verdict import judge
from retrace.store.reader import read
from retrace.tables import exporting, rows, writing
from retrace.tables.columns import SCHEMA, TABLES
from tests.hostile import commands as damaged
from tests.hostile.mutations import mutate
from tests.process import retrace
from tests.reading.story import NASTY, STARTED, TRAIN_STEP, hostile, killed, training, write
from tests.tables.__main__ import DOCS, written

QUERIES = sorted((DOCS.parent / "tables").glob("*.sql"))
ask: Any = import_module("duckdb")
arrow: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")


def table(target: Path, name: str) -> list[dict[str, Any]]:
    found: Any = ask.sql(f"from '{target}/{name}/*.parquet'")
    return found.to_arrow_table().to_pylist()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four processes, from two commits and two hosts, one of them killed."""
    folder = tmp_path_factory.mktemp("runs")
    for index, (host, commit) in enumerate(
        (("turing", "a1b2c3"), ("lovelace", "a1b2c3"), ("turing", "d4e5f6"))
    ):
        fields: dict[str, Any] = {"host": host, "commit": commit, "job": "train"}
        story = training(run=f"run{index}", started=STARTED + 1000 * index, **fields)
        if commit == "d4e5f6":
            (new,) = [miss for miss in story.misses if miss.function is TRAIN_STEP][:1]
            story.misses.append(
                replace(
                    new,
                    id=f"run{index}-{len(story.misses)}",
                    number=len(story.misses),
                    function=TRAIN_STEP._replace(name="evaluate", site="evaluate"),
                    stages={Stage.COMPILE: 7.0},
                )
            )
        write(story, folder / f"of-{host}")
    write(replace_run(killed(), attempt=2), folder / "of-turing")
    return folder


def replace_run(story: Any, **fields: Any) -> Any:
    story.run = replace(story.run, **fields)
    return story


@pytest.fixture(scope="module")
def target(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("exported") / "tables"
    assert command.export([runs], target, jobs=1) == 0
    return target


def test_the_tables_hold_what_the_report_says(runs: Path, target: Path) -> None:
    recording = read([runs], attempt=0)
    report = report_json.report(View(recording, judge(recording)))
    by_id = {row["miss"]: row for row in table(target, "misses")}
    assert set(by_id) == {miss["id"] for miss in report["misses"]}
    for miss in report["misses"]:
        row = by_id[miss["id"]]
        assert {stage: row[stage] for stage in miss["stages"]} == miss["stages"]
        assert row["file"] == miss["function"]["file"]
        same = ("run", "thread", "parent", "inner", "in_flight", "raised", "cause", "avoidable")
        assert {name: row[name] for name in same} == {name: miss[name] for name in same}
        assert row["nearest"] == miss["nearest"]
        assert row["program"] == miss["program"]["hash"]
        assert row["time"].isoformat().replace("+00:00", "Z") == miss["time"]
    changes = Counter(row["miss"] for row in table(target, "changes"))
    assert changes == {m["id"]: len(m["changes"]) for m in report["misses"] if m["changes"]}
    seconds = {cause: row["seconds"] for cause, row in report["summary"]["by_cause"].items()}
    found: dict[str, float] = {}
    for row in by_id.values():
        found[row["cause"]] = found.get(row["cause"], 0.0) + row["own"]
    assert found == pytest.approx(seconds)
    known = {row["run"]: row for row in table(target, "runs")}
    assert sum(row["misses"] for row in known.values()) == len(by_id)
    assert dict(known["k3x9f2a"]["losses"]) == {"unreadable line": 2}
    stored = {row["miss"]: (row["outcome"], row["reason"]) for row in table(target, "cache")}
    assert set(stored.values()) == {("not-stored", "min-compile-time")}
    programs = {(row["run"], row["program"]): row for row in table(target, "programs")}
    assert (programs["run0", "p9"]["misses"], programs["run0", "p9"]["compiles"]) == (5, 5)


def test_exporting_again_gives_no_duplicates(runs: Path, tmp_path: Path) -> None:
    for paths in ([runs / "of-lovelace"], [runs], [runs / "of-turing", runs]):
        assert command.export(paths, tmp_path, jobs=1) == 0
    found = Counter(row["run"] for row in table(tmp_path, "runs"))
    assert found == {"run0": 1, "run1": 1, "run2": 1, "k3x9f2a": 1}
    ids = [row["miss"] for row in table(tmp_path, "misses")]
    assert len(ids) == len(set(ids))
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_a_folder_without_a_recording_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no recording in"):
        command.export([tmp_path], tmp_path / "tables", jobs=1)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.stem)
def test_the_queries_in_the_docs_run(
    query: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(target.parent)
    found = ask.connect().sql(query.read_text()).to_arrow_table().to_pylist()
    assert ANSWERS[query.stem](found), found


ANSWERS: dict[str, Callable[[Any], bool]] = {
    "advice": lambda found: found[0]["fix_code"] and found[0]["seconds"] > 0,
    "changed_arguments": lambda found: (
        {"batch['image']", "step"} <= {row["path"] for row in found}
    ),
    "dearest_causes": lambda found: (
        found[0]["cause"] == "first-trace" and found[0]["seconds"] > found[1]["seconds"] > 10
    ),
    "dearest_functions": lambda found: found[0]["function"] == "train_step",
    "disk_cache": lambda found: [row["outcome"] for row in found] == ["not-stored"],
    "hosts": lambda found: {row["host"] for row in found} == {"turing", "lovelace"},
    "regressions": lambda found: (
        [(row["function"], row["seconds"]) for row in found] == [("evaluate", 7.0)]
    ),
    "same_program_again": lambda found: (
        found[0]["program"] == "p1" and found[0]["compilations"] == 4 + 1
    ),
    "trend_by_commit": lambda found: (
        [row["commit"] for row in found if row["commit"]] == ["a1b2c3", "d4e5f6"]
    ),
    "warm_up": lambda found: {row["tenth"] for row in found} == set(range(1, 11)),
}


def test_the_duckdb_command_in_the_docs_reads_the_tables(target: Path) -> None:
    (line,) = re.findall(r"^duckdb -f docs/(tables/\w+\.sql)$", DOCS.read_text(), re.MULTILINE)
    duckdb = Path(sys.executable).with_name("duckdb")
    done = subprocess.run(
        [duckdb, "-csv", "-f", DOCS.with_name("tables") / Path(line).name],
        cwd=target.parent,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[1].startswith("first-trace,"), done.stdout


def test_there_are_ten_queries_and_each_is_in_the_docs() -> None:
    text = DOCS.read_text()
    assert len(QUERIES) == len(ANSWERS) == 10
    assert all(f"tables/{query.name})" in text for query in QUERIES)
    assert text == written(), "run `python -m tests.tables`"


def test_a_tag_selects_what_is_new_since(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(target.parent)
    connection = ask.connect()
    query = (DOCS.parent / "tables" / "regressions.sql").read_text()
    connection.execute("SET VARIABLE since = 'a1b'")
    everything = connection.sql(query).to_arrow_table().to_pylist()
    assert {row["function"] for row in everything} >= {"train_step", "evaluate"}


EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.split()[1])
def test_the_examples_in_the_docs_run(
    example: str,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(example.split()[1])
    monkeypatch.chdir(target.parent)
    if not (docs := target.parent / "docs").exists():
        docs.symlink_to(DOCS.parent)
    exec(example, {})
    printed = capsys.readouterr().out
    assert "lambda-recreated" in printed or "train_step" in printed


def test_each_library_has_an_example() -> None:
    assert [example.split()[1] for example in EXAMPLES] == ["duckdb", "pandas", "polars"]


def test_each_file_says_what_it_is(target: Path) -> None:
    for name, columns in TABLES.items():
        paths = list((target / name).iterdir())
        assert paths
        for path in paths:
            schema = parquet.read_schema(path)
            assert schema.metadata[b"retrace.schema"] == SCHEMA.encode()
            assert schema.names == [column.name for column in columns]
            units = {field.name for field in schema if field.metadata.get(b"unit") == b"s"}
            assert units == {column.name for column in columns if column.type == "seconds"}


def test_a_foreign_target_is_left_alone(runs: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign" / "misses" / "theirs.parquet"
    later = tmp_path / "later" / "runs" / "k3.parquet"
    for path in (foreign, later):
        path.parent.mkdir(parents=True)
    theirs = arrow.table({"a": [1]})
    parquet.write_table(theirs, foreign)
    newer = theirs.replace_schema_metadata({"retrace.schema": "retrace-tables/2"})
    parquet.write_table(newer, later)
    torn = tmp_path / "torn" / "cache" / "x.parquet"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PAR1")
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (foreign.parents[1], later.parents[1], torn.parents[1], file, file / "below"):
        before = sorted(tmp_path.rglob("*.parquet")), foreign.read_bytes()
        with pytest.raises(UsageError) as caught:
            command.export([runs], path, jobs=1)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
        assert (sorted(tmp_path.rglob("*.parquet")), foreign.read_bytes()) == before


def test_the_command_says_what_is_wrong_in_one_line(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('gone')")
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = retrace("export", runs, "--to", tmp_path / "out", PYTHONPATH=path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "pip install 'retrace-jax[tables]'" in line
    assert not (tmp_path / "out").exists()
    done = retrace("export", runs)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_absurd_values_are_written(tmp_path: Path) -> None:
    story = hostile()
    story.misses[0].time = float("inf")
    story.misses[1].function = story.misses[1].function._replace(line=1 << 80)
    story.run = replace(story.run, pid=1 << 70, started=1e300, variables={"A": NASTY})
    verdicts = judge(story.recording())
    view = View(story.recording(), verdicts)
    made = {
        "runs": [rows.run_row(story.run, 3)],
        "misses": rows.miss_rows(view, verdicts),
        "changes": rows.change_rows(verdicts),
        "programs": rows.program_rows(verdicts),
        "cache": rows.cache_rows(verdicts),
    }
    writing.check(tmp_path)
    assert writing.write(tmp_path, "k3", made)["misses"] == 3
    first, second, _ = table(tmp_path, "misses")
    assert (first["time"], second["line"]) == (None, None)
    assert first["function"] == NASTY.encode(errors="replace").decode()
    (run,) = table(tmp_path, "runs")
    assert (run["pid"], run["started"]) == (None, None)


def test_a_redacted_export_reveals_no_values(tmp_path: Path) -> None:
    for name in ("one", "two"):
        story = training(run=name, host="secret-host", argv=["/home/ada/x.py", "--token=secret"])
        write(story, tmp_path / "runs")
    assert command.export([tmp_path / "runs"], tmp_path / "t", redact=True, jobs=1) == 0
    text = json.dumps([table(tmp_path / "t", name) for name in TABLES], default=str)
    assert "secret" not in text and "/home/ada" not in text
    programs = Counter(row["program"] for row in table(tmp_path / "t", "programs"))
    assert set(programs.values()) == {2}, "equal programs stay equal within one export"
    assert [row["redacted"] for row in table(tmp_path / "t", "runs")] == [True, True]


def test_several_processes_make_the_same_tables(runs: Path, target: Path, tmp_path: Path) -> None:
    done = retrace("export", runs, "--to", tmp_path / "t", "--jobs", "2")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for name in TABLES:
        alone, beside = table(target, name), table(tmp_path / "t", name)
        assert sorted(map(str, alone)) == sorted(map(str, beside))


CLUSTER = """
import sys
from pathlib import Path
from dask.distributed import LocalCluster
from retrace.command.exporting import export

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        export([Path(sys.argv[1])], Path(sys.argv[2]), dask=cluster.scheduler_address)
"""


def test_a_cluster_makes_the_same_tables(runs: Path, target: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, tmp_path / "cluster.py", runs, tmp_path / "t"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in TABLES:
        assert sorted(map(str, table(target, name))) == sorted(
            map(str, table(tmp_path / "t", name))
        )


def test_jobs_and_a_cluster_exclude_each_other(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pass only one"):
        command.export([runs], tmp_path, jobs=2, dask="tcp://127.0.0.1:9")


def test_an_unreadable_process_does_not_stop_the_others(runs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "of-newer"
    broken.mkdir()
    header = next((runs / "of-lovelace").iterdir()).read_text().split("\n", 1)[0]
    (broken / "run9.jsonl").write_text(header.replace('"retrace":1', '"retrace":99') + "\n")
    with pytest.raises(UsageError, match="newer retrace"):
        command.export([broken, runs / "of-turing"], tmp_path / "t", jobs=1)
    assert {row["run"] for row in table(tmp_path / "t", "runs")} == {"run0", "run2", "k3x9f2a"}


def test_a_damaged_recording_is_exported_or_refused(runs: Path, tmp_path: Path) -> None:
    whole = damaged.read(runs / "of-lovelace")
    target = tmp_path / "t"
    writing.check(target)
    exported = 0
    for number in range(60):
        files = mutate(dict(whole), Random(number))
        folder = damaged.write(files, tmp_path / "damaged")
        try:
            for one in exporting.work([folder], target, "/", redact=number % 3 == 0):
                made = exporting.export(one)
                exported += made.misses > 0
        except UnreadableError:
            continue
    assert exported > 30
    assert {table_.name for table_ in target.iterdir()} == set(TABLES)
    assert table(target, "misses") and not list(target.rglob(".*"))

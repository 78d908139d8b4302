"""Recordings with arbitrary contents: one clear line, or a counted loss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.errors import UnreadableError
from retrace.model import Run
from retrace.store import bounded_lines as lines_module
from retrace.store import schema
from retrace.store.place import holds_recording
from retrace.store.reader import read, read_lines
from retrace.store.sinks import File
from retrace.store.writer import Writer

ROOT = Path(__file__).parents[2]

HEADER = (
    '{"retrace":1,"run":{"id":"abc","host":"h","pid":1,"process_index":null,"started":1.0,'
    '"argv":["p.py"],"python":"3.11","jax":"0.10","jaxlib":"0.10","backend":null}}'
)
FUNCTION = (
    '{"part":0,"kind":"function","value":{"name":"f","jax_name":"f","qualname":"f","kind":"def",'
    '"file":null,"line":1,"site":"s","object":1}}'
)
LEAVES = '{"part":1,"kind":"leaves","value":[["x",[3],"float32",false,null,false,null,null]]}'
MISS = '{"miss":0,"at":1.0,"thread":"t","function":0,"leaves":1}'
GOOD = [HEADER, FUNCTION, LEAVES, MISS]

DEEP = '{"part":9,"kind":"static","value":' + "[" * 100_000 + "]" * 100_000 + "}"
NESTED = json.dumps(
    {
        "part": 9,
        "kind": "static",
        "value": [["x", ["T", "t", None, True, eval("[" * 90 + "]" * 90)]]],
    }
)


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "null",
        "3",
        "[]",
        '"miss"',
        "{}",
        DEEP,
        NESTED,
        '{"miss":0,"at":2.0,"thread":"t","function":0}',
        '{"miss":-1,"at":2.0,"thread":"t","function":0}',
        '{"miss":1,"at":NaN,"thread":"t","function":0}',
        '{"miss":1,"at":1e300,"thread":"t","function":0}',
        '{"miss":1,"at":' + "9" * 5000 + ',"thread":"t","function":0}',
        '{"miss":1,"at":1.0,"thread":7,"function":0}',
        '{"miss":1,"at":1.0,"thread":"t","function":null}',
        '{"miss":1,"at":1.0,"thread":"t"}',
        '{"miss":1,"at":1.0,"thread":"t","function":[]}',
        '{"miss":1,"at":1.0,"thread":"t","function":0,"parent":"0"}',
        '{"miss":1,"at":1.0,"thread":"t","function":0,"stage":"think"}',
        '{"miss":' + "9" * 30 + ',"at":1.0,"thread":"t","function":0}',
        '{"amend":0,"stages":[1]}',
        '{"amend":0,"stages":{"trace":"long"}}',
        '{"amend":0,"persistent_cache":["maybe",null,null]}',
        '{"part":0,"kind":"function","value":{}}',
        '{"part":9,"kind":"leaves","value":[["x",[null],"f",false,null,false,null,null]]}',
        '{"part":9,"kind":"leaves","value":7}',
        '{"part":9,"kind":"what","value":7}',
        '{"part":[],"kind":"leaves","value":[]}',
        '{"loss":7}',
        '{"loss":"x","count":-1}',
        '{"run":7}',
        HEADER.replace("abc", "other"),
        HEADER.replace("abc", "../etc"),
    ],
    ids=lambda line: f"{line[:32]}..{line[-32:]}",
)
def test_invalid_data_is_one_unreadable_line_and_no_more(line: str) -> None:
    expected = read_lines(GOOD)
    recording = read_lines([*GOOD, line])
    assert recording.misses == expected.misses
    assert recording.runs[0].losses == {"unreadable line": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"amend":5,"inner":1}', schema.LATER_LINE_ALONE),
        ('{"miss":1,"at":1.0,"thread":"t","function":7}', schema.KEY_MISSING),
        ('{"miss":1,"at":1.0,"thread":"t","function":1}', schema.KEY_MISSING),
        ('{"loss":"said by the recorder","count":1}', "said by the recorder"),
    ],
)
def test_what_is_missing_is_counted_by_its_reason(line: str, reason: str) -> None:
    recording = read_lines([*GOOD, line])
    assert len(recording.misses) == 1
    assert recording.runs[0].losses == {reason: 1}


@pytest.mark.parametrize("parent", [7, 1, -1])
def test_a_missing_parent_leaves_the_miss(parent: int) -> None:
    child = MISS.replace('"miss":0', '"miss":1').replace("}", f',"parent":{parent}}}')
    recording = read_lines([*GOOD, child])
    assert [miss.parent for miss in recording.misses] == [None, None]
    assert recording.runs[0].losses == {schema.PARENT_MISSING: 1}


def test_a_missing_call_site_leaves_the_miss() -> None:
    recording = read_lines([*GOOD[:3], MISS.replace("}", ',"call_site":5}')])
    assert [miss.call_site for miss in recording.misses] == [None]
    assert recording.runs[0].losses == {schema.CALL_SITE_MISSING: 1}


def test_misses_come_in_the_order_in_which_they_started() -> None:
    later = MISS.replace('"miss":0', '"miss":1')
    assert [m.number for m in read_lines([*GOOD[:3], later, MISS]).misses] == [0, 1]


def test_a_damaged_header_leaves_the_misses(tmp_path: Path) -> None:
    (tmp_path / "abc.jsonl").write_text("\n".join(["?" + HEADER, *GOOD[1:], ""]))
    recording = read([tmp_path])
    assert [miss.id for miss in recording.misses] == ["abc-0"]
    assert recording.runs[0].losses == {"unreadable line": 1}


def test_an_id_that_leaves_the_folder_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "abc.jsonl").write_text(
        "\n".join([HEADER.replace("abc", "../etc"), *GOOD[1:], ""])
    )
    (run,) = read([tmp_path]).runs
    assert (run.id, run.losses) == ("abc", {"unreadable line": 1})


@pytest.mark.parametrize("start", ["", '{"ret', HEADER[:60]])
def test_a_process_killed_in_its_header_is_a_recording(tmp_path: Path, start: str) -> None:
    (tmp_path / "abc.jsonl").write_text(start)
    recording = read([tmp_path])
    assert recording.misses == []
    assert [(run.id, run.complete, run.losses) for run in recording.runs] == [("abc", False, {})]


def test_an_endless_line_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 500)
    lines = [*GOOD[:3], '{"loss":"' + "x" * 5000 + '"}', MISS, ""]
    (tmp_path / "abc.jsonl").write_text("\n".join(lines))
    recording = read([tmp_path])
    assert len(recording.misses) == 1
    assert recording.runs[0].losses == {"unreadable line": 1}


def test_a_newer_format_says_update(tmp_path: Path) -> None:
    (tmp_path / "abc.jsonl").write_text(HEADER.replace('"retrace":1', '"retrace":2') + "\n")
    with pytest.raises(UnreadableError, match=r"format is 2.*update retrace$") as raised:
        read([tmp_path])
    assert "\n" not in str(raised.value)


def test_several_directories_are_one_recording(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        text = "\n".join([*GOOD, ""]).replace("abc", f"run{name}")
        (tmp_path / name / f"run{name}.jsonl").write_text(text)
        (tmp_path / name / "notes.jsonl").write_text('{"not":"ours"}\n')
        (tmp_path / name / "folder.jsonl").mkdir()
    recording = read([tmp_path / "b", tmp_path / "a", tmp_path / "b" / "runb.jsonl"])
    assert [miss.id for miss in recording.misses] == ["runb-0", "runa-0"]
    assert [run.losses for run in recording.runs] == [{}, {}]


def test_a_copy_of_a_file_is_a_loss(tmp_path: Path) -> None:
    for name in ("abc", "copy"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*GOOD, ""]))
    recording = read([tmp_path])
    assert len(recording.misses) == 1
    assert recording.runs[0].losses == {schema.SECOND_FILE: 1}


def test_a_directory_without_recordings_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"retrace run --out .* SCRIPT"):
        read([tmp_path])
    with pytest.raises(UnreadableError, match="no such file"):
        read([tmp_path / "missing"])
    (tmp_path / "notes.jsonl").write_text("hello\n")
    with pytest.raises(UnreadableError, match="no recording in"):
        read([tmp_path])
    with pytest.raises(UnreadableError, match="not a recording"):
        read([tmp_path / "notes.jsonl"])
    (tmp_path / "inner").mkdir()
    Writer(File(tmp_path / "inner" / "abc.jsonl"), Run("abc", "h", 1, None, 1.0, [], "", "", ""))
    with pytest.raises(UnreadableError, match=rf"one in {tmp_path / 'inner'}:"):
        read([tmp_path])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "abc.jsonl")
    assert not holds_recording(tmp_path)
    with pytest.raises(UnreadableError, match="no recording in"):
        read([tmp_path])


def test_reading_imports_neither_jax_nor_numpy() -> None:
    program = "import sys, retrace.store.reader, retrace.command.launch; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "json" in loaded
    assert not loaded & {"jax", "jaxlib", "numpy", "deepdiff", "typer", "rich"}

"""Large recordings: read one process at a time, told as if they were read at once."""

from __future__ import annotations

import gc
import json
import os
import pty
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from retrace.command import selection
from retrace.command.selection import Told
from retrace.errors import UnreadableError
from retrace.model import Key, Kind
from retrace.present import github, machine, markdown, terminal
from tests.reading.story import LOSS, TRAIN_STEP, Story, array, at, function, training, write
from tests.reading.test_cli import COMMAND, environment, read_to_end


def several(home: Path) -> list[Path]:
    """Three processes: two alike, and one that was killed with more and dearer misses."""
    other = training(run="second", process_index=1)
    third = training(run="third", process_index=2, complete=False)
    for rows in range(40, 80):
        key = Key((array("x", "float32", rows),))
        outer = third.miss(TRAIN_STEP, key, at(88, "step(x)"), (2.0, 1.0, 1.0))
        third.miss(LOSS, key, at(47, ""), (0.5,), parent=outer.id, nested=True)
        third.miss(function("<lambda>", 97, Kind.LAMBDA, object=rows), key, at(98, ""))
    return [write(story, home / story.run.id) for story in (training(), other, third)]


def everything(told: Told) -> dict[str, Any]:
    view, tally = told.view, told.tally
    texts: dict[str, Any] = {
        "terminal": terminal.report(view, tally, keys=True),
        "summary": terminal.summary(view, "out", tally),
        "markdown": markdown.report(view, tally, keys=True),
        "github": github.report(view, tally),
    }
    pieces = machine.pieces(view, tally, told.again(), keys=True)
    return {**texts, "json": json.loads("".join(pieces))}


@pytest.mark.parametrize(
    "chosen", [(None, None), ("train_step", None), (None, "lambda-recreated")], ids=str
)
def test_the_same_is_told(
    chosen: tuple[str | None, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = several(tmp_path)
    whole = Told(directories, *chosen)
    monkeypatch.setattr(selection, "_MOST_HELD", 0)
    large = Told(directories, *chosen)
    assert (whole.is_large, large.is_large) == (False, True)
    assert everything(large) == everything(whole)
    report = machine.report(whole.view, whole.verdicts, keys=True)
    # The labels of the first process were made before the others were known to have the same.
    assert everything(whole)["json"] == json.loads(machine.encode(report))


def test_several_processes_tell_what_one_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = several(tmp_path)
    shutil.copy(next(directories[0].glob("*.jsonl")), directories[1] / "copy.jsonl")
    (directories[2] / "other.jsonl").write_text("no recording\n")
    # The folder of all of them is an argument as well; what is named twice is read once.
    paths = [tmp_path, directories[0]]
    monkeypatch.setattr(selection, "_MOST_HELD", 0)
    one, several_ = (Told(paths, jobs=jobs) for jobs in (1, 2))
    assert everything(several_) == everything(one)
    assert len(one.view.recording.runs) == 3
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    said: list[str] = []
    for jobs in (1, 2):
        with pytest.raises(UnreadableError) as refused:
            Told([*paths, nothing], jobs=jobs)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_memory_does_not_grow_with_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_MOST_HELD", 0)
    directories: list[Path] = []
    for number in range(12):
        story = Story(f"p{number}", process_index=number)
        for rows in range(500):
            story.miss(TRAIN_STEP, Key((array("x", "float32", rows),)), at(88, "step(x)"))
        directories.append(write(story, tmp_path / story.run.id))

    def peak(processes: int) -> int:
        gc.collect()  # else what it comes to goes by where the collector stands
        tracemalloc.start()
        try:
            told = Told(directories[:processes])
            assert told.tally.totals.misses == 500 * processes
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    assert peak(12) < 1.2 * peak(3)


_KEPT = """
import gc, sys
from pathlib import Path
from retrace.command import selection
from retrace.model import Verdict

selection._MOST_HELD = 0
told = selection.Told([Path(sys.argv[1])])
gc.collect()
print(told.tally.totals.misses, sum(type(each) is Verdict for each in gc.get_objects()))
"""


@pytest.mark.parametrize("options", [[], ["-O"]], ids=str)
def test_what_was_added_up_is_not_kept(tmp_path: Path, options: list[str]) -> None:
    story = Story("p")
    for rows in range(500):
        story.miss(TRAIN_STEP, Key((array("x", "float32", rows),)), at(88, "step(x)"))
    directory = write(story, tmp_path / "rec")
    done = subprocess.run(
        [sys.executable, *options, "-c", _KEPT, str(directory)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    misses, kept = map(int, done.stdout.split())
    assert misses == 500
    assert kept < 10


def test_a_bar_on_a_terminal_alone(tmp_path: Path) -> None:
    directory = write(training(), tmp_path / "rec")
    (file,) = directory.glob("*.jsonl")
    with file.open("ab") as end:  # blank lines are no loss
        for _ in range(18):
            end.write(b" " * (1 << 20) + b"\n")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "report", str(directory), "-o", str(tmp_path / "report")],
        env=environment(TERM="xterm"),
        stderr=theirs,
    ) as running:
        os.close(theirs)
        bar = read_to_end(ours)
    assert running.returncode == 0
    assert b"retrace: reading" in bar
    assert b"100%" in bar
    piped = subprocess.run(
        [*COMMAND, "report", str(directory)], env=environment(), capture_output=True, check=True
    )
    assert piped.stderr == b""
    assert piped.stdout == (tmp_path / "report").read_bytes()

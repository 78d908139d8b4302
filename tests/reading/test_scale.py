"""Large recordings are read one process at a time, with the same result as all at once."""

from __future__ import annotations

import gc
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from retrace.command import diff, selection
from retrace.command.finding import found_in
from retrace.command.selection import Selection, found_miss
from retrace.errors import UnreadableError, UsageError
from retrace.model import Key, Kind, PersistentCache, Program, Recording, Verdict
from retrace.present import github, markdown, report_json, terminal
from retrace.present.miss import show as shown
from retrace.reason import alike
from retrace.reason.verdict import judge as verdicts_on
from retrace.runs import bare
from retrace.runs.difference import difference
from retrace.runs.sides import Side
from retrace.store.reader import read, read_each
from retrace.store.shared import Shared
from tests.reading.story import (
    LOSS,
    TRAIN_STEP,
    Story,
    array,
    at,
    function,
    step_key,
    training,
    write,
)
from tests.reading.test_cli import COMMAND, environment, read_to_end


def several(home: Path) -> list[Path]:
    """Three processes: two alike, and one that was killed with more and more expensive misses."""
    other = training(run="second", process_index=1)
    third = training(run="third", process_index=2, complete=False)
    for rows in range(40, 80):
        key = Key((array("x", "float32", rows),))
        outer = third.miss(TRAIN_STEP, key, at(88, "step(x)"), (2.0, 1.0, 1.0))
        third.miss(LOSS, key, at(47, ""), (0.5,), parent=outer.id, nested=True)
        third.miss(function("<lambda>", 97, Kind.LAMBDA, object=rows), key, at(98, ""))
    return [write(story, home / story.run.id) for story in (training(), other, third)]


def everything(told: Selection) -> dict[str, Any]:
    view, tally = told.view, told.tally
    texts: dict[str, Any] = {
        "terminal": terminal.report(view, tally, keys=True),
        "summary": terminal.summary(view, "out", tally),
        "markdown": markdown.report(view, tally, keys=True),
        "github": github.report(view, tally),
    }
    pieces = report_json.pieces(view, tally, told.again(), keys=True)
    return {**texts, "json": json.loads("".join(pieces))}


@pytest.mark.parametrize(
    "chosen", [(None, None), ("train_step", None), (None, "lambda-recreated")], ids=str
)
def test_the_result_is_the_same(
    chosen: tuple[str | None, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = several(tmp_path)
    whole = Selection(directories, *chosen)
    monkeypatch.setattr(selection, "_MAX_HELD", 0)
    large = Selection(directories, *chosen)
    assert (whole.is_large, large.is_large) == (False, True)
    assert everything(large) == everything(whole)
    report = report_json.report(whole.view, whole.verdicts, keys=True)
    # The first process was labelled before the others were known to have the same names.
    assert everything(whole)["json"] == json.loads(report_json.encode(report))


def test_several_processes_give_the_same_result_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = several(tmp_path)
    shutil.copy(next(directories[0].glob("*.jsonl")), directories[1] / "copy.jsonl")
    (directories[2] / "other.jsonl").write_text("no recording\n")
    # The folder of all of them is an argument as well; duplicates are read once.
    paths = [tmp_path, directories[0]]
    monkeypatch.setattr(selection, "_MAX_HELD", 0)
    one, several_ = (Selection(paths, jobs=jobs) for jobs in (1, 2))
    assert everything(several_) == everything(one)
    assert len(one.view.recording.runs) == 3
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    said: list[str] = []
    for jobs in (1, 2):
        with pytest.raises(UnreadableError) as refused:
            Selection([*paths, nothing], jobs=jobs)
        said.append(str(refused.value))
    assert said[0] == said[1]
    # Unreadable files are reported either way.
    (file,) = directories[2].glob("third.jsonl")
    (directories[0] / "newer.jsonl").write_text(
        file.read_text().replace('"retrace":1', '"retrace":99', 1)
    )
    for jobs in (1, 2):
        with pytest.raises(UnreadableError, match="newer retrace"):
            Selection(directories, jobs=jobs)


def test_memory_does_not_grow_with_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_MAX_HELD", 0)
    directories: list[Path] = []
    for number in range(12):
        story = Story(f"p{number}", process_index=number)
        for rows in range(500):
            story.miss(TRAIN_STEP, Key((array("x", "float32", rows),)), at(88, "step(x)"))
        directories.append(write(story, tmp_path / story.run.id))

    def peak(processes: int) -> int:
        gc.collect()  # otherwise the result depends on the collector's state
        tracemalloc.start()
        try:
            told = Selection(directories[:processes])
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

selection._MAX_HELD = 0
told = selection.Selection([Path(sys.argv[1])])
gc.collect()
print(told.tally.totals.misses, sum(type(each) is Verdict for each in gc.get_objects()))
"""


@pytest.mark.parametrize("options", [[], ["-O"]], ids=str)
def test_summed_up_misses_are_not_kept(tmp_path: Path, options: list[str]) -> None:
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


@pytest.mark.parametrize("options", [(), ("--jobs", "2")], ids=" ".join)
def test_a_progress_bar_only_on_a_terminal(tmp_path: Path, options: tuple[str, ...]) -> None:
    directory = write(training(), tmp_path / "rec")
    (file,) = directory.glob("*.jsonl")
    with file.open("ab") as end:  # blank lines are not losses
        for _ in range(18):
            end.write(b" " * (1 << 20) + b"\n")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "report", str(directory), *options, "-o", str(tmp_path / "report")],
        env=environment(TERM="xterm", COLUMNS="40"),
        stderr=theirs,
    ) as running:
        os.close(theirs)
        bar = read_to_end(ours)
    assert running.returncode == 0
    drawn = re.sub(rb"\x1b\[[?0-9]*[A-Za-z]", b"", bar)
    assert max(map(len, re.split(rb"[\r\n]+", drawn))) <= 40
    assert b"retrace: reading" in bar
    assert b"100%" in bar
    piped = subprocess.run(
        [*COMMAND, "report", str(directory), *options],
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert piped.stderr == b""
    assert piped.stdout == (tmp_path / "report").read_bytes()


_MISSES = 15


def _alike(home: Path, processes: int, odd: int | None = None) -> list[Path]:
    """A folder of processes that only differ in their seconds, like the hosts of a job.

    The `odd` one also has other shapes.
    """
    found: list[Path] = []
    for number in range(processes):
        story = Story(f"p{number}", process_index=number, host=f"host{number}")
        for rows in range(_MISSES):
            leaves = (*(array(f"params[{n}]", "float32", 8, 8) for n in range(40)),)
            key = Key(
                (*leaves, array("x", "float32", rows // 2 if number == odd else rows)),
                config=step_key(1, leaves[0]).config,
            )
            program = Program(f"{rows:032x}", 100, f"{rows:032x}", results=f"{rows:016x}")
            cache = PersistentCache("miss", f"{rows:064x}", None, (("flags", f"{rows:064x}"),))
            stages = (0.1 + number / 1e3, 0.05, 1.0)
            story.miss(
                TRAIN_STEP,
                key,
                at(88, "step(x)"),
                stages,
                program=program,
                persistent_cache=cache,
            )
        found.append(write(story, home / story.run.id))
    return found


def _each(do: Callable[[list[Path]], object], directories: list[Path]) -> float:
    """The maximum bytes that one more miss takes while something is done."""
    peaks: list[int] = []
    few, many = len(directories) // 4, len(directories)
    do(directories[:few])  # imports
    for number in (few, many):
        gc.collect()
        tracemalloc.start()
        try:
            kept = do(directories[:number])
            peaks.append(tracemalloc.get_traced_memory()[1])
            del kept
        finally:
            tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (_MISSES * (many - few))


def test_processes_that_are_alike_take_little_memory(tmp_path: Path) -> None:
    directories = _alike(tmp_path, 16)
    whole = read(directories)
    alone = [miss for one in directories for miss in read([one]).misses]
    assert whole.misses == alone  # only what each process wrote itself is shared

    def differing(paths: list[Path]) -> object:
        home = paths[0].parent / f"first-{len(paths)}"
        if not home.exists():
            home.mkdir()
            for path in paths:
                (home / path.name).symlink_to(path)
        views = [diff.read(diff.Source(home), whole=False) for _ in range(2)]
        sides = [Side(view.recording, view.verdicts) for view in views]
        return views, difference(sides[0], sides[1])

    # 155 misses of 256 processes on both sides are then 160 MB, besides the interpreter's 35.
    assert _each(differing, directories) < 2 * 2000
    # Most of it is the text about each process.
    assert _each(lambda paths: found_in(paths, "p0-7"), directories) < 1000


def test_processes_that_are_alike_are_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, other = tmp_path / "many", tmp_path / "other"
    _alike(many, 12)
    _alike(other, 12, odd=5)
    # One process differs. Two have overlapping threads, where a verdict depends on the clock.
    for name in ("p7", "p8"):
        (file,) = (other / name).glob("*.jsonl")
        head, *lines = file.read_text().splitlines(keepends=True)
        at_once = [re.sub(r'"time":[0-9.]+', '"time":1.0', line) for line in lines]
        text = "".join([head, *at_once]).replace('"thread":"MainThread"', '"thread":"other"', 1)
        assert '"thread":"other"' in text
        file.write_text(text)
    judged: list[str] = []

    def judge(part: Recording) -> list[Verdict]:
        judged.append(part.runs[0].id)
        return verdicts_on(part)

    monkeypatch.setattr(bare, "judge", judge)
    shared = Shared()
    for home, asked in ((many, ["p0"]), (other, ["p0", "p5", "p7", "p8"])):
        judged.clear()
        view = diff.read(diff.Source(home), whole=False, shared=shared)
        assert judged == asked
        whole = diff.read(diff.Source(home), whole=True)
        assert len(view.verdicts) == 12 * _MISSES
        for one, every in zip(view.verdicts, whole.verdicts, strict=True):
            assert (one.miss.id, one.cause) == (every.miss.id, every.cause)
            assert one.avoidable == every.avoidable
            assert one.changes in ((), every.changes[:1])


def _twin(recording: Recording) -> Recording:
    """What another process that did the same would have recorded, slower and later."""
    (run,) = recording.runs
    ids = {miss.id: f"twin-{miss.number}" for miss in recording.misses}
    misses = [
        replace(
            miss,
            id=ids[miss.id],
            run="twin",
            time=miss.time + 100,
            parent=miss.parent and ids[miss.parent],
            stages={stage: 1.5 * seconds for stage, seconds in miss.stages.items()},
        )
        for miss in recording.misses
    ]
    return Recording([replace(run, id="twin")], misses, recording.listings)


RECORDED = sorted(Path(__file__).with_name("recordings").iterdir())


@pytest.mark.parametrize("folder", [None, *RECORDED], ids=lambda path: path and path.name)
def test_a_process_that_did_the_same_gets_the_verdicts_of_its_own(
    folder: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number: list[int] = []

    def judge(part: Recording) -> list[Verdict]:
        number.append(len(part.misses))
        return verdicts_on(part)

    monkeypatch.setattr(alike, "judge", judge)
    folder = write(training(), tmp_path / "training") if folder is None else folder
    parts = list(read_each([folder]))
    assert parts
    for part in parts:
        judged, twin = alike.Judged(), _twin(part)
        number.clear()
        assert judged.of(part) == verdicts_on(part)
        found, own = judged.of(twin), verdicts_on(twin)
        assert number == [len(part.misses)]
        assert found == own
        assert [v.program_change for v in found] == [v.program_change for v in own]
        # A process that differs in its last miss is judged on its own.
        last = part.misses[-1]
        other = replace(
            last, key=last.key._replace(leaves=(*last.key.leaves, array("more", "f4")))
        )
        part = replace(part, misses=[*part.misses[:-1], other])
        assert judged.of(part) == verdicts_on(part)
        assert len(number) == 2


def test_one_miss_is_shown_as_it_is_among_all(tmp_path: Path) -> None:
    directories = several(tmp_path)
    whole = Selection(directories).view
    for verdict in whole.verdicts[::9]:
        for text in (verdict.miss.id, whole.label(verdict.miss)):
            view, found = found_in(directories, text)
            assert found.miss.id == verdict.miss.id
            assert shown(view, found) == shown(whole, verdict)
    for text in ("train_step #1", "train", "p", "nothing", "train_step#"):
        said: list[str] = []
        for find in (partial(found_in, directories), partial(found_miss, whole)):
            with pytest.raises(UsageError) as refused:
                find(text)
            said.append(str(refused.value))
        assert said[0] == said[1]

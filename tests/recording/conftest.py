"""A program goes in, what was recorded of it comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retrace.capture.session import begin_file, begin_memory, session
from retrace.model import Miss, Recording, Verdict
from retrace.reason.verdict import judge
from retrace.store.parts import PARTS
from retrace.store.reader import read, read_lines
from retrace.store.schema import MISS_LINE, PROGRAM

Record = Callable[[Callable[[], object]], list[Miss]]
Judged = tuple[Recording, list[Verdict]]
JudgeAll = Callable[[Callable[[], object]], Judged]

# What a line about a miss says; without a row in `store` nobody reads it, or hides it.
_SAID = {*MISS_LINE, *PROGRAM, *PARTS, "miss", "amend", "again", "bodies"}


@pytest.fixture
def record() -> Record:
    """Run a program under recording; its misses, those of eager operations left out."""

    def run(program: Callable[[], object]) -> list[Miss]:
        recording = _record(program)
        assert recording.runs[0].losses == {}
        return [miss for miss in recording.misses if miss.function.kind != "op"]

    return run


@pytest.fixture
def record_all() -> Record:
    """As `record`, with the eager operations."""

    def run(program: Callable[[], object]) -> list[Miss]:
        recording = _record(program)
        assert recording.runs[0].losses == {}
        return recording.misses

    return run


@pytest.fixture
def judge_all(tmp_path: Path) -> JudgeAll:
    """Run a program under recording into a file; the recording and its verdicts."""

    def run(program: Callable[[], object]) -> Judged:
        writer = begin_file(tmp_path)
        try:
            program()
        finally:
            session().detach(writer)
        recording = read([tmp_path])
        assert recording.runs[0].losses == {}
        return recording, judge(recording)

    return run


def _record(program: Callable[[], object]) -> Recording:
    writer, lines = begin_memory()
    try:
        program()
    finally:
        session().detach(writer)
    for line in map(json.loads, lines.lines):
        if "miss" in line or "amend" in line:
            assert line.keys() <= _SAID
    return read_lines(lines.lines)

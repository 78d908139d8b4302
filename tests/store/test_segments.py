"""A long recording is split into segments, which are read as one."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from retrace.capture.session import begin_file, flush, session
from retrace.model import Run
from retrace.reason.verdict import judge
from retrace.store import removal, schema, segments, sinks
from retrace.store.following import Following
from retrace.store.programs import SUFFIX
from retrace.store.reader import read
from retrace.store.sinks import File
from retrace.store.writer import Writer


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Use segments of a few kB, because filling those of 64 MiB takes days."""
    monkeypatch.setattr(sinks, "_FULL", 12_000)
    return 12_000


def grow(sizes: range) -> None:
    """Miss once for each size, with another function for every third."""
    for size in sizes:
        step = (lambda x: x * 2) if size % 3 else (lambda x: jax.numpy.sin(x) + 1)
        jax.jit(step)(np.ones(size, np.float32))


def recorded(folder: Path, program: Callable[[], object]) -> Path:
    """Record a program into a folder."""
    folder.mkdir()
    jax.clear_caches()
    writer = begin_file(folder)
    try:
        program()
    finally:
        session().detach(writer)
    return folder


def conclusions(folder: Path) -> list[tuple[Any, ...]]:
    """What is concluded about each miss, and what it is compared with."""
    recording = read([folder])
    assert len(recording.runs) == 1
    assert recording.runs[0].losses == {} and recording.runs[0].complete
    position = {miss.id: index for index, miss in enumerate(recording.misses)}
    return [
        (
            v.cause,
            [(change.component, change.path) for change in v.changes],
            v.nearest and position[v.nearest.id],
            v.miss.program and v.miss.program.hash,
            v.miss.stages.keys(),
            v.avoidable,
        )
        for v in judge(recording)
    ]


def test_segments_are_read_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recorded(tmp_path / "whole", lambda: grow(range(1, 31)))
    assert len([*whole.glob("*.jsonl")]) == 1
    monkeypatch.setattr(sinks, "_FULL", 3_000)
    cut = recorded(tmp_path / "cut", lambda: grow(range(1, 31)))
    (first,) = segments.firsts(cut.glob("*.jsonl"))
    found = segments.all_of(first)
    assert len(found) > 3 and len([*cut.glob("*.programs")]) > 1
    assert sorted(found) == sorted(cut.glob("*.jsonl"))
    assert conclusions(cut) == conclusions(whole)
    # A path may name any of them, or all of them, as from a shell.
    number = len(read([whole]).misses)
    for paths in ([first], [found[2]], sorted(cut.glob("*.jsonl"))):
        recording = read(paths)
        assert len(recording.misses) == number and recording.runs[0].losses == {}
        programs = {miss.program.listing for miss in recording.misses if miss.program} - {None}
        assert len(programs) > 3
        assert all(listing in recording.listings for listing in programs)


def test_each_segment_is_complete_for_misses_that_started_in_it(
    tmp_path: Path, short: int
) -> None:
    cut = recorded(tmp_path / "cut", lambda: grow(range(1, 31)))
    (first,) = segments.firsts(cut.glob("*.jsonl"))
    *_, last = segments.all_of(first)
    for segment in cut.glob("*"):
        if segment not in (last, last.with_suffix(SUFFIX)):
            segment.unlink()
    recording = read([cut])
    assert recording.misses and recording.runs[0].id == first.stem
    # Only lines about misses that started before it are lost.
    assert {*recording.runs[0].losses} <= {schema.LATER_LINE_ALONE}
    assert all(miss.function.name for miss in recording.misses)


def test_a_missing_segment_is_a_loss(tmp_path: Path, short: int) -> None:
    cut = recorded(tmp_path / "cut", lambda: grow(range(1, 31)))
    (first,) = segments.firsts(cut.glob("*.jsonl"))
    found = segments.all_of(first)
    found[1].unlink()
    (run,) = read([cut]).runs
    assert run.losses[schema.SECOND_FILE] == 1


def test_a_program_is_followed_from_one_segment_to_the_next(tmp_path: Path, short: int) -> None:
    folder = tmp_path / "followed"
    folder.mkdir()
    jax.clear_caches()
    writer = begin_file(folder)
    following = Following(folder)
    seen: list[int] = []
    try:
        for start in range(1, 31, 10):
            grow(range(start, start + 10))
            flush()
            assert following.more() and not following.more()
            (tail,) = following.tails
            seen.append(len(tail.misses))
    finally:
        session().detach(writer)
    following.more()
    assert len([*folder.glob("*.jsonl")]) > 3
    assert seen == sorted(set(seen)) and seen[-1] == len(read([folder]).misses)
    assert following.is_over


def test_removing_a_recording_removes_all_its_segments(tmp_path: Path, short: int) -> None:
    root = tmp_path / ".retrace"
    root.mkdir()
    folder = recorded(root / "2026-01-01T00-00-00", lambda: grow(range(1, 21)))
    assert len([*folder.glob("*.jsonl")]) > 2
    (one,) = removal.found(root)
    assert one.processes == 1 and one.writer is None
    assert one.size == sum(path.stat().st_size for path in folder.glob("[!.]*"))
    removal.remove(one)
    assert not folder.exists()


def test_no_segment_exceeds_the_maximum(tmp_path: Path) -> None:
    run = Run("abc", "", 1, None, 0.0, [], "", "", "")
    file = File(tmp_path / "abc.jsonl")
    writer = Writer(file, run, turn=file.turn)
    filler = {"note": "x" * 900_000}
    for number in range(150):
        writer.miss(number, filler)
    writer.end()
    sizes = [path.stat().st_size for path in segments.all_of(tmp_path / "abc.jsonl")]
    assert len(sizes) == 3 and max(sizes) <= segments.MAX_BYTES
    starts = [path.read_bytes()[:11] for path in tmp_path.glob("abc*.jsonl")]
    assert starts == [b'{"retrace":'] * 3

"""The text of programs on disk: bounded when read, complete up to where a process was killed."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from retrace.compare.size import samples, unrolled
from retrace.model import Frame, Listing, Run
from retrace.store import bounded_lines, programs, schema
from retrace.store.programs import Library, decode
from retrace.store.shelf import Shelf, encode
from retrace.store.sinks import File

PRIMITIVES = ("sin", "cos", "tanh", "exp", "abs", "neg")


def listing(number: int, size: int) -> Listing:
    """A chain of equations in an aperiodic order."""
    choice = random.Random(number)
    return Listing(
        id=f"{number:024x}",
        hash=f"{number:032x}",
        size=size,
        inputs=("f32[8]",),
        constants=(),
        equations=[f"{name}\t$\tf32[8]" for name in choice.choices(PRIMITIVES, k=size)],
        wires=list(range(size)),
        places=[i % 50 for i in range(size)],
        stacks=tuple((Frame("m.py", line, "f", 1, False),) for line in range(50)),
        outputs=(f"${size}",),
        inner={},
    )


def library(found: list[Listing]) -> Library:
    made = Library()
    for each in found:
        made.add_line(encode([each]))
    return made


def test_a_library_keeps_few_of_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_MAX_CACHE_BYTES", 36_000)  # the size of four blocks
    kept = library([listing(number, 1000) for number in range(20)])
    for _ in range(2):  # dropped programs are read again
        assert [len(kept[id_].equations) for id_ in kept] == [1000] * 20
    gc.collect()
    # Other tests of this process hold their own programs.
    held = [each for each in gc.get_objects() if type(each) is Listing and each.id in kept]
    assert len(held) <= 6


def test_a_large_program_needs_little_memory() -> None:
    size = 200_000
    text = encode([listing(1, size)])
    assert len(text) < 100 * size
    tracemalloc.start()
    try:
        kept = Library()
        kept.add_line(text)
        samples(map(kept.__getitem__, kept), kept)
        unrolled(map(kept.__getitem__, kept), kept)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150 * size


_WRITE_FOR_EVER = """
import sys
from pathlib import Path
from tests.store.test_programs import listing
from retrace.store.shelf import Shelf
from retrace.store.sinks import File

shelf = Shelf(File(Path(sys.argv[1])))
number = 0
while True:
    shelf.add([listing(number, 3 + number % 700)])
    shelf.settle()
    number += 1
    print(number, flush=True)
"""


def test_what_was_written_before_a_kill_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.programs"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE_FOR_EVER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    printed = [int(process.stdout.readline()) for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()
    kept = Library()
    kept.add_file(path, Run("r", "", 0, None, 0.0, [], "", "", ""))
    assert len(kept) >= printed[-1]
    for number in range(printed[-1]):
        assert kept[f"{number:024x}"] == listing(number, 3 + number % 700)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_an_incomplete_last_line_loses_nothing_else(tmp_path: Path, share: float) -> None:
    # This is what a kill in the middle of an append, or a full disk, leaves behind.
    path = tmp_path / "x.programs"
    last = encode([listing(2, 3000)])
    path.write_text(f"{encode([listing(1, 3000)])}\n{last[: int(len(last) * share)]}")
    kept = Library()
    kept.add_file(path, Run("r", "", 0, None, 0.0, [], "", "", ""))
    assert list(kept) == [listing(1, 1).id]
    assert kept[listing(1, 1).id] == listing(1, 3000)
    assert kept.get(listing(2, 1).id) is None


RUN = Run("r", "", 0, None, 0.0, [], "", "", "")


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_that_is_too_long_is_a_loss_and_needs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr(bounded_lines, "MAX_LINE_BYTES", 50_000)
    path = tmp_path / "x.programs"
    path.write_text(encode([listing(1, 3000)]) + "\n")
    with path.open("r+b") as file:
        file.truncate(30_000_000)
        file.seek(0, os.SEEK_END)
        file.write(f"\n{encode([listing(2, 3000)])}\n".encode() if ended else b"")
    run = replace(RUN, losses={})
    kept = Library()
    kept.add_file(path, run)
    tracemalloc.start()
    try:
        found = list(kept)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert run.losses == {"unreadable programs": 1}
    expected = [listing(number, 3000) for number in ((1, 2) if ended else (1,))]
    assert [kept[id_] for id_ in found] == expected


def test_too_many_ids_or_variables_are_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MAX_ITEMS", 1000)
    monkeypatch.setattr(programs, "MAX_ITEMS", 1000)
    ids = ",".join(f'"{number}"' for number in range(2000))
    wide = listing(1, 1)._replace(
        equations=[f"add\t{' '.join(['1:i'] * 2000)}\tf32[8]"], wires=[]
    )
    path = tmp_path / "x.programs"
    path.write_text(f'{{"listings":[{ids}],"block":{{}}}}\n{encode([wide])}\n')
    run = replace(RUN, losses={})
    kept = Library()
    kept.add_file(path, run)
    assert list(kept) == [wide.id]
    assert run.losses == {"unreadable programs": 1}
    assert kept.get(wide.id) is None
    assert run.losses == {"unreadable programs": 2}


def test_a_block_is_read_as_it_was_written() -> None:
    found = [listing(1, 0), listing(2, 1), listing(3, 5000)]
    assert list(decode(encode(found))) == found


def test_a_writer_keeps_few_ids_of_many_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrace.store.shelf._MAX_KNOWN", 8)
    path = tmp_path / "x.programs"
    shelf = Shelf(File(path))
    for number in [*range(20), 0]:  # the first of them is written twice
        shelf.add([listing(number, 3)])
        shelf.settle()
    shelf.close()
    assert sum(shelf.holds(f"{number:024x}") for number in range(20)) <= 8
    kept = Library()
    kept.add_file(path, Run("r", "", 0, None, 0.0, [], "", "", ""))
    assert [kept[id_] for id_ in kept] == [listing(number, 3) for number in range(20)]

"""Programs with one planted cost each: told first, at the share that leaving it out saves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from retrace.costs.account import Account, account
from retrace.jax_internals import names_slow
from retrace.model import Frame
from retrace.store.reader import read
from tests import sample
from tests.recording.programs import described

pytestmark = pytest.mark.drawn

PROGRAM = Path(__file__).parent / "programs" / "planted.py"
TRACED = ("an_unrolled_loop", "an_equality", "a_flatten", "a_nested_trace", "a_deep_cond")
COMPILED = ("a_folded_constant", "a_slow_sort", "many_kernels", "equal_kernels")
WITHIN = 0.2
"""Of the truth. Held where all are asked for, on a machine that does nothing else: a share is
of seconds that pass, and in CI only which line is told is held."""


class Told(NamedTuple):
    """The line that is told first, and its share of all that has a line."""

    line: int
    share: float | None
    """None where lines are told by their instructions, without seconds."""


def all_of_them() -> bool:
    return sample.all_of("PLANTS")


def drawn() -> list[str]:
    """A traced and a compiled one in CI; with RETRACE_TEST_ALL_PLANTS=1 each of them."""
    if all_of_them():
        return [*TRACED, *COMPILED]
    return [sample.shuffled(names)[0] for names in (TRACED, COMPILED)]


def python(*arguments: object, device: str = "") -> None:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, **described.ENVIRONMENT, "PLANTED_FOR": device},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def lines_of(name: str) -> set[int]:
    text = PROGRAM.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(text, 1) if line.endswith(f"# plant: {name}")}


def first_told(name: str, found: Account) -> Told:
    if name in TRACED:
        assert found.trace is not None
        row = found.trace.lines[0]
        if not all_of_them():
            # Another line may come first by a little, where other tests work beside.
            planted = lines_of(name)
            near = (one for one in found.trace.lines[:2] if one.frame is not None)
            row = next((one for one in near if one.frame and one.frame.line in planted), row)
        # What JAX does with a whole program, as 0.6 folds constants, and recording have none.
        lines = [one for one in found.trace.lines if one.frame is not None]
        row = lines[0] if row.frame is None else row
        assert isinstance(row.frame, Frame)
        own = sum(one.seconds for one in lines)
        return Told(row.frame.line, row.seconds / own)
    assert found.compiling is not None
    assert (found.compiling.unprofiled == "jax") is not names_slow.SESSION.expected
    if name == "a_folded_constant" and not names_slow.SESSION.expected:
        # Without a profile nobody knows what was computed: the constant stands there alone.
        assert found.constants[0].frame is not None
        return Told(found.constants[0].frame.line, None)
    first, spent = found.lines[0], sum(line.seconds for line in found.lines)
    return Told(first.line, first.seconds / spent if spent else None)


def test_a_planted_cost_is_told_first_at_its_share(tmp_path: Path) -> None:
    assert misplaced(tmp_path, drawn()) == []


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("device", described.DEVICES)
def test_on_a_device_that_is_only_described(tmp_path: Path, device: str, name: str) -> None:
    described.skip_unless_installed(device)
    if not names_slow.SESSION.expected:
        pytest.skip("this JAX tells nothing of its compilations")
    assert misplaced(tmp_path, [name], device) == []


def misplaced(tmp_path: Path, names: Sequence[str], device: str = "") -> list[str]:
    """The plants of which another line is told, or another share."""
    out, results = tmp_path / "out", tmp_path / "results"
    python(PROGRAM, results, *names, device=device)
    truths = json.loads(results.read_text(encoding="utf-8"))
    assert list(truths) == [*names]
    recorded = ("run", "-q", "--slow-over", "0.2", "--out", out, PROGRAM, "-", *names)
    python("-m", "retrace", *recorded, device=device)
    recording = read([out])
    assert not [name for name in recording.runs[0].losses if "while recording" in name]
    bad: list[str] = []
    for name in names:
        own = [m for m in recording.misses if m.function.name == name and m.parent is None]
        told = sorted(
            (first_told(name, account(miss, recording)) for miss in own[1:]),
            key=lambda one: one.share or 0.0,
        )[1]  # of three
        whole, without, empty = truths[name].values()
        truth = (whole - without) / (whole - empty)
        said = f"{name}: line {told.line}, share {told.share}, in truth {truth:.2f}"
        print(said)
        if told.line not in lines_of(name) or not _is_near(told.share, truth):
            bad.append(said)
    return bad


def _is_near(share: float | None, truth: float) -> bool:
    return share is None or not all_of_them() or abs(share - truth) <= WITHIN * truth

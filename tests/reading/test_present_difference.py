"""Two programs in, their lines side by side or one below the other out."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.model import Frame, Listing, Recording
from retrace.present.difference import lines
from retrace.present.view import View

NAMES = ["sin", "cos", "tanh", "exp", "log", "abs", "neg", "sqrt"]


def program(*names: str) -> Listing:
    """A chain of equations, each on a line of its own."""
    return Listing(
        id=" ".join(names),
        hash=" ".join(names),
        size=len(names),
        inputs=("f32[8]",),
        constants=(),
        equations=[f"{name}\t$\tf32[8]" for name in names],
        wires=list(range(len(names))),
        places=list(range(len(names))),
        stacks=tuple(
            (Frame("/home/model.py", 40 + i, "f", 1, False),) for i in range(len(names))
        ),
        outputs=(f"${len(names)}",),
        inner={},
    )


VIEW = View(Recording([], []), [], "/home")
OLD = program(*NAMES)
NEW = program("sin", "cos", "tanh", "erf", "log", "abs", "neg", "sign", "sqrt")


def told(old: Listing, new: Listing, width: int) -> list[str]:
    return list(lines(VIEW, old, new, width))


def test_a_wide_terminal_shows_both_sides() -> None:
    half = (140 - 5) // 2
    _, *rows = told(OLD, NEW, 140)
    sides = [(row[2 : 2 + half].rstrip(), row[3 + half], row[5 + half :]) for row in rows[1:]]
    assert sides == [
        ("cos $ -> f32[8]   model.py:41", " ", "cos $ -> f32[8]   model.py:41"),
        ("tanh $ -> f32[8]   model.py:42", " ", "tanh $ -> f32[8]   model.py:42"),
        ("exp $ -> f32[8]   model.py:43", "<", ""),
        ("", ">", "erf $ -> f32[8]   model.py:43"),
        ("log $ -> f32[8]   model.py:44", " ", "log $ -> f32[8]   model.py:44"),
        ("abs $ -> f32[8]   model.py:45", " ", "abs $ -> f32[8]   model.py:45"),
        ("neg $ -> f32[8]   model.py:46", " ", "neg $ -> f32[8]   model.py:46"),
        ("", ">", "sign $ -> f32[8]   model.py:47"),
        ("sqrt $ -> f32[8]   model.py:47", " ", "sqrt $ -> f32[8]   model.py:48"),
    ]


def test_a_narrow_terminal_shows_one_below_the_other() -> None:
    assert told(OLD, NEW, 80) == [
        "8 equations -> 9",
        "  ...",
        "    cos $ -> f32[8]   model.py:41",
        "    tanh $ -> f32[8]   model.py:42",
        "  - exp $ -> f32[8]   model.py:43",
        "  + erf $ -> f32[8]   model.py:43",
        "    log $ -> f32[8]   model.py:44",
        "    abs $ -> f32[8]   model.py:45",
        "    neg $ -> f32[8]   model.py:46",
        "  + sign $ -> f32[8]   model.py:47",
        "    sqrt $ -> f32[8]   model.py:48",
    ]


def test_what_changed_stands_opposite_what_it_was() -> None:
    old, new = (program("sin")._replace(equations=[f"mul\t$ {n}:f32[]\tf32[8]"]) for n in (2, 3))
    (_, row) = told(old, new, 140)
    before, mark, after = row[:69].strip(), row[70], row[72:].strip()
    assert (before, mark, after) == (
        "mul $ 2:f32[] -> f32[8]   model.py:40",
        "|",
        "mul $ 3:f32[] -> f32[8]   model.py:40",
    )


@pytest.mark.parametrize("width", [60, 80, 119, 120, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    def long(name: str) -> Listing:
        text = f"{name}\t{' '.join('$' * 60)}\tf32[8]\tdimensions={'1,' * 90}"
        return program(*NAMES)._replace(equations=[text] * 8, id=name, hash=name)

    assert max(map(len, told(long("dot"), long("conv"), width))) <= width


@pytest.mark.parametrize(
    ("columns", "wide"), [(80, False), (119, False), (120, True), (200, True)]
)
def test_the_terminal_decides(columns: int, wide: bool, tmp_path: Path) -> None:
    text = (
        "import sys\n"
        "from retrace import console\n"
        "from tests.reading.test_present_difference import NEW, OLD, VIEW, lines\n"
        "print('\\n'.join(lines(VIEW, OLD, NEW, console.terminal(sys.stdout)[0])))\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=theirs,
        env=os.environ | {"COLUMNS": str(columns), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # so a terminal ends on Linux
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert (b"  - exp" in said) != wide
    assert (b" < " in said or b" <\r" in said) == wide


def test_of_many_lines_the_rest_is_counted() -> None:
    many = program(*NAMES * 40), program(*[name + "2" for name in NAMES] * 40)
    assert told(*many, 140)[-1] == "  and 580 more lines"

"""Shows two programs line by line, side by side or below each other."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrace.model import Frame, Leaf, Listing, Recording
from retrace.present.difference import lines
from retrace.present.operands import Operands
from retrace.present.view import View
from retrace.present.words import cut_apart
from tests.reading.story import array

NAMES = ["sin", "cos", "tanh", "exp", "log", "abs", "neg", "sqrt"]


def program(*names: str) -> Listing:
    """A chain of equations, each on its own line."""
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


def shown_lines(old: Listing, new: Listing, width: int) -> list[str]:
    return list(lines(VIEW, old, new, width))


def test_a_wide_terminal_shows_both_sides() -> None:
    half = (140 - 5) // 2
    _, *rows = shown_lines(OLD, NEW, 140)
    sides = [(row[2 : 2 + half].rstrip(), row[3 + half], row[5 + half :]) for row in rows[1:]]
    assert sides == [
        ("cos(sin) -> f32[8]   model.py:41", " ", "cos(sin) -> f32[8]   model.py:41"),
        ("tanh(cos) -> f32[8]   model.py:42", " ", "tanh(cos) -> f32[8]   model.py:42"),
        ("exp(tanh) -> f32[8]   model.py:43", "<", ""),
        ("", ">", "erf(tanh) -> f32[8]   model.py:43"),
        ("log(exp) -> f32[8]   model.py:44", " ", "log(erf) -> f32[8]   model.py:44"),
        ("abs(log) -> f32[8]   model.py:45", " ", "abs(log) -> f32[8]   model.py:45"),
        ("neg(abs) -> f32[8]   model.py:46", " ", "neg(abs) -> f32[8]   model.py:46"),
        ("", ">", "sign(neg) -> f32[8]   model.py:47"),
        ("sqrt(neg) -> f32[8]   model.py:47", " ", "sqrt(sign) -> f32[8]   model.py:48"),
    ]


def test_a_narrow_terminal_shows_one_below_the_other() -> None:
    assert shown_lines(OLD, NEW, 80) == [
        "8 equations -> 9",
        "  ...",
        "    cos(sin) -> f32[8]   model.py:41",
        "    tanh(cos) -> f32[8]   model.py:42",
        "  - exp(tanh) -> f32[8]   model.py:43",
        "  + erf(tanh) -> f32[8]   model.py:43",
        "    log(erf) -> f32[8]   model.py:44",
        "    abs(log) -> f32[8]   model.py:45",
        "    neg(abs) -> f32[8]   model.py:46",
        "  + sign(neg) -> f32[8]   model.py:47",
        "    sqrt(sign) -> f32[8]   model.py:48",
    ]


def test_what_changed_stands_opposite_what_it_was() -> None:
    old, new = (program("sin")._replace(equations=[f"mul\t$ {n}:f32[]\tf32[8]"]) for n in (2, 3))
    (_, row) = shown_lines(old, new, 140)
    before, mark, after = row[:69].strip(), row[70], row[72:].strip()
    assert (before, mark, after) == (
        "mul(input 1, 2:f32[]) -> f32[8]   model.py:40",
        "|",
        "mul(input 1, 3:f32[]) -> f32[8]   model.py:40",
    )


def test_equations_name_what_they_work_on() -> None:
    nested = f"jit\t$ $\tf32[8]\tjaxpr=@{'a' * 32}\tname=f"
    scaled = program()._replace(
        inputs=("f32[8]", "f32[]"),
        equations=["mul\t$ $\tf32[8]", nested, "add\t$ 1.0:f32[]\tf32[8]"],
        wires=[0, 1, 2, 1, 3],
    )
    arguments = array("batch['x']", "float32", 4), array("scale", "float32")

    def operands(listing: Listing, *leaves: Leaf) -> list[str]:
        known = Operands(leaves)
        return [", ".join(known.names(listing, index)) for index in range(3)]

    assert operands(scaled, *arguments) == ["batch['x'], scale", "mul, scale", "jit, 1.0:f32[]"]
    # Operands of a program with other inputs are unknown; so is a lost wire.
    other = array("scale", "float32", 2)
    assert operands(scaled, arguments[0], other)[0] == "input 1, input 2"
    assert operands(scaled._replace(wires=[0, 99]))[:2] == ["input 1, ?", "?, ?"]
    held = scaled._replace(constants=("f32[8]",))
    assert operands(held, arguments[1])[0] == "captured array, scale"
    # A sub-program is named by the hash of its content, which tells a reader nothing.
    swapped = scaled._replace(equations=[scaled.equations[0].replace("mul", "div"), nested])
    shown = "\n".join(shown_lines(scaled, swapped, 80))
    assert "jit[name=f](" in shown and "aaaa" not in shown
    another = scaled._replace(
        equations=[*scaled.equations[:1], nested.replace("a" * 32, "b" * 32)]
    )
    assert "jit[jaxpr=another name=f](" in "\n".join(shown_lines(scaled, another, 80))


WINDOW = "window_strides=(1,1) padding=((0,0),(0,0)) lhs_dilation=(1,1) rhs_dilation=(1,1)"


@pytest.mark.parametrize("width", [60, 80, 119, 120, 140])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"{WINDOW} groups=1", f"{WINDOW} groups=2"),
        (
            f"numbers={'((0,1),(2,3))' * 3}7{'(0,)' * 20}",
            f"numbers={'((0,1),(2,3))' * 3}8{'(0,)' * 20}",
        ),
        (f"{WINDOW} groups=1 {WINDOW}", f"{WINDOW} groups=2 {WINDOW}"),
    ],
)
def test_what_differs_beyond_the_cut_is_shown(old: str, new: str, width: int) -> None:
    def convolution(parameters: str) -> Listing:
        shown_lines = "\t".join(parameters.split())
        text = f"conv_general_dilated\t$ $\tf32[8,14,14,32]\t{shown_lines}"
        return program("conv")._replace(
            equations=[text],
            hash=parameters,
            stacks=((Frame("/home/examples/train_digits.py", 24, "f", 1, False),),),
        )

    _, *rows = shown_lines(convolution(old), convolution(new), width)
    half = (width - 5) // 2
    before, after = (
        (rows[0][2 : 2 + half], rows[0][5 + half :]) if width >= 120 else (r[4:] for r in rows)
    )
    assert before.strip() != after.strip()
    for text in (before, after):
        assert text.startswith("conv_general_dilated[" if 80 <= width < 120 else "conv")
        assert re.search(r" (\.\.\.\w*|examples)/train_digits\.py:24$", text.rstrip())


@given(st.text("ab", max_size=90), st.text("ab", max_size=90), st.integers(20, 60))
def test_two_texts_are_cut_so_that_they_differ(old: str, new: str, limit: int) -> None:
    for one, other in ((old, new), (f"{old}a{new}", f"{old}b{new}")):
        shown_lines = cut_apart(one, other, limit)
        assert max(map(len, shown_lines)) <= limit
        assert (shown_lines[0] == shown_lines[1]) == (one == other)


def test_equations_of_sub_programs_are_distinguished() -> None:
    whole = [side._replace(size=side.size + 57) for side in (OLD, NEW)]
    heading, *_ = shown_lines(whole[0], whole[1], 80)
    assert re.findall(r"\d+", heading) == ["65", "66", "8", "9"]


@pytest.mark.parametrize("width", [60, 80, 119, 120, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    def long(name: str) -> Listing:
        text = f"{name}\t{' '.join('$' * 60)}\tf32[8]\tdimensions={'1,' * 90}"
        return program(*NAMES)._replace(equations=[text] * 8, id=name, hash=name)

    assert max(map(len, shown_lines(long("dot"), long("conv"), width))) <= width


@pytest.mark.parametrize(
    ("columns", "wide"), [(80, False), (119, False), (120, True), (200, True)]
)
def test_the_terminal_decides(columns: int, wide: bool, tmp_path: Path) -> None:
    text = (
        "import sys\n"
        "from retrace.command import console\n"
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
    except OSError:  # how a terminal ends on Linux
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert (b"  - exp" in said) != wide
    assert (b" < " in said or b" <\r" in said) == wide


def test_remaining_lines_are_counted() -> None:
    many = program(*NAMES * 40), program(*[name + "2" for name in NAMES] * 40)
    assert shown_lines(*many, 140)[-1] == "  and 580 more lines"

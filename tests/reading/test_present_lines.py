"""A table of equations by source line, whose rows fit the terminal."""

from __future__ import annotations

import pytest

from retrace.compare.size import Amount, Sample, Samples
from retrace.model import Frame, Recording
from retrace.present.equations_by_line import table
from retrace.present.view import View
from retrace.present.words import argument

VIEW = View(Recording([], []), [], "/home")
PRIMITIVES = ("convert_element_type", "mul", "div", "add", "conv_general_dilated", "sub", "exp")


def row(file: str, width: int, function: str = "loss_fn") -> str:
    """The only row of the table for one line of a file, without its numbers."""
    stack = (Frame(file, 123, function, 1, False),)
    samples = Samples(
        {Sample(what, stack): Amount(9 - n, 10 - n) for n, what in enumerate(PRIMITIVES)}
    )
    told = table(VIEW, 1, samples, [], width).splitlines()
    assert max(map(len, told)) <= width
    return told[-1].partition(" % ")[2].split(maxsplit=1)[1]


@pytest.mark.parametrize("width", [70, 80, 100, 140])
@pytest.mark.parametrize("function", ["f", "loss_fn", "compute_the_loss_of_a_whole_epoch"])
def test_file_and_line_are_whole(width: int, function: str) -> None:
    said = row("/home/examples/train_digits_fixed.py", width, function)
    assert "train_digits_fixed.py:123" in said.split()[0]


def test_the_folder_goes_first_then_the_primitives() -> None:
    file = "/home/examples/train_digits_fixed.py"
    assert row(file, 80) == ".../train_digits_fixed.py:123 loss_fn"
    assert row("/home/train.py", 80) == "train.py:123 loss_fn   convert_element_type, ..."
    assert row("/home/a/rather/long/way/to/train.py", 80).startswith(
        ".../long/way/to/train.py:123 "
    )
    assert row("/home/b/train.py", 80).startswith("b/train.py:123 loss_fn ")


def test_a_wider_terminal_shows_more() -> None:
    file = "/home/examples/train_digits_fixed.py"
    told = [row(file, width) for width in (80, 100, 120, 140)]
    assert told == sorted(told, key=len)
    assert told[1].startswith("examples/train_digits_fixed.py:123 loss_fn   ")
    assert [sum(name in text for name in PRIMITIVES) for text in told] == [0, 0, 3, 4]


def test_no_column_repeats_how_often_an_equation_runs() -> None:
    stack = (Frame("/home/train.py", 123, "loss_fn", 1, False),)
    for run, columns in ((9, 2), (10, 3)):
        told = table(VIEW, 1, Samples({Sample("mul", stack): Amount(9, run)}), [], 80)
        assert (
            len(told.splitlines()[-1].partition("train.py")[0].replace(" %", "").split())
            == columns
        )
        assert ("run" in told.splitlines()[2]) == (columns == 3)


def test_a_file_name_longer_than_the_row_ends_it() -> None:
    file = f"/home/{'long_' * 8}name.py"
    assert row(file, 80).endswith("name.py:123")


def test_a_path_in_a_command_can_be_copied() -> None:
    assert argument(".retrace/2026-01-02T10-00-00") == ".retrace/2026-01-02T10-00-00"
    assert argument("my runs/it's") == """'my runs/it'"'"'s'"""
    assert argument("-dash") == "./-dash"

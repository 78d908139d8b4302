"""A sample of generated programs: their advice is followed by machine, results stay the same."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests import sample
from tests.generated.case import FAMILIES
from tests.generated.lengths import prove as prove_lengths
from tests.generated.lengths import proved, table
from tests.generated.proof import prove
from tests.generated.sample import drawn
from tests.generated.several import prove as prove_several

pytestmark = pytest.mark.drawn

SEVERAL = 6
"""So many with several things that vary."""
LENGTHS = 15
"""So many of many lengths."""
SAMPLE = 60
"""So many programs run in CI; `python -m tests.generated --count 5000` runs more."""
WRONG_ONCE = (
    # On the oldest JAX: a number of NumPy's beside one of Python's.
    ("static_values", 860587),
    # There too: True beside 1.0, passed by name.
    ("static_values", 860863),
    # Two constants of the program that change at once, and one of them alone elsewhere.
    ("sweeps_of_static_arguments", 20265872),
    # The rounds of a loop, of which one number comes in two types.
    ("static_values", 50261160),
    # A function over values of which two give one program, beside another: one for each value.
    ("functions_that_are_passed", 96),
)
"""By family, so that a new family does not make other programs of these seeds."""


def test_what_is_told_removes_the_miss_and_leaves_the_results() -> None:
    first = _first()
    told: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(first, first + SAMPLE):
        case = drawn(seed)
        wrong += [f"{case.name}: {problem}" for problem in prove(case, told)]
    assert wrong == []
    assert (
        sum(number for name, number in told.items() if name.endswith(": followed")) > SAMPLE / 3
    )
    assert 2 * len(FAMILIES) < SAMPLE


@pytest.mark.parametrize(("family", "seed"), WRONG_ONCE)
def test_what_was_once_found_wrong_is_right(family: str, seed: int) -> None:
    case = drawn(seed, family)
    assert prove(case, Counter()) == [], case.name


def test_what_is_said_of_each_step_alone_and_of_what_is_left_is_so() -> None:
    first = _first()
    wrong = [said for seed in range(first, first + SEVERAL) for said in prove_several(seed)]
    assert wrong == []


def test_what_is_padded_as_the_plan_chooses_is_as_much_as_it_says() -> None:
    first = _first()
    wrong = [said for seed in range(first, first + LENGTHS) for said in prove_lengths(seed)]
    assert wrong == []


@pytest.mark.parametrize("wide", [(8, 8, 22), (4, 8, 22)])
def test_two_axes_of_one_array_are_both_padded_where_one_decides_the_other(
    wide: tuple[int, ...],
) -> None:
    program = table("products", list(zip((3, 10, 24), wide, strict=True)))
    assert proved(program) == []


def _first() -> int:
    """The seed of the first program."""
    seed = os.environ.get("RETRACE_TEST_SEED")
    return (int(seed, 16) if seed else sample.number()) % 100_000

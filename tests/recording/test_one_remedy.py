"""A program whose eager lines have one remedy goes in; they come out as one cause."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrace.plan.order import plan
from retrace.present import plan_words
from retrace.present.message import fix, heading, lines
from retrace.present.tally import Tally
from retrace.present.view import View
from tests.recording.conftest import JudgeAll
from tests.recording.test_eager import library


def _scores(x: Any) -> Any:
    y = jnp.sin(x)
    y = jnp.cumsum(y)
    return jnp.sort(y)


def _program() -> None:
    jax.clear_caches()  # eager operations are compiled once for a whole process
    for size in range(2, 7):
        _scores(np.ones(size, np.float32))
    other = jax.device_put(np.ones(3, np.float32))
    for axes in ((1, 3), (3, 1), (1, 1, 3)):
        jnp.reshape(other, axes)


def test_lines_that_the_same_sizes_come_to_are_one_cause(judge_all: JudgeAll) -> None:
    recording, verdicts = judge_all(_program)
    view = View(recording, verdicts)
    tally = Tally.of(view)
    one_by_one = tally.groups()  # where there is no plan
    assert not any(group.places for group in one_by_one)
    found = plan(recording, verdicts)
    tally.gather(view, found)
    gathered = tally.groups()
    assert sum(group.count for group in gathered) == sum(group.count for group in one_by_one)
    (whole,) = [group for group in gathered if group.places]
    (first,) = {group.shown.miss.call_site for group in one_by_one} & {whole.places[0]}
    assert first is not None
    assert [site.line - first.line for site in whole.places] == [0, 1, 2]
    assert len(one_by_one) - len(gathered) == 2
    assert "on 3 lines" in heading(view, whole, "")
    told = {line.label: " ".join(line.cells) for line in lines(view, whole)}
    assert told["lines"].endswith(f":{first.line}, {first.line + 1} and {first.line + 2}")
    # What is asked for is of all of them, as the plan says it.
    assert fix(whole) != fix(next(g for g in one_by_one if g.shown is whole.shown))
    assert tally.group_of(whole.shown) is whole
    assert whole.site is not None
    assert (whole.site.file, whole.site.line) in {
        (step.proposal.file, step.proposal.line) for step in found.steps
    }


def test_advice_on_a_part_of_a_line_says_how_small_the_part_is(judge_all: JudgeAll) -> None:
    solver = library(
        "def smooth(f, x):\n    return jnp.cumprod(jnp.flip(f(jnp.roll(x, 1)))) ** 2.5\n"
    )

    def own(x: Any) -> Any:
        return jnp.arctan(x)

    def alone() -> Any:
        return solver.smooth(own, np.ones(3, np.float32))

    def among_others() -> Any:
        x = solver.smooth(own, np.ones(4, np.float32)); x = jnp.sin(jnp.cos(x)); x = jnp.tan(x); x = jnp.tanh(jnp.exp(x)); x = jnp.sinh(jnp.cosh(x)); x = jnp.log1p(jnp.sqrt(x)); x = jnp.cbrt(jnp.expm1(x)); return jnp.arcsinh(x)  # fmt: skip  # noqa: E501, E702

    def program() -> None:
        jax.clear_caches()
        alone()
        among_others()

    recording, verdicts = judge_all(program)
    view = View(recording, verdicts)
    tally = Tally.of(view)
    few, many = sorted(tally.groups(), key=lambda group: group.count)
    for group in (few, many):
        assert group.told == 1 and group.is_told_in_part
        assert (fix(group) or "").startswith(f"1 of the {group.count}: ")

    # Where one step of the plan is about most of the line, that says more.
    found = plan(recording, verdicts)
    tally.gather(view, found)
    few, many = sorted(tally.groups(), key=lambda group: group.count)
    assert (fix(few) or "").startswith(f"1 of the {few.count}: ")
    (step,) = found.steps
    assert fix(many) == plan_words.sentence(step.proposal)
    assert not many.places


def test_what_a_step_could_save_the_most_of_is_told_although_it_ran_once(
    judge_all: JudgeAll,
) -> None:
    def start(x: Any) -> Any:
        x = jnp.sinh(jnp.cosh(jnp.tan(jnp.cos(jnp.sin(x)))))
        return jnp.cbrt(jnp.log1p(jnp.abs(jnp.arctan(jnp.expm1(jnp.tanh(x))))))

    def program() -> None:
        jax.clear_caches()
        start(np.ones(3, np.float32))

    recording, verdicts = judge_all(program)
    view = View(recording, verdicts)
    tally = Tally.of(view)
    assert all(group.is_quiet for group in tally.groups())
    found = plan(recording, verdicts)
    tally.gather(view, found)
    (step,) = found.steps
    told = [group for group in tally.groups() if not group.is_quiet]
    assert told
    for group in told:
        assert fix(group) == plan_words.sentence(step.proposal)
        assert "not avoidable" not in heading(view, group, "")

"""Runs a generated program before and after following its advice, and compares both."""

# JAX's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from retrace.capture.session import begin_file, session
from retrace.causes import Cause
from retrace.model import Verdict
from retrace.model.advice import Advice, ToArgument
from retrace.plan.order import plan
from retrace.plan.step import Plan, Step
from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.generated.case import Case, Program


class Ran(NamedTuple):
    """What a program returned, and what was concluded about it."""

    results: Any
    verdicts: list[Verdict]
    plan: Plan

    @property
    def calls(self) -> int:
        """The number of outermost misses that are not eager operations."""
        return len(outermost(self.verdicts))


def outermost(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts that the plan counts as calls."""
    return [v for v in verdicts if v.miss.parent is None and v.cause is not Cause.EAGER_OP]


def ran(program: Program) -> Ran:
    """Run a program with empty caches while recording."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        writer = begin_file(Path(folder))
        try:
            # Otherwise an accelerator gives other digits for each size of a product.
            with jax.default_matmul_precision("highest"):
                results = program()
        finally:
            session().detach(writer)
        recording = read([Path(folder)])
        assert recording.runs[0].losses == {}, recording.runs[0].losses
        verdicts = judge(recording)
        return Ran(results, verdicts, plan(recording, verdicts))


def prove(case: Case, told: Counter[str]) -> list[str]:
    """What is wrong with the advice on a program.

    Args:
        case: the program and the edits.
        told: counts each advice as followed, asked, or given without an edit to follow it.
    """
    before = ran(case.before)
    problems: list[str] = []
    done: set[tuple[str, tuple[str, ...]]] = set()
    for verdict in outermost(before.verdicts):
        advice = verdict.fix
        if advice is None:
            if verdict.avoidable == "yes":
                problems.append(f"{verdict.cause} is avoidable, and nothing is advised")
            continue
        if isinstance(advice, case.never):
            problems.append(f"{_named(advice)} was given")
        if (advice.code, advice.paths) in done:
            continue
        done.add((advice.code, advice.paths))
        if advice.sure == "ask":
            told[f"{advice.code}: asked"] += 1
            continue
        edit = case.edits.get(type(advice))
        if edit is None:
            told[f"{advice.code}: told, not followed"] += 1
            if verdict.avoidable == "yes":
                problems.append(f"{_named(advice)} is said to be avoidable: no edit does that")
            continue
        told[f"{advice.code}: followed"] += 1
        problems += _followed(case, before, verdict, advice, edit(advice))
    return problems


def _named(advice: Advice) -> str:
    return f"{type(advice).__name__}({', '.join(advice.paths)})"


def _followed(
    case: Case, before: Ran, verdict: Verdict, advice: Advice, program: Program
) -> list[str]:
    try:
        after = ran(program)
    except Exception as error:  # noqa: BLE001 - whatever following it raises
        return [f"{_named(advice)} raises {error!r:.300}"]
    problems: list[str] = []
    if not _same(before.results, after.results, close=case.close):
        problems.append(
            f"{_named(advice)} changes results: {before.results!r:.300} -> {after.results!r:.300}"
        )
    step = _step(before.plan, verdict, advice)
    if step is None:
        if verdict.avoidable == "yes":
            problems.append(f"{_named(advice)} is in no step of the plan")
        elif after.calls > before.calls:
            problems.append(f"{_named(advice)}: {before.calls} -> {after.calls} calls")
        return problems
    # A few sizes may be a single one; for a step that is a question, this is only a part.
    told = {path for change in step.proposal.changes for path in change.paths}
    fewer = (step.proposal.sizes or step.proposal.pairs) is not None or not told.issuperset(
        advice.paths
    )
    fewer = fewer or (isinstance(advice, ToArgument) and bool(advice.unread))
    low = 0 if fewer else before.calls - step.alone.calls.high
    high = before.calls - min(step.alone.calls.low, 1 if step.sure == "ask" else before.calls)
    if not low <= after.calls <= high:
        left = [(str(v.cause), v.miss.function.name) for v in outermost(after.verdicts)]
        problems.append(
            f"{_named(advice)} leaves {after.calls} of {before.calls} calls, {low:g} to {high:g} "
            f"were said: {left}"
        )
    return problems


def _step(plan: Plan, verdict: Verdict, advice: Advice) -> Step | None:
    """The step that is about the advice, or else the one that removes the miss."""
    about = [
        step
        for step in plan.steps
        if advice.paths
        and any({*change.paths}.issuperset(advice.paths) for change in step.proposal.changes)
    ]
    steps = [
        step
        for step in about
        if verdict.miss.id in step.misses or type(step.proposal.advice) is type(advice)
    ]
    rest = (step for step in plan.steps if verdict.miss.id in step.misses)
    # An earlier step may already remove the miss.
    return next((step for step in (*steps, *about, *rest)), None)


def _same(before: Any, after: Any, *, close: bool) -> bool:
    a, b = jax.tree.flatten(before), jax.tree.flatten(after)
    if a[1] != b[1]:
        return False
    for one, other in zip(a[0], b[0], strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if close:
            if not np.allclose(one, other, rtol=1e-5, equal_nan=True):
                return False
        elif not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return False
    return True

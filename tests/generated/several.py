"""Programs in which several things vary, each of which can be fixed alone or with the others.

What the plan says about each step alone, about each after the previous ones, and about what is
left in the end is checked by counting in the program with exactly those things fixed.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import jax
import numpy as np

from retrace.causes import Cause
from retrace.plan.amount import Span
from retrace.plan.step import Plan
from tests.generated.proof import ran

Call = dict[str, Any]


class Fault(NamedTuple):
    """One thing that varies between calls."""

    cause: Cause
    name: str
    values: tuple[Any, ...]
    fixed: Any
    """What every call has once it is fixed."""


def _faults(rng: Random) -> list[Fault]:
    sizes = rng.sample((40, 80, 120, 160), rng.randint(2, 4))
    numbers = rng.sample((1.5, 2.5, 3.5, 4.5), rng.randint(2, 4))
    return [
        Fault(Cause.SHAPE_CHANGED, "size", tuple(sizes), max(sizes)),
        Fault(Cause.STATIC_ARGUMENT_CHANGED, "n", tuple(numbers), None),
        Fault(Cause.DTYPE_CHANGED, "dtype", (np.float32, np.int32), np.float32),
        Fault(Cause.CALL_SIGNATURE_CHANGED, "named", (True, False), True),
        Fault(Cause.TREE_STRUCTURE_CHANGED, "listed", (False, True), False),
        Fault(Cause.LAMBDA_RECREATED, "again", (1, 2, 3), 1),
    ]


class Several(NamedTuple):
    """A program with several faults, and how its calls combine them."""

    faults: tuple[Fault, ...]
    calls: tuple[Call, ...]
    mixed: bool
    """Whether all vary at once: it is unknown which values could share a program, and the plan
    may promise less than comes true."""

    def run(self, fixed: Sequence[Cause]) -> Any:
        """Call the program with some of its faults fixed."""
        by_name = {fault.name: fault for fault in self.faults if fault.cause in fixed}
        static = () if "n" in by_name else ("n",)

        def make() -> Any:
            return jax.jit(lambda xs, b, n: (xs[0] * n).sum() + b, static_argnames=static)

        once, made = make(), dict[Any, Any]()
        found: list[Any] = []
        for call in self.calls:
            own = {
                name: by_name[name].fixed if name in by_name and name != "n" else value
                for name, value in call.items()
            }
            step = made.setdefault(own["again"], once if own["again"] == 1 else make())
            x = np.ones(own["size"], own["dtype"])
            xs = [x] if own["listed"] else (x,)
            b = np.float32(1)
            found.append(step(xs, b=b, n=own["n"]) if own["named"] else step(xs, b, n=own["n"]))
        return found


def drawn(seed: int) -> Several:
    """The program of a seed."""
    rng = Random(seed)
    faults = tuple(rng.sample(_faults(rng), rng.randint(2, 3)))
    plain: Call = {
        "size": 40,
        "n": 1.5,
        "dtype": np.float32,
        "named": True,
        "listed": False,
        "again": 1,
    }
    way = rng.choice(("all", "all", "in turn", "together"))
    calls: list[Call] = []
    if way == "all":
        calls = [
            plain | {f.name: v for f, v in zip(faults, values, strict=True)}
            for values in product(*(fault.values for fault in faults))
        ]
    elif way == "in turn":
        calls = [plain | {f.name: f.values[0] for f in faults}]
        for fault in faults:
            calls += [calls[0] | {fault.name: value} for value in fault.values]
    else:
        # For a function that is new at each call along with everything else, nothing shows which
        # program it would share.
        faults = tuple(f for f in faults if f.name != "again")
        longest = max(len(fault.values) for fault in faults)
        for index in range(longest):
            calls.append(
                plain | {f.name: f.values[min(index, len(f.values) - 1)] for f in faults}
            )
    return Several(faults, tuple(calls), way == "together")


def prove(seed: int) -> list[str]:
    """What the plan gets wrong about the program of a seed."""
    program = drawn(seed)
    named = f"{seed}: {[(f.name, len(f.values)) for f in program.faults]}"
    before = ran(lambda: program.run(()))
    plan: Plan = before.plan
    counted: dict[frozenset[Cause], int] = {}

    def left_with(causes: frozenset[Cause]) -> int:
        if causes not in counted:
            counted[causes] = ran(lambda: program.run(tuple(causes))).calls
        return counted[causes]

    problems: list[str] = []
    done: frozenset[Cause] = frozenset()
    for number, step in enumerate(plan.steps, 1):
        own = frozenset(step.causes) & {fault.cause for fault in program.faults}
        if step.proposal.sizes is not None and len(step.proposal.sizes.chosen.sizes) > 1:
            return []  # several sizes, which is not how it is fixed here
        advice = step.proposal.advice
        told = {path for change in step.proposal.changes for path in change.paths}
        is_own = advice is not None and advice.paths and told.issuperset(advice.paths)
        is_own = is_own or any(
            verdict.fix == advice and verdict.cause in step.causes for verdict in before.verdicts
        )
        if advice is not None and not is_own:
            problems.append(f"{named}: step {number} advises {advice}, which is another's")
        after = done | own
        for span, what, causes in (
            (plan.now.calls.minus(step.alone.calls), "alone", own),
            (step.left.calls, "left", after),
        ):
            true = left_with(causes)
            if not _holds(span, true, mixed=program.mixed):
                problems.append(
                    f"{named}: step {number} ({', '.join(map(str, step.causes))}) says {what} "
                    f"{span}, and {true} of {before.calls} are left"
                )
        done = after
    every = frozenset(fault.cause for fault in program.faults)
    if not _holds(plan.floor.calls, least := left_with(every), mixed=program.mixed):
        problems.append(f"{named}: the floor is {plan.floor.calls}, and {least} are left")
    return problems


def _holds(span: Span, true: int, *, mixed: bool) -> bool:
    return (mixed or span.low <= true) and true <= span.high

"""What a step says besides its advice, which is that on one of its misses."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.model import Verdict
from retrace.model.advice import Advice, InjectHyperparams, LeaveOutValue, ToArgument, ToArray
from retrace.plan.candidate import Candidate, omitted
from retrace.plan.edits import VALUES
from retrace.plan.reach import Reach
from retrace.reason.held import is_in

_MAX_BESIDES = 2
_OF_VALUES = (InjectHyperparams, LeaveOutValue, ToArgument, ToArray)


def besides(
    members: Sequence[Candidate], own: Sequence[Verdict], advised: Advice, reach: Reach
) -> tuple[Advice, ...]:
    """What other misses are told about other values of the same object."""
    if members[0].family not in VALUES:
        return ()
    paths = tuple(path for path in reach.paths(members[0]) if path)
    known = {*advised.paths}
    found: list[Advice] = []
    for fix in [verdict.fix for verdict in own if isinstance(verdict.fix, _OF_VALUES)]:
        inside = all(is_in(path, paths) for path in fix.paths)
        if inside and known.isdisjoint(fix.paths) and not fix.others:
            known |= {*fix.paths}
            found.append(fix)
    return tuple(found[:_MAX_BESIDES])


def optional_arguments(members: Sequence[Candidate], reach: Reach) -> tuple[str, ...]:
    """The arguments among the changes that are None where a call omits them."""
    columns = [one for m in members if m.family == "signature" for one in reach.columns(m)]
    return tuple(dict.fromkeys(name for column in columns for name in omitted(*column)))

"""The plan for the top of a report, and for the end of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrace.failure import contain, send

if TYPE_CHECKING:
    from retrace.command.selection import Told
    from retrace.plan.step import Plan


def steps_of(told: Told) -> Plan | None:
    """The plan for the top of a report; None where not all misses are at hand."""
    if told.is_large or told.is_part:
        return None
    from retrace.plan.order import plan

    # A report, or the end of somebody's program, is not to fail for it.
    return contain(_untold, plan, told.view.recording, told.view.verdicts)


def _untold(error: Exception) -> None:
    send("the plan could not be made", error)

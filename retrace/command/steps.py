"""The plan shown in a report and at the end of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrace.failure import contain, send

if TYPE_CHECKING:
    from retrace.command.selection import Selection
    from retrace.plan.step import Plan


def steps_of(selection: Selection) -> Plan | None:
    """The plan to show in a report; None unless all misses are in memory."""
    if selection.is_large or selection.is_part:
        return None
    from retrace.plan.order import plan

    # A failing plan must not break a report or the end of the user's program.
    return contain(_report_failure, plan, selection.view.recording, selection.view.verdicts)


def _report_failure(error: Exception) -> None:
    send("the plan could not be made", error)

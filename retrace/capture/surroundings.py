"""The fields of a miss about the lines around its call, computed on the writer thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from retrace.capture.place import Line, around
from retrace.model import CallSite, Function, Kind
from retrace.model.miss_fields import MissFields


def surroundings(
    stack: Sequence[Line],
    function: Function,
    is_outermost: bool,
    settings: Callable[[], Mapping[str, CallSite]],
) -> tuple[CallSite | None, MissFields]:
    """Return the line of a call, and the miss's fields about the lines around it.

    Args:
        stack: the positions of the call's frame and its callers.
        function: the function that missed.
        is_outermost: whether it ran outside any other miss.
        settings: returns where options were set.
    """
    seen = around(stack)
    operation = function.kind is Kind.OP
    # An operation with a body begins where that is traced, or at its own call if it is not.
    has_body = function.file is not None
    fields: MissFields = {"lines": seen.path if operation and not has_body else seen.lines}
    if seen.through is not None and (function.in_library or operation):
        fields["through"] = seen.through
    if seen.via is not None and (not operation or seen.through is not None):
        fields["via"] = seen.via
    if seen.callers and is_outermost:
        fields["callers"] = seen.callers
    if operation:
        if seen.entry is not None and seen.entry != seen.site:
            fields["entry"] = seen.entry
        if seen.within is not None:
            fields["within"] = seen.within
        if seen.picked is not None:
            fields["picked"] = seen.picked
    if found := settings():
        fields["settings"] = tuple(found.items())
    return seen.site, fields

"""A test after which no program that it traced may be out of date."""

from __future__ import annotations


def begun() -> int:
    """How many misses there have been in this process."""
    from retrace.capture.session import session

    return getattr(getattr(session().recorder, "misses", None), "begun", 0)


def out_of_date(since: int) -> tuple[list[str], str]:
    """Which programs are out of date that misses from one on have traced.

    Returns:
        A line for each, and the explanation of all; a line too where it cannot be told.
    """
    from retrace.auditing.examination import Limits
    from retrace.auditing.request import audit
    from retrace.inside.stale import told

    found = audit(Limits(since=since))
    if found is None:
        return ["stale: no audit could be made, so that nothing was checked"], ""
    every = told(found)
    bad = [one for one in every if one.verdict == "proved"]
    if not bad:
        return [], ""
    heads = [
        f"{one.function} is out of date: {', '.join(read['name'] for read in one.reads)} "
        "changed after its trace"
        if one.reads
        else f"{one.function} is out of date: traced now, it is another program"
        for one in bad
    ]
    return heads, str(every)

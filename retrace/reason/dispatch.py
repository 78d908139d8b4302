"""What each call of a compiled function costs, as far as the program shows."""

from __future__ import annotations

from retrace.model import Callback, Kind, Miss, Run, Stage, Verdict


def slow_dispatch(verdict: Verdict, run: Run | None) -> tuple[Callback, ...]:
    """What keeps calls of the function off JAX's fast path; empty if nothing is known to.

    Args:
        verdict: the verdict on the miss.
        run: the process that recorded it.
    """
    miss = verdict.miss
    if run is None or not run.off_fast_path or not _is_dispatched(miss):
        return ()
    program = miss.program
    if program is None and Stage.TRACE not in miss.stages and verdict.nearest is not None:
        program = verdict.nearest.program  # traced ahead of time
    if program is None:
        return ()
    return tuple([one for one in program.callbacks if _reason(one) in run.off_fast_path])


def _is_dispatched(miss: Miss) -> bool:
    """Whether later calls run this program, unlike those inside another function's trace."""
    return (
        Stage.COMPILE in miss.stages
        and miss.raised is None
        and miss.parent is None
        and miss.derived is None
        and not (miss.nested or miss.ahead)
        and miss.function.kind is not Kind.OP
    )


def _reason(callback: Callback) -> str:
    return "host-callbacks" if callback.primitive == "pure_callback" else "effects"

"""Whether silence can be trusted: no miss was seen because there was none.

A guard that finds nothing passes only if retrace can see what JAX does. Running a test function
to find out would be a trace that JAX counts, an event for other listeners, and perhaps the first
use of a device. Instead this checks that everything recording relies on exists, that JAX still
calls our hooks, and that nothing was lost meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from retrace.errors import CannotTellError

if TYPE_CHECKING:
    from retrace.model import Recording, Run

HARMLESS = (
    "this JAX does not show its listeners",
    "this JAX does not show its on-disk cache",
    "this JAX does not show the parts of on-disk cache keys",
    "this JAX does not count its own work",
    "this JAX does not let a call be refused at its end",
    "this JAX does not let functions be traced anew",
    "this JAX does not show the job of jax.distributed",
    "this JAX does not show which devices a program is compiled for",
    "this JAX does not let retrace leave its frames out of programs",
    "this Python's bytecode is not known",
    "this Python does not show `with` statements",
    "this Python does not show attributes",
)
"""Losses (of `jax_internals` and `capture.interpreter`) that hide no miss and change no cause."""
OF_PROGRAMS = (
    "this JAX does not show programs",
    "a program that JAX dropped before it was written down",
    "programs not written",
    "unreadable programs",
)
"""Prefixes of losses that only matter if programs are compared."""
_LOWERED_BEFORE = "a program was compiled that was lowered before recording began"
"""The loss (of `jax_internals`) for which the program is the reason, not JAX."""
_MAX_REASONS = 3


def hiding(losses: Iterable[str], *, programs: bool = False) -> list[str]:
    """The losses that may hide something relevant, without duplicates.

    Args:
        losses: names of losses.
        programs: whether programs matter, not only misses and their causes.
    """
    harmless = HARMLESS if programs else (*HARMLESS, *OF_PROGRAMS)
    return [loss for loss in dict.fromkeys(losses) if not loss.startswith(harmless)]


def losses() -> int:
    """How many losses this process has counted, to pass to `doubt` later."""
    from retrace.capture.session import session

    return session().losses


def doubt(guard: str, since: int) -> CannotTellError | None:
    """The error to raise instead of passing; None if misses would have been seen.

    Args:
        guard: the name of the guard.
        since: the result of `losses` when the guard began.
    """
    from retrace.capture.session import session

    found = hiding(session().doubts(since))
    return CannotTellError(f"{guard}: {cannot_tell(found)}") if found else None


def cannot_tell(reasons: Sequence[str], where: str = "on this JAX") -> str:
    """Why nothing can be concluded, as the end of a message."""
    if all(reason == _LOWERED_BEFORE for reason in reasons):
        return f"cannot tell: {_LOWERED_BEFORE}, so that its function is not known"
    return f"cannot tell {where}: {_some(reasons)} (see `retrace doctor`)"


def _some(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - _MAX_REASONS:,} more" if len(reasons) > _MAX_REASONS else ""
    return f"{'; '.join(reasons[:_MAX_REASONS])}{more}"


def never_imported_jax(recording: Recording) -> bool:
    """Whether no process of a recording used JAX."""
    return bool(recording.runs) and all(run.is_without_jax for run in recording.runs)


def doubt_of(recording: Recording, *, programs: bool) -> CannotTellError | None:
    """The error to raise instead of passing a recording; None if it can be trusted.

    Args:
        recording: any number of processes.
        programs: whether its programs are compared with a baseline.
    """
    from retrace.runs.ended import cut_short

    found = hiding((name for run in recording.runs for name in run.losses), programs=programs)
    if not recording.misses and any(run.jax for run in recording.runs):
        found.insert(0, "jax was imported but no miss was seen")
    cut = [_end(run, by) for run, by in cut_short(recording)]
    if found:
        return CannotTellError(cannot_tell([*cut, *found], "from this recording"))
    if cut:
        return CannotTellError(f"cannot tell from this recording: {_some(cut)}")
    return None


def _end(run: Run, raised: str | None) -> str:
    if raised is not None:
        return f"the program was ended by {raised}"
    which = f"process {run.pid} on {run.host}" if run.pid else f"process {run.id}"
    return f"{which} did not end (killed, or still running)"

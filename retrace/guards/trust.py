"""Whether silence means anything: that no miss was seen because there was none.

A guard that finds nothing to object to passes only where retrace sees what JAX does. It does not
run a function of its own to find out: that would be a trace that JAX counts, an event
that others hear, and perhaps the first touch of a device. Instead it asks whether
everything is there that recording relies on, whether JAX still calls what was put into it, and
whether anything was lost meanwhile.
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
"""Losses that hide no miss and change no cause: of `jax_internals`, of `capture.interpreter`."""
OF_PROGRAMS = (
    "this JAX does not show programs",
    "a program that JAX dropped before it was written down",
    "programs not written",
    "unreadable programs",
)
"""How losses begin that only matter where programs are compared."""
_MAX_REASONS = 3


def hiding(losses: Iterable[str], *, programs: bool = False) -> list[str]:
    """Those losses, each once, behind which something may be hidden that would count.

    Args:
        losses: by name.
        programs: whether programs count too, beside misses and their causes.
    """
    harmless = HARMLESS if programs else (*HARMLESS, *OF_PROGRAMS)
    return [loss for loss in dict.fromkeys(losses) if not loss.startswith(harmless)]


def losses() -> int:
    """How many losses this process has counted, to ask `doubt` from here on."""
    from retrace.capture.session import session

    return session().losses


def doubt(said: str, since: int) -> CannotTellError | None:
    """What to raise in place of passing; None where misses would have been seen.

    Args:
        said: the guard that asks.
        since: what `losses` gave when the guard began.
    """
    from retrace.capture.session import session

    found = hiding(session().doubts(since))
    return CannotTellError(f"{said}: {told(found)}") if found else None


def told(reasons: Sequence[str], where: str = "on this JAX") -> str:
    """Why nothing can be concluded, as the end of a line."""
    return f"cannot tell {where}: {_some(reasons)} (see `retrace doctor`)"


def _some(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - _MAX_REASONS:,} more" if len(reasons) > _MAX_REASONS else ""
    return f"{'; '.join(reasons[:_MAX_REASONS])}{more}"


def never_imported_jax(recording: Recording) -> bool:
    """Whether no process of a recording had anything to do with JAX."""
    return bool(recording.runs) and not any(run.jax or run.losses for run in recording.runs)


def doubt_of(recording: Recording, *, programs: bool) -> CannotTellError | None:
    """What to raise in place of finding a recording in order; None where it can be trusted.

    Args:
        recording: of any number of processes.
        programs: whether its programs are compared with a baseline.
    """
    from retrace.runs.ended import cut_short

    found = hiding((name for run in recording.runs for name in run.losses), programs=programs)
    if not recording.misses and any(run.jax for run in recording.runs):
        found.insert(0, "jax was imported and not one miss was seen")
    cut = [_end(run, by) for run, by in cut_short(recording)]
    if found:
        return CannotTellError(told([*cut, *found], "from this recording"))
    if cut:
        return CannotTellError(f"cannot tell from this recording: {_some(cut)}")
    return None


def _end(run: Run, raised: str | None) -> str:
    if raised is not None:
        return f"the program was ended by {raised}"
    return f"process {run.pid} on {run.host} did not end (killed, or still running)"

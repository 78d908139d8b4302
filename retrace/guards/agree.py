"""`retrace.agree`: reports processes with different programs before XLA waits for ever."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Literal

from retrace.errors import DisagreementError, RetraceError, UsageError
from retrace.failure import say
from retrace.guards.agreement import Agreement, Disagreement, Late, Published
from retrace.inside.live import is_off

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retrace.model import CallSite, Function, Key, Value

MODES = ("raise", "warn", "off")
_MAX_KEPT = 4096
"""Misses that have begun but are not compiled yet."""
_MAX_PARTS = 400
_MAX_CHARACTERS = 120
_failed = False


def agree(on: Literal["raise", "warn", "off"] = "raise", timeout: float = 60.0) -> None:
    """Check from now on that the processes of a job compile the same programs.

    Before a program that several processes run is compiled, its hash is published through the
    key-value store of `jax.distributed`. If another process has a different program at the
    same place, both say which, where and why. A late process is reported, but is no error.
    Programs that a process runs on its own devices are not compared, and a call that hits the
    cache costs nothing.

    Args:
        on: "raise" waits for the other processes and raises at a call where they differ;
            "warn" does not wait and reports on stderr; "off" ends checking.
        timeout: how many seconds to wait for the others at each program.

    Raises:
        UsageError: an argument is nonsense.
        CannotTellError: this JAX does not show enough of its programs.

    Example:
        >>> import retrace
        >>> retrace.agree("warn")
        >>> retrace.agree("off")
    """
    if on not in MODES:
        raise UsageError(f"agree() takes 'raise', 'warn' or 'off', not {on!r}")
    if not timeout > 0:
        raise UsageError(f"agree() needs a timeout above 0 seconds, not {timeout!r}")
    if is_off():
        return
    from retrace.capture.session import session

    if on == "off":
        session().meet(None)
        return
    here = _Here(raises=on == "raise", timeout=float(timeout))
    session().meet(here, here.noted, here.stop)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.error: BaseException | None = None


class _Here:
    """This process's programs, to be agreed on."""

    def __init__(self, *, raises: bool, timeout: float) -> None:
        self._raises = raises
        self._timeout = timeout
        self._begun: dict[int, tuple[Function, Key, CallSite | None]] = {}
        self._agreements: dict[tuple[str | None, int], Agreement] = {}
        self._thread = _Thread()

    def noted(self, number: int, function: Function, key: Key, site: CallSite | None) -> None:
        """A miss began, or the operation of one that had begun became known."""
        known = self._begun.get(number)
        self._begun[number] = (function, key, site if known is None else known[2])
        while len(self._begun) > _MAX_KEPT:  # traces that were never compiled
            self._begun.pop(next(iter(self._begun), -1), None)

    def alone(self, number: int) -> None:
        """This process runs the program alone."""
        self._begun.pop(number, None)

    def joint(self, number: int, program: str | None, processes: tuple[int, ...]) -> None:
        """A program that several processes run is about to be compiled."""
        begun = self._begun.pop(number, None)
        if program is None or begun is None:
            return
        from retrace.jax_internals.job import joined

        job = joined()
        if job is None:
            return
        connection = (job.coordinator, job.connection)
        agreement = self._agreements.get(connection)
        if agreement is None:
            seconds = self._timeout if self._raises else None
            agreement = Agreement(job.store, job.process, seconds)
            self._agreements = {connection: agreement}
        try:
            found = agreement.meet(_described(program, *begun), processes, _late)
        except RuntimeError as error:
            _store_failed(error)
            return
        if found is None:
            return
        text = _disagreement_text(found, job.process)
        if self._raises:
            self._thread.error = DisagreementError(text)
        else:
            say(f"retrace: {text}")

    def stop(self) -> BaseException | None:
        """The error to raise in this thread, if any."""
        error, self._thread.error = self._thread.error, None
        return error


def _described(program: str, function: Function, key: Key, site: CallSite | None) -> Published:
    from retrace.model.parts import VALUES
    from retrace.present.detail import array

    where = f"{function.file}:{function.line}" if function.file else function.jax_name
    called = "" if site is None else f", called from {site.file}:{site.line}"
    inputs = {
        "argument": [
            (leaf.path, array(leaf) + (f" {leaf.sharding}" if leaf.sharding else ""))
            for leaf in key.leaves[:_MAX_PARTS]
        ],
        **{
            row.one: _texts([one for one in row.of(key) if one[0] not in row.of_process])
            for row in VALUES
        },
        "closure": _texts((*function.closure, *function.bound, *function.defaults)),
        "global": _texts(function.reads),
        "code": [("code", function.code or "")],
    }
    label = f"{function.name} ({where}{called})"
    return Published(f"{function.site} {','.join(function.wrappers)}", label, program, inputs)


def _texts(values: Iterable[tuple[str, Value]]) -> list[tuple[str, str]]:
    return [(name, value.text[:_MAX_CHARACTERS]) for name, value in values][:_MAX_PARTS]


def _disagreement_text(found: Disagreement, process: int) -> str:
    why = "; ".join(found.differences)
    because = f": {why}" if why else ", with equal arguments and settings"
    return (
        f"process {process} has a different program than process {found.process} at "
        f"{found.label}{because}. All processes must compile the same programs, or they wait "
        "forever."
    )


def _late(late: Late) -> None:
    missing = [
        f"process {process}" + (f" (last seen at {last})" if last else " (compiled nothing yet)")
        for process, last in list(late.last.items())[:4]
    ]
    more = f" and {len(late.last) - 4} more" if len(late.last) > 4 else ""
    say(
        f"retrace: {late.label}: {', '.join(missing)}{more} did not arrive within "
        f"{late.waited:.0f} s; continuing without waiting"
    )


def _store_failed(error: RuntimeError) -> None:
    global _failed
    if not _failed:
        _failed = True
        say(f"retrace: agree: the store of jax.distributed failed ({str(error).splitlines()[0]})")


def start_from_environment() -> None:
    """Apply `RETRACE_AGREE` (`raise`, `warn`, `raise:30`) once jax is imported."""
    from retrace.capture.on_import import call

    def begin() -> None:
        try:
            mode, _, seconds = os.environ["RETRACE_AGREE"].partition(":")
            agree("raise" if mode == "1" else mode, float(seconds or 60.0))  # pyright: ignore[reportArgumentType]
        except (RetraceError, ValueError) as error:
            say(f"retrace: RETRACE_AGREE: {error}")

    call(begin)

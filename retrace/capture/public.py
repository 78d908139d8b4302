"""Records with JAX's public events alone, for a version of JAX whose internals are unknown.

They report the name of a function and the seconds of each stage, but no key and no nested
traces, and the trace event also fires on some hits. Each recording says so.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax

from retrace.capture.journal import Journal
from retrace.capture.lock import Count
from retrace.capture.place import call_site
from retrace.failure import contain, ignore, say
from retrace.jax_internals import names_hooks as at
from retrace.model import Function, Key, Kind, Stage
from retrace.model.miss_fields import MissFields
from retrace.store.writer import Writer

LOSS = "this JAX is not known, recorded with its public events alone, without keys"
_STAGES = {
    at.TRACE_EVENT.name: Stage.TRACE,
    at.LOWER_EVENT.name: Stage.LOWER,
    at.COMPILE_EVENT.name: Stage.COMPILE,
}


class _Thread(threading.local):
    def __init__(self) -> None:
        self.last: tuple[int, str, Stage] | None = None


class PublicEvents:
    """Listens to `jax.monitoring`; stands in for the recorder and its hooks."""

    def __init__(self, reason: Exception | str) -> None:
        """`reason` is what JAX lacks, or the loss to record for this Python."""
        self.journal = Journal()
        self._reason = reason if isinstance(reason, str) else f"{LOSS}: {reason}"
        self._numbers = Count()
        self._thread = _Thread()
        self._listening = False
        self._failed = False
        self._muted = True

    @property
    def installed(self) -> bool:
        """Whether anything is recorded."""
        return not self._muted

    def install(self) -> None:
        """Start listening."""
        self._muted = False
        if not self._listening:
            self._listening = True
            jax.monitoring.register_event_duration_secs_listener(self._on_duration)

    def remove(self) -> None:
        """Ignore further events. The public API cannot unregister a listener."""
        self._muted = True

    def refuse(self, refusal: Callable[[], BaseException | None] | None) -> None:
        """Do nothing: public events arrive only when a stage is over."""

    def blind(self) -> list[str]:
        """Why misses may go unseen."""
        return [self._reason]

    def cut(self) -> list[str]:
        """Nothing was patched in JAX, so no patch can have been removed."""
        return []

    def began(self, writer: Writer) -> None:
        """Write into a recording what it lacks."""
        writer.loss(self._reason)

    def _on_duration(self, event: str, duration_secs: float, **metadata: Any) -> None:
        stage = _STAGES.get(event)
        if stage is None or self._muted or not self.journal.writers:
            return
        name = str(metadata.get("fun_name", ""))
        self.guarded(self._record, stage, name, duration_secs, inspect.currentframe())

    def _record(self, stage: Stage, name: str, seconds: float, frame: FrameType | None) -> None:
        name = name.removeprefix("jit(").removesuffix(")") or "<unknown>"
        last = self._thread.last
        order = list(Stage)
        if last is not None and last[1] == name and order.index(stage) > order.index(last[2]):
            number = last[0]
        else:
            number = self._numbers()
            site = call_site(frame)
            where = "?" if site is None else f"{site.file}:{site.line}"
            function = Function(
                name, name, name, Kind.DEF, None, None, f"{name} at {where}", object=0
            )
            fields: MissFields = {"stage": stage}
            self.journal.begin(number, function, Key(), site, fields, self.journal.writers)
        self._thread.last = (number, name, stage)
        self.journal.amend(number, {"stages": {stage: seconds}})

    def guarded(self, call: Callable[..., None], *args: Any) -> None:
        """Run code of retrace, and keep its failures from the program."""
        contain(self._fail, call, *args)

    def _fail(self, error: Exception) -> None:
        for writer in self.journal.writers:
            contain(ignore, writer.loss, f"{type(error).__name__} while recording")
        if not self._failed:
            self._failed = True
            say(f"retrace: the recording is not whole: {error!r}")

    def site_of(self, function: Any) -> str:
        """The definition site of a function; only its name is known."""
        return f"{getattr(function, '__name__', '')} at ?"

    def describe(self, function: Any) -> Function:
        """Describe a function as its misses would: by name only."""
        name = str(getattr(function, "__name__", ""))
        return Function(name, name, name, Kind.DEF, None, None, f"{name} at ?", object=0)

    def ended(self) -> None:
        """Do nothing: nothing is kept."""

    def forked(self) -> None:
        """Do nothing: no state needs to be replaced in a child."""

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

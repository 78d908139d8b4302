"""Writes misses to all recordings in progress, on disk and in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from retrace.capture.background import NAMED, Task
from retrace.jax_internals.backend import running
from retrace.jax_internals.config import settings
from retrace.model import (
    JSON,
    CallSite,
    Function,
    Key,
    Listing,
    PersistentCache,
    Stage,
)
from retrace.model.miss_fields import MissFields
from retrace.model.parts import CONTEXT
from retrace.store.parts import encode_call_site, encode_function
from retrace.store.schema import encode_miss
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

Event: TypeAlias = Literal["begun", "known", "compiled"]
"""A miss began; its operation became known; it completed its last stage."""

_COMPILE = Stage.COMPILE
_MAX_LOSSES = 10_000
_MAX_OPEN = 100_000
"""Maximum number of misses that can be amended; older ones have long been complete."""
_NO_PARTS: Mapping[str, JSON] = MappingProxyType({})


class Journal:
    """Sends each miss to its writers, and tells listeners in this process."""

    def __init__(self) -> None:
        self.later: Callable[[Task], None] = _now
        """Runs a task on the thread that writes, after those before it; here until it is set."""
        self.writers: tuple[Writer, ...] = ()
        """The writers that get every miss."""
        self.own: Callable[[Any], tuple[Writer, ...]] = _nobody
        """Further writers for functions jitted with these options (`retrace.jit`)."""
        self.owned: tuple[Writer, ...] = ()
        """The further writers that have started."""
        self.on_event: Callable[[int, Event, tuple[Function, ...]], None] | None = None
        """Called immediately, on the stack of the call, with each event of a miss."""
        self.noted: Callable[[int, Function, Key, CallSite | None], None] | None = None
        """Called immediately with what is known about a miss, as it begins or later."""
        self.losses: list[str] = []
        """What could not be recorded, in order, up to a limit."""
        self._writers: dict[int, tuple[Writer, ...]] = {}
        self._with_backend: tuple[Writer, ...] = ()

    def readers_of(self, info: Any) -> tuple[Writer, ...]:
        """The writers that get the misses of a function jitted with `info`."""
        own = self.own(info) if self.own is not _nobody else ()
        return (*self.writers, *own) if own else self.writers

    def writers_of(self, number: int | None) -> tuple[Writer, ...]:
        """The writers that get a program derived from that of miss `number`."""
        return self.writers or (() if number is None else self._writers.get(number, ()))

    def begin(
        self,
        number: int,
        function: Function,
        key: Key,
        site: CallSite | None,
        fields: MissFields,
        writers: tuple[Writer, ...],
        bodies: Iterable[Function] = (),
        around: Callable[[], tuple[CallSite | None, MissFields]] | None = None,
    ) -> None:
        """A miss began.

        Args:
            number: the number of the miss.
            function: the function that missed.
            key: the key of the call.
            site: the line of the call, if already known.
            fields: what is known about the miss; modified and kept.
            writers: the writers that get the miss.
            bodies: the functions that were passed to an operation.
            around: called later for the line of the call and further fields.
        """
        if len(self._writers) >= _MAX_OPEN:
            for old in list(self._writers)[: _MAX_OPEN // 2]:
                self._writers.pop(old, None)  # another thread may be doing the same
        bodies = tuple(bodies)
        self._writers[number] = writers
        fields["at"], fields["thread"] = time.time(), _thread_name()
        if self.noted is not None:
            self.noted(number, function, key, site)
        if self.on_event is not None and self.writers:
            self.on_event(number, "begun", (function, *bodies))
        later = around or partial(_known, site)
        self.later(partial(_begin, number, function, key, later, fields, writers, bodies))

    def again(self, number: int, before: int, site: CallSite | None, fields: MissFields) -> None:
        """A miss began with the same function and key as an earlier one."""
        # A writer that did not get the earlier miss could not make sense of this one.
        writers = self._writers[number] = self._writers.get(before, ())
        fields["at"], fields["thread"] = time.time(), _thread_name()
        if self.on_event is not None and self.writers:
            self.on_event(number, "begun", ())
        self.later(partial(_again, number, before, site, fields, writers))

    def amend(self, number: int, fields: MissFields) -> None:
        """More became known about a miss; parts are given by content."""
        writers = self._writers.get(number, ())
        if self.on_event is not None and _COMPILE in _stages(fields):
            self.on_event(number, "compiled", ())
        if writers:
            self.later(partial(_amend, number, fields, writers))

    def replace(self, number: int, function: Function, key: Key, fields: MissFields) -> None:
        """The operation of a miss that began with its body is now known."""
        if self.noted is not None:
            self.noted(number, function, key, None)
        if self.on_event is not None and self.writers:
            self.on_event(number, "known", (function,))
        if writers := self._writers.get(number, ()):
            self.later(partial(_replace, number, function, key, fields, writers))

    def listings(self, number: int, listings: Sequence[Listing]) -> None:
        """The text of the program of a miss, and of its sub-programs."""
        for writer in self._writers.get(number, ()):
            self.later(partial(writer.listings, listings))

    def audit(
        self, encode: Callable[[Redaction | None], dict[str, JSON]], listings: Sequence[Listing]
    ) -> None:
        """The findings of an audit, and the text of the programs that differ."""
        for writer in self._all():
            self.later(partial(writer.listings, listings))
            self.later(partial(_audit, writer, encode))

    def tell_backend(self) -> None:
        """Write once per writer where compiled programs run."""
        everybody = (*self.writers, *self.owned)
        if everybody == self._with_backend:
            return
        missing = [writer for writer in everybody if not writer.has_backend]
        if not missing or (backend := running()) is None:
            return
        self._with_backend = everybody
        for writer in missing:
            writer.has_backend = True
            fields = backend._asdict()
            fields["backend"] = fields.pop("platform")
            fields["settings"] = settings()
            self.later(partial(writer.amend_run, fields))

    def lose(self, reason: str) -> None:
        """Note that something could not be recorded."""
        if len(self.losses) < _MAX_LOSSES:
            self.losses.append(reason)
        for writer in self._all():
            self.later(partial(writer.loss, reason))

    def settle(self) -> None:
        """Append to their files what the writers have gathered."""
        for writer in self._all():
            writer.settle()

    def _all(self) -> tuple[Writer, ...]:
        return (*self.writers, *self.owned)


def _now(task: Task) -> None:
    task()


def _nobody(_: object) -> tuple[Writer, ...]:
    return ()


def _thread_name() -> str:
    """The name of this thread. `current_thread` would register a thread unknown to it."""
    active: dict[int, threading.Thread] = getattr(threading, "_active", {})
    number = threading.get_ident()
    if (name := NAMED.get(number)) is not None:
        return name
    thread = active.get(number)
    return "Dummy" if thread is None else thread.name


def _begin(
    number: int,
    function: Function,
    key: Key,
    around: Callable[[], tuple[CallSite | None, MissFields]],
    line: MissFields,
    writers: tuple[Writer, ...],
    bodies: tuple[Function, ...],
) -> None:
    site, more = around()
    line = {**line, **more}
    callers = line.pop("callers", ())
    for redaction, group in _by_redaction(writers):
        seen, place = key, site
        if redaction is None:
            encoded = _encode(function, key, site)
            described = [encode_function(body) for body in bodies]
        else:
            place = None
            seen = redaction.key(key, function.site)
            where = site and redaction.call_site(site)
            encoded = _encode(redaction.function(function), seen, where)
            described = [encode_function(redaction.function(body)) for body in bodies]
        fields = encode_miss(line, redaction)
        if callers:
            above = callers if redaction is None else map(redaction.call_site, callers)
            encoded["callers"] = tuple(above)
        # These are often the same objects, so their parts need not be encoded each time.
        shared = {**{row.name: row.of(seen) for row in CONTEXT}, "call_site": place}
        for writer in group:
            writer.miss(number, fields, encoded, described, shared)


def _known(site: CallSite | None) -> tuple[CallSite | None, MissFields]:
    return site, {}


def _again(
    number: int,
    before: int,
    site: CallSite | None,
    line: MissFields,
    writers: tuple[Writer, ...],
) -> None:
    for redaction, group in _by_redaction(writers):
        where = site if site is None or redaction is None else redaction.call_site(site)
        parts = {} if where is None else {"call_site": encode_call_site(where)}
        fields = {**encode_miss(line, redaction), "again": before}
        for writer in group:
            writer.miss(number, fields, parts)


def _by_redaction(
    writers: Iterable[Writer],
) -> Iterator[tuple[Redaction | None, list[Writer]]]:
    """First the writers without redaction together, then each of the others."""
    whole = [writer for writer in writers if writer.redaction is None]
    if whole:
        yield None, whole
    for writer in writers:
        if writer.redaction is not None:
            yield writer.redaction, [writer]


def _replace(
    number: int,
    function: Function,
    key: Key,
    fields: MissFields,
    writers: tuple[Writer, ...],
) -> None:
    for redaction, group in _by_redaction(writers):
        if redaction is None:
            encoded = _encode(function, key, None)
        else:
            hidden = redaction.key(key, function.site)
            encoded = _encode(redaction.function(function), hidden, None)
        _amend(number, fields, tuple(group), encoded)


def _audit(writer: Writer, encode: Callable[[Redaction | None], dict[str, JSON]]) -> None:
    writer.audit(encode(writer.redaction))


def _stages(fields: MissFields) -> Mapping[Stage, float]:
    return fields.get("stages", {})


def _amend(
    number: int,
    fields: MissFields,
    writers: tuple[Writer, ...],
    parts: Mapping[str, JSON] = _NO_PARTS,
) -> None:
    if "leaves" in fields:
        parts = {**parts, "leaves": fields["leaves"]}
    if callable(digest := fields.get("lowered_with")):
        fields = {**fields, "lowered_with": digest()}
    for writer in writers:
        numbers = {kind: writer.part(kind, value) for kind, value in parts.items()}
        written: MissFields = fields
        if writer.redaction is None and (cache := fields.get("persistent_cache")) is not None:
            written = {**fields, "persistent_cache": _once(writer, cache)}
        writer.amend(number, {**encode_miss(written, writer.redaction), **numbers})


def _once(writer: Writer, cache: PersistentCache) -> PersistentCache:
    """Omit the compile options if the writer has written them before: there are hundreds."""
    if not cache.options or writer.is_new("compile_options", cache.options):
        return cache
    return cache._replace(options=())


def _encode(function: Function, key: Key, site: CallSite | None) -> dict[str, JSON]:
    encoded: dict[str, JSON] = {"function": encode_function(function)}
    for kind in Key._fields:
        if value := getattr(key, kind):
            encoded[kind] = value
    if site is not None:
        encoded["call_site"] = encode_call_site(site)
    return encoded

"""Writes misses to everybody who listens: the recording on disk, windows in memory."""

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
from retrace.store.fields import encode_fields
from retrace.store.parts import PARTS, encode_call_site, encode_function
from retrace.store.schema import MISS_LINE
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

Event: TypeAlias = Literal["begun", "known", "compiled"]
"""A miss began; the operation that it is of became known; it ran its last stage."""

_COMPILE = Stage.COMPILE
_MOST_LOSSES = 10_000
_MOST_OPEN = 100_000
"""Maximum number of misses that can be amended; older ones have long been complete."""
_NO_PARTS: Mapping[str, JSON] = MappingProxyType({})


class Journal:
    """Who gets which miss, and what was written of it."""

    def __init__(self, background: Callable[[Task], None] | None = None) -> None:
        self.background = background
        """Who writes: another thread, or, without one, whoever tells."""
        self.writers: tuple[Writer, ...] = ()
        """Who gets every miss."""
        self.own: Callable[[Any], tuple[Writer, ...]] = _nobody
        """Who gets the misses of functions with these options too (`retrace.jit`)."""
        self.owned: tuple[Writer, ...] = ()
        """Those of them that have begun."""
        self.told: Callable[[int, Event, tuple[Function, ...]], None] | None = None
        """Told at once, on the stack of the call, what became of a miss."""
        self.noted: Callable[[int, Function, Key, CallSite | None], None] | None = None
        """Told at once what is known of a miss as it begins, or when that becomes known."""
        self.losses: list[str] = []
        """What could not be recorded, in order; bounded."""
        self._writers: dict[int, tuple[Writer, ...]] = {}
        self._told_all: tuple[Writer, ...] = ()

    def readers_of(self, info: Any) -> tuple[Writer, ...]:
        """Who is to get the misses of a function that was jitted with `info`."""
        own = self.own(info) if self.own is not _nobody else ()
        return (*self.writers, *own) if own else self.writers

    def writers_of(self, number: int | None) -> tuple[Writer, ...]:
        """Who is to get a program that was made from that of another miss."""
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
            number: of the miss.
            function: that missed.
            key: of the call.
            site: its line, where that is known by now.
            fields: what is known of it; taken over.
            writers: who gets it.
            bodies: the functions that an operation was given.
            around: asked later for its line, and for more that is known of it.
        """
        if len(self._writers) >= _MOST_OPEN:
            for old in list(self._writers)[: _MOST_OPEN // 2]:
                self._writers.pop(old, None)  # another thread may be at it, too
        bodies = tuple(bodies)
        self._writers[number] = writers
        fields["at"], fields["thread"] = time.time(), _thread_name()
        if self.noted is not None:
            self.noted(number, function, key, site)
        if self.told is not None and self.writers:
            self.told(number, "begun", (function, *bodies))
        told = around or partial(_known, site)
        self._write(partial(_begin, number, function, key, told, fields, writers, bodies))

    def again(self, number: int, before: int, site: CallSite | None, fields: MissFields) -> None:
        """A miss began that has the function and the key of an earlier one."""
        # Whoever was not told of that one could not read this one.
        writers = self._writers[number] = self._writers.get(before, ())
        fields["at"], fields["thread"] = time.time(), _thread_name()
        if self.told is not None and self.writers:
            self.told(number, "begun", ())
        self._write(partial(_again, number, before, site, fields, writers))

    def amend(self, number: int, fields: MissFields) -> None:
        """Something became known of a miss; parts are given by their content."""
        writers = self._writers.get(number, ())
        if self.told is not None and _COMPILE in _stages(fields):
            self.told(number, "compiled", ())
        if writers:
            self._write(partial(_amend, number, fields, writers))

    def replace(self, number: int, function: Function, key: Key, fields: MissFields) -> None:
        """An operation that began with its body is known now."""
        if self.noted is not None:
            self.noted(number, function, key, None)
        if self.told is not None and self.writers:
            self.told(number, "known", (function,))
        if writers := self._writers.get(number, ()):
            self._write(partial(_replace, number, function, key, fields, writers))

    def listings(self, number: int, listings: Sequence[Listing]) -> None:
        """The text of a miss's program, and of those inside it."""
        for writer in self._writers.get(number, ()):
            self._write(partial(writer.listings, listings))

    def audit(
        self, encode: Callable[[Redaction | None], dict[str, JSON]], listings: Sequence[Listing]
    ) -> None:
        """What an audit found, and the text of the programs that differ."""
        for writer in self._all():
            self._write(partial(writer.listings, listings))
            self._write(partial(_audit, writer, encode))

    def tell_backend(self) -> None:
        """Say once where compiled programs run."""
        everybody = self._all()
        if everybody == self._told_all:
            return
        untold = [writer for writer in everybody if not writer.told_backend]
        if not untold or (backend := running()) is None:
            return
        self._told_all = everybody
        for writer in untold:
            writer.told_backend = True
            fields = backend._asdict()
            fields["backend"] = fields.pop("platform")
            fields["settings"] = settings()
            self._write(partial(writer.amend_run, fields))

    def lose(self, reason: str) -> None:
        """Something could not be recorded."""
        if len(self.losses) < _MOST_LOSSES:
            self.losses.append(reason)
        for writer in self._all():
            self._write(partial(writer.loss, reason))

    def _write(self, task: Task) -> None:
        if self.background is None:
            task()
        else:
            self.background(task)

    def _all(self) -> tuple[Writer, ...]:
        return (*self.writers, *self.owned)


def _nobody(_: object) -> tuple[Writer, ...]:
    return ()


def _thread_name() -> str:
    """Of this thread. Not by `current_thread`, which adds a thread that it does not know."""
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
    for redaction, told in _by_redaction(writers):
        config, place = key.config, site
        if redaction is None:
            encoded = _encode(function, key, site)
            described = [encode_function(body) for body in bodies]
        else:
            place = None
            hidden = redaction.key(key, function.site)
            config = hidden.config
            where = site and redaction.call_site(site)
            encoded = _encode(redaction.function(function), hidden, where)
            described = [encode_function(redaction.function(body)) for body in bodies]
        fields = encode_fields(line, MISS_LINE, redaction)
        if callers:
            above = callers if redaction is None else map(redaction.call_site, callers)
            encoded["callers"] = tuple(above)
        # The same objects again and again: their parts need not be encoded each time.
        shared = {"config": config, "call_site": place}
        for writer in told:
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
    for redaction, told in _by_redaction(writers):
        where = site if site is None or redaction is None else redaction.call_site(site)
        parts = {} if where is None else {"call_site": encode_call_site(where)}
        fields = {**encode_fields(line, MISS_LINE, redaction), "again": before}
        for writer in told:
            writer.miss(number, fields, parts)


def _by_redaction(
    writers: Iterable[Writer],
) -> Iterator[tuple[Redaction | None, list[Writer]]]:
    """The writers that are told everything, and then each of the others."""
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
    for redaction, told in _by_redaction(writers):
        if redaction is None:
            encoded = _encode(function, key, None)
        else:
            hidden = redaction.key(key, function.site)
            encoded = _encode(redaction.function(function), hidden, None)
        _amend(number, fields, tuple(told), encoded)


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
        told = fields
        if writer.redaction is None and (cache := fields.get("persistent_cache")) is not None:
            told = {**fields, "persistent_cache": _once(writer, cache)}
        writer.amend(number, {**encode_fields(told, MISS_LINE, writer.redaction), **numbers})


def _once(writer: Writer, cache: PersistentCache) -> PersistentCache:
    """Without the fields of compile options that the writer has written: there are hundreds."""
    if not cache.options or writer.is_new("compile_options", cache.options):
        return cache
    return cache._replace(options=())


def _encode(function: Function, key: Key, site: CallSite | None) -> dict[str, JSON]:
    encoded: dict[str, JSON] = {"function": encode_function(function)}
    for kind in PARTS[1:7]:
        if value := getattr(key, kind):
            encoded[kind] = value
    if site is not None:
        encoded["call_site"] = encode_call_site(site)
    return encoded

"""Read XLA's passes and kernels, with their times, from a profile.

A profile is a protocol buffer message (`xplane.proto`), of which this reads only what is needed.
JAX's own reader causes Python warnings when it returns the details of an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from retrace.jax_internals import events as at
from retrace.jax_internals.accelerators import Times, found, kind
from retrace.jax_internals.events import Event
from retrace.model.protobuf import Field, fields
from retrace.model.slow import Pass

_PICOSECONDS = 1e-12
_MAX_PASSES = 200


class Compilation(NamedTuple):
    """One compilation, from a profile."""

    passes: tuple[Pass, ...]
    """Passes in the thread that asked for it, each without the time of nested passes."""
    kernels: dict[str, float]
    """Seconds in the compiler's threads, by name of the kernel."""
    threads: float
    """Seconds of code generation, summed over threads."""
    machine: float
    """The part of these in which LLVM generated machine code, for all kernels together."""
    programs: int
    """Number of programs compiled during the profile."""
    ordered: tuple[tuple[str, float], ...] = ()
    """A GPU's kernels in the order of the program, nameless ones included, with these seconds."""


def compilation(data: bytes) -> Compilation:
    """Read the compilation that a profile was started for.

    Raises:
        ValueError: the data are not a profile.
        IndexError: the data are truncated.
    """
    if any(name.encode() in data for name in at.ACCELERATORS):
        return _of_accelerator(list(threads(data)))
    return _of_cpu(threads(data))


def _of_cpu(of_threads: Iterable[list[Event]]) -> Compilation:
    spent: dict[str, list[float]] = {}
    kernels: dict[str, float] = {}
    threads, machine, programs = 0.0, 0.0, 0
    for events in of_threads:
        # XLA compiles in the calling thread or one of its own; other threads generate code.
        drives = any(
            event.name in at.ENCLOSING or event.name.startswith(at.PIPELINES) for event in events
        )
        programs += sum(event.name in at.OUTERMOST for event in events)
        for event, alone in _alone(events):
            seconds = event.length * _PICOSECONDS
            if drives:
                row = spent.setdefault(_named(event.name), [0.0, 0])
                row[0] += alone * _PICOSECONDS
                row[1] += 1
            if event.name == at.KERNEL:
                if event.module:
                    kernel = event.module.removeprefix(at.KERNEL_AFFIXES[0]).removesuffix(
                        at.KERNEL_AFFIXES[1]
                    )
                    kernels[kernel] = kernels.get(kernel, 0.0) + seconds
                threads += seconds
            elif event.name == at.WORK:
                threads += seconds
                machine += alone * _PICOSECONDS
    passes = [
        Pass(name, seconds, int(times), kind(name)) for name, (seconds, times) in spent.items()
    ]
    return Compilation(_dearest(passes), kernels, threads, machine, programs)


def _of_accelerator(threads: list[list[Event]]) -> Compilation:
    did = found(threads)
    passes = [
        Pass(step.name, spent * _PICOSECONDS, did.times.get(step, 1), step.kind)
        for step, spent in did.spent.items()
    ]
    return Compilation(
        _dearest(passes),
        {name: length * _PICOSECONDS for name, length in did.kernels.items()},
        did.code * _PICOSECONDS,
        0.0,
        sum(event.name in at.OUTERMOST for events in threads for event in events),
        tuple((name, length * _PICOSECONDS) for name, length in did.ordered),
    )


def _dearest(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    some = sorted((one for one in passes if one.seconds > 0), key=lambda one: -one.seconds)
    return tuple(some[:_MAX_PASSES])


def _named(name: str) -> str:
    """The name of a pass; some releases append the name of the program."""
    return name.partition(" (")[0]


def _alone(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Each event with its time, without the events nested in it."""
    around: list[list[int]] = []
    inside = [0] * len(events)
    for index, event in enumerate(events):
        while around and around[-1][1] <= event.start:
            around.pop()
        if around:
            inside[around[-1][0]] += event.length
        around.append([index, event.start + event.length])
    for index, event in enumerate(events):
        yield event, max(0, event.length - inside[index])


def threads(data: bytes) -> Iterator[list[Event]]:
    """The events of each thread in order, without the steps of compiling a kernel."""
    for number, plane in fields(memoryview(data)):
        if number == 1 and isinstance(plane, memoryview):
            yield from _of_plane(plane)


def _of_plane(plane: memoryview) -> Iterator[list[Event]]:
    lines: list[memoryview] = []
    names: dict[int, str] = {}
    stats: dict[int, str] = {}
    for number, value in fields(plane):
        if not isinstance(value, memoryview):
            continue
        if number == 3:
            lines.append(value)
        elif number in (4, 5):
            index, named = _entry(value)
            (names if number == 4 else stats)[index] = named
    details = _Details(
        stats,
        frozenset(index for index, name in stats.items() if name == "module"),
        frozenset(index for index, name in stats.items() if name in ("_p", "_c")),
    )
    tasks = frozenset(index for index, name in names.items() if name in at.TASKS)
    read = (_of_line(line, names, details, tasks) for line in lines)
    if at.GPU_EMIT not in names.values():
        yield from (events for events, _ in read)
        return
    # Nearly all events are about tasks. Only those that may be about kernels are read.
    whole = list(read)
    emits = Times(one for events, _ in whole for one in events if one.name == at.GPU_EMIT)
    for events, others in whole:
        some = (_event(written, names, details, origin) for origin, written in others(emits))
        yield sorted((*events, *some), key=attrgetter("start"))


def _of_line(
    line: memoryview, names: dict[int, str], details: _Details, tasks: frozenset[int]
) -> tuple[list[Event], _Tasks]:
    """The events of a thread without those about tasks, and how to get at these."""
    # Each thread has its own origin.
    origin = next((v for n, v in fields(line) if n == 3 and isinstance(v, int)), 0) * 1000
    written = [v for n, v in fields(line) if n == 4 and isinstance(v, memoryview)]
    others = [one for one in written if _kind(one) in tasks]
    plain = [one for one in written if _kind(one) not in tasks] if others else written

    def during(times: Times) -> Iterator[tuple[int, memoryview]]:
        return ((origin, one) for one in others if origin + _start(one) in times)

    return list(_events(plain, names, details, origin)), during


_Tasks: TypeAlias = Callable[[Times], Iterator[tuple[int, memoryview]]]
"""The events about tasks in some times, each with the origin of its thread."""


class _Details(NamedTuple):
    """The details that events have, by number."""

    names: dict[int, str]
    modules: frozenset[int]
    tasks: frozenset[int]


def _entry(entry: memoryview) -> tuple[int, str]:
    """The number and name of an event kind or of a detail of events."""
    index, named = 0, ""
    for number, value in fields(entry):
        if number == 1 and isinstance(value, int):
            index = value
        elif number == 2 and isinstance(value, memoryview):
            named = next((_text(v) for n, v in fields(value) if n == 2), "")
    return index, named


def _events(
    written: Sequence[memoryview], names: dict[int, str], details: _Details, origin: int
) -> Iterator[Event]:
    """Read events, which are stored in order of their start, longer ones first.

    On CPUs most are steps of compiling a kernel, dozens for each: these are skipped.
    """
    number = 0
    while number < len(written):
        event = _event(written[number], names, details, origin)
        yield event
        number += 1
        if event.name == at.KERNEL:
            end = event.start + event.length - origin
            number = bisect_left(written, end, number, key=_start)


def _kind(event: memoryview) -> int:
    found = (value for number, value in fields(event) if number == 1)
    kind = next(found, 0)
    return kind if isinstance(kind, int) else 0


def _start(event: memoryview) -> int:
    found = (value for number, value in fields(event) if number == 2)
    start = next(found, 0)
    return start if isinstance(start, int) else 0


def _event(written: memoryview, names: dict[int, str], details: _Details, origin: int) -> Event:
    kind = start = length = task = 0
    module = ""
    for number, value in fields(written):
        if isinstance(value, int):
            if number == 1:
                kind = value
            elif number == 2:
                start = value
            elif number == 3:
                length = value
        elif number == 4:
            if (name := names.get(kind)) == at.KERNEL:
                module = _module(value, details) or module
            elif name in (at.TASK_GIVEN, at.TASK_BEGINS):
                task = _task(value, details) or task
    return Event(names.get(kind, ""), origin + start, length, module, task)


def _module(stat: memoryview, details: _Details) -> str:
    """The text of an event detail, if it is the name of a module."""
    is_module, said = False, ""
    for number, value in fields(stat):
        if number == 1 and isinstance(value, int):
            is_module = value in details.modules
        elif number == 5:
            said = _text(value)
        elif number == 7 and isinstance(value, int):
            said = details.names.get(value, "")
    return said if is_module else ""


def _task(stat: memoryview, details: _Details) -> int:
    """The number in an event detail, if it is that of a task."""
    is_task, task = False, 0
    for number, value in fields(stat):
        if number == 1 and isinstance(value, int):
            is_task = value in details.tasks
        elif number in (3, 4) and isinstance(value, int):
            task = value
    return task if is_task else 0


def _text(value: Field) -> str:
    return "" if isinstance(value, int) else bytes(value).decode(errors="replace")

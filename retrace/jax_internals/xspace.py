"""What a profile of XLA's holds: its passes and kernels, with their seconds.

A profile is a message of protocol buffers (`xplane.proto`), of which this reads what is needed.
The reader that comes with JAX makes Python warn where it hands out what an event says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrace.model.slow import Pass
from retrace.model.wire import Field, fields

_PICOSECONDS = 1e-12

_KERNEL = "FusionCompiler::Compile"
"""XLA compiles one kernel; which, is said by `module`."""
_WRAPPED = ("__compute_module_", "_kernel_module")
_WORK = "TaskDispatcher::dispatch"
"""A thread of the compiler's own works for it."""
_CODE = frozenset(
    (
        *("Codegen", "JitCompiler::Compile", "SplitModule", _KERNEL, _WORK),
        *("ThunkEmitter::EmitEntryComputation", "ThunkEmitter::ConsumeKernels"),
    )
)
_PASSES = "HLO passes"
_OUTERMOST = frozenset(("backend_compile_and_load", "backend_compile"))
_AROUND = frozenset(
    (
        *(*_OUTERMOST, "CompileCpuExecutable", "PjRtCpuClient::Compile"),
        # Around the making of code; by itself it orders instructions and assigns buffers.
        *("CpuCompiler::RunBackend", "CpuCompiler::CompileCpuExecutable"),
    )
)
"""The whole compilation: what it spends outside all passes is no pass, and makes no code."""
_MAX_PASSES = 200


class Event(NamedTuple):
    """Something that XLA did."""

    name: str
    start: int
    """Picoseconds, from anywhere."""
    length: int
    module: str
    """Of a kernel, its name."""


class Compilation(NamedTuple):
    """What a profile says of one compilation."""

    passes: tuple[Pass, ...]
    """Of the thread that asked for it, each without what ran inside it."""
    kernels: dict[str, float]
    """Seconds of the compiler's threads, by the name of the kernel."""
    threads: float
    """Seconds in which threads made code."""
    machine: float
    """Of these, seconds of making machine code, by LLVM: for all kernels together."""
    programs: int
    """How many were compiled while it ran."""


def compilation(data: bytes) -> Compilation:
    """What a profile says of the compilation that it was begun for.

    Raises:
        ValueError: it is no profile.
        IndexError: it ends in the middle.
    """
    spent: dict[str, list[float]] = {}
    kernels: dict[str, float] = {}
    threads, machine, programs = 0.0, 0.0, 0
    for events in _threads(data):
        # XLA compiles in the thread that asks, or in one of its own; in others it makes code.
        drives = any(event.name in _AROUND or event.name.startswith(_PASSES) for event in events)
        programs += sum(event.name in _OUTERMOST for event in events)
        for event, alone in _alone(events):
            seconds = event.length * _PICOSECONDS
            if drives:
                row = spent.setdefault(_named(event.name), [0.0, 0])
                row[0] += alone * _PICOSECONDS
                row[1] += 1
            if event.name == _KERNEL:
                if event.module:
                    kernel = event.module.removeprefix(_WRAPPED[0]).removesuffix(_WRAPPED[1])
                    kernels[kernel] = kernels.get(kernel, 0.0) + seconds
                threads += seconds
            elif event.name == _WORK:
                threads += seconds
                machine += alone * _PICOSECONDS
    passes = [
        Pass(name, seconds, int(times), _kind(name)) for name, (seconds, times) in spent.items()
    ]
    passes = sorted((one for one in passes if one.seconds > 0), key=lambda one: -one.seconds)
    return Compilation(tuple(passes[:_MAX_PASSES]), kernels, threads, machine, programs)


def _kind(name: str) -> str:
    if name in _AROUND:
        return "other"
    return "code" if name in _CODE or "::" in name else "pass"


def _named(name: str) -> str:
    """A pipeline of passes stands with the name of the program behind it, on some releases."""
    return name.partition(" (")[0]


def _alone(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Each event with the time that it took without those inside it."""
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


def _threads(data: bytes) -> Iterator[list[Event]]:
    """Of each thread what it did, in order, without the steps by which a kernel is made."""
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
    modules = frozenset(index for index, name in stats.items() if name == "module")
    for line in lines:
        events = [v for n, v in fields(line) if n == 4 and isinstance(v, memoryview)]
        yield list(_events(events, names, stats, modules))


def _entry(entry: memoryview) -> tuple[int, str]:
    """The number and the name of a kind of events, or of what events say."""
    index, named = 0, ""
    for number, value in fields(entry):
        if number == 1 and isinstance(value, int):
            index = value
        elif number == 2 and isinstance(value, memoryview):
            named = next((_text(v) for n, v in fields(value) if n == 2), "")
    return index, named


def _events(
    written: Sequence[memoryview],
    names: dict[int, str],
    stats: dict[int, str],
    modules: frozenset[int],
) -> Iterator[Event]:
    """Read events, which are written in the order in which they began, the longer ones first.

    Most are steps by which a kernel is made, dozens for each: these are not read at all.
    """
    at = 0
    while at < len(written):
        event = _event(written[at], names, stats, modules)
        yield event
        at += 1
        if event.name == _KERNEL:
            at = bisect_left(written, event.start + event.length, at, key=_start)


def _start(event: memoryview) -> int:
    found = (value for number, value in fields(event) if number == 2)
    start = next(found, 0)
    return start if isinstance(start, int) else 0


def _event(
    written: memoryview, names: dict[int, str], stats: dict[int, str], modules: frozenset[int]
) -> Event:
    kind = start = length = 0
    module = ""
    for number, value in fields(written):
        if isinstance(value, int):
            if number == 1:
                kind = value
            elif number == 2:
                start = value
            elif number == 3:
                length = value
        elif number == 4 and names.get(kind) == _KERNEL:
            module = _module(value, stats, modules) or module
    return Event(names.get(kind, ""), start, length, module)


def _module(stat: memoryview, stats: dict[int, str], modules: frozenset[int]) -> str:
    """The text of what an event says, where that is the name of a module."""
    is_module, said = False, ""
    for number, value in fields(stat):
        if number == 1 and isinstance(value, int):
            is_module = value in modules
        elif number == 5:
            said = _text(value)
        elif number == 7 and isinstance(value, int):
            said = stats.get(value, "")
    return said if is_module else ""


def _text(value: Field) -> str:
    return "" if isinstance(value, int) else bytes(value).decode(errors="replace")

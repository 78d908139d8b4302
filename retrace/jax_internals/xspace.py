"""Read XLA's passes and kernels, with their times, from a profile.

A profile is a protocol buffer message (`xplane.proto`), of which this reads only what is needed.
JAX's own reader causes Python warnings when it returns the details of an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrace.model.slow import Pass
from retrace.model.wire import Field, fields

_PICOSECONDS = 1e-12

_KERNEL = "FusionCompiler::Compile"
"""XLA compiles one kernel, named by `module`."""
_KERNEL_AFFIXES = ("__compute_module_", "_kernel_module")
_WORK = "TaskDispatcher::dispatch"
"""Work in one of the compiler's own threads."""
_CODE = frozenset(
    (
        *("Codegen", "JitCompiler::Compile", "SplitModule", _KERNEL, _WORK),
        *("ThunkEmitter::EmitEntryComputation", "ThunkEmitter::ConsumeKernels"),
    )
)
_PASSES = "HLO passes"
_OUTERMOST = frozenset(("backend_compile_and_load", "backend_compile"))
_ENCLOSING = frozenset(
    (
        *(*_OUTERMOST, "CompileCpuExecutable", "PjRtCpuClient::Compile"),
        # Contain code generation; their own work is scheduling and buffer assignment.
        *("CpuCompiler::RunBackend", "CpuCompiler::CompileCpuExecutable"),
    )
)
"""Events around the whole compilation: their own time is neither a pass nor code generation."""
_MAX_PASSES = 200


class Event(NamedTuple):
    """Something that XLA did, with its time."""

    name: str
    start: int
    """In picoseconds, from an arbitrary origin."""
    length: int
    module: str
    """The name of the kernel, if any."""


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


def compilation(data: bytes) -> Compilation:
    """Read the compilation that a profile was started for.

    Raises:
        ValueError: the data are not a profile.
        IndexError: the data are truncated.
    """
    spent: dict[str, list[float]] = {}
    kernels: dict[str, float] = {}
    threads, machine, programs = 0.0, 0.0, 0
    for events in _threads(data):
        # XLA compiles in the calling thread or one of its own; other threads generate code.
        drives = any(
            event.name in _ENCLOSING or event.name.startswith(_PASSES) for event in events
        )
        programs += sum(event.name in _OUTERMOST for event in events)
        for event, alone in _alone(events):
            seconds = event.length * _PICOSECONDS
            if drives:
                row = spent.setdefault(_named(event.name), [0.0, 0])
                row[0] += alone * _PICOSECONDS
                row[1] += 1
            if event.name == _KERNEL:
                if event.module:
                    kernel = event.module.removeprefix(_KERNEL_AFFIXES[0]).removesuffix(
                        _KERNEL_AFFIXES[1]
                    )
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
    if name in _ENCLOSING:
        return "other"
    return "code" if name in _CODE or "::" in name else "pass"


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


def _threads(data: bytes) -> Iterator[list[Event]]:
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
    modules = frozenset(index for index, name in stats.items() if name == "module")
    for line in lines:
        events = [v for n, v in fields(line) if n == 4 and isinstance(v, memoryview)]
        yield list(_events(events, names, stats, modules))


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
    written: Sequence[memoryview],
    names: dict[int, str],
    stats: dict[int, str],
    modules: frozenset[int],
) -> Iterator[Event]:
    """Read events, which are stored in order of their start, longer ones first.

    Most are steps of compiling a kernel, dozens for each: these are skipped.
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
    """The text of an event detail, if it is the name of a module."""
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

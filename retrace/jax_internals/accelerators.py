"""Where a compilation for a GPU or a TPU spent its time, from the events of a profile.

XLA works on these in many threads, and those that asked for the work wait for it inside an event
of their own. So each moment is divided among the threads that do something else than wait:
the seconds of all passes and steps together are those that passed.

    thread that compiles   CompileToBackendResult > CompileModuleToLlvmIr ...waits...
    thread of XLA              CompileSingleModule > Compiling IR:sort.8.1 | PTX->CUBIN
    thread of XLA              CompileSingleModule > Compiling IR:LLVMDialectModule | PTX->CUBIN

A GPU's kernels that were emitted through MLIR have no names there. But XLA hands them to its
threads in the order in which they are in the program, and the profile says which task was given
when: `ordered` holds all kernels in that order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from retrace.jax_internals import events as at
from retrace.jax_internals.events import Event

_CODE = "code"
_TUNING = "tuning"


class Step(NamedTuple):
    """What a thread was doing."""

    name: str
    kind: str
    """`pass`, `code`, `tuning` (a part of autotuning), or `other`."""
    waits: bool
    """Whether the thread may only have been waiting for others."""


class _Stretch(NamedTuple):
    """A time in which one step was the innermost of a thread."""

    start: int
    end: int
    step: Step


@dataclass(slots=True)
class Found:
    """What the threads did."""

    spent: dict[Step, float] = field(default_factory=dict[Step, float])
    """Picoseconds that passed in each step."""
    times: dict[Step, int] = field(default_factory=dict[Step, int])
    kernels: dict[str, int] = field(default_factory=dict[str, int])
    """Picoseconds of threads for each named kernel."""
    ordered: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """A GPU's kernels in the order of the program; empty if that is unknown."""
    code: int = 0
    """Picoseconds of generating code, summed over threads."""


def found(threads: Sequence[Sequence[Event]]) -> Found:
    """Divide the time of a compilation among what its threads did."""
    tuning = Times(each for events in threads for each in events if _name(each) in at.TUNING)
    whole = Times(each for events in threads for each in events if each.name in at.OUTERMOST)
    result = Found()
    stretches: list[_Stretch] = []
    for events in threads:
        stretches += _stretches(events, tuning, whole, result)
    _divide(stretches, result.spent)
    _kernels(threads, tuning, whole, result)
    return result


class Times:
    """Times that do not overlap."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted((one.start, one.start + one.length) for one in events):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, moment: int) -> bool:
        index = bisect_right(self._starts, moment) - 1
        return index >= 0 and moment < self._ends[index]


def _name(event: Event) -> str:
    """The name of what is done, without that of the program or module it is done to."""
    if event.name.startswith(at.GPU_LLVM):
        return at.GPU_LLVM
    if event.name.startswith(at.TPU_KERNEL):
        return at.TPU_KERNEL.strip()
    if event.name.startswith(at.TPU_REGISTERS):
        return at.TPU_REGISTERS
    if event.name.startswith(at.PIPELINES):
        return event.name.partition(":")[0]
    # Some have the program after them.
    return event.name.partition("(")[0].rstrip()


def kind(name: str) -> str:
    """`pass`, `code`, or `other` for what surrounds them."""
    if name in at.CODE:
        return _CODE
    if name in at.ENCLOSING or name.startswith(at.ENCLOSING_BEGIN):
        return "other"
    return _CODE if "::" in name else "pass"


def _step(event: Event, around: Step | None, tuning: Times) -> Step:
    name = _name(event)
    if around is not None and around.name.startswith(at.TPU_KERNEL.strip()):
        # Of the many steps of compiling a kernel, only the dearest are kept apart.
        return Step(name, _CODE, waits=False) if name in at.CODE else around
    if around is not None and around.name in (at.TPU_SCHEDULING, at.TPU_REGISTERS):
        return around
    sort = kind(name)
    waits = sort == "other" or name in (at.GPU_EMIT, at.TPU_EMIT) or name in at.TUNING
    return Step(name, _TUNING if event.start in tuning else sort, waits)


def _stretches(
    events: Sequence[Event], tuning: Times, whole: Times, result: Found
) -> Iterator[_Stretch]:
    """What was innermost in a thread at each time; also counts the steps."""
    around: list[tuple[int, Step]] = []
    moment = 0
    for event in events:
        if event.name in at.TASKS or event.start not in whole:
            continue
        while around and around[-1][0] <= event.start:
            end, step = around.pop()
            yield _Stretch(moment, end, step)
            moment = end
        outer = around[-1][1] if around else None
        if outer is not None:
            yield _Stretch(moment, event.start, outer)
        step = _step(event, outer, tuning)
        if step != outer:
            result.times[step] = result.times.get(step, 0) + 1
        around.append((event.start + event.length, step))
        moment = event.start
    while around:
        end, step = around.pop()
        yield _Stretch(moment, end, step)
        moment = end


def _divide(stretches: Iterable[_Stretch], spent: dict[Step, float]) -> None:
    """Divide each moment among the steps that did not wait; add to `spent`.

    If all wait, it belongs to the step that began last, but first of all to one that itself
    generates code or tunes.
    """
    changes: list[tuple[int, bool, int, _Stretch]] = []
    for number, one in enumerate(stretches):
        if one.end > one.start:
            changes.append((one.start, True, number, one))
            changes.append((one.end, False, number, one))
    changes.sort(key=itemgetter(0))
    works: dict[int, _Stretch] = {}
    waits: dict[int, _Stretch] = {}
    before = 0
    for moment, begins, number, stretch in changes:
        if passed := moment - before:
            if works:
                for step in (one.step for one in works.values()):
                    spent[step] = spent.get(step, 0.0) + passed / len(works)
            elif waits:
                last = max(waits.values(), key=lambda one: (one.step.kind != "other", one.start))
                spent[last.step] = spent.get(last.step, 0.0) + passed
        before = moment
        active = waits if stretch.step.waits else works
        if begins:
            active[number] = stretch
        else:
            del active[number]


def _kernels(
    threads: Sequence[Sequence[Event]], tuning: Times, whole: Times, result: Found
) -> None:
    """The seconds of kernels, by name, and by their order in the program."""
    given = _given(threads)
    tasks = [_Tasks(events) for events in threads]
    places: list[tuple[int | None, str, int]] = []
    for thread, events in enumerate(threads):
        module: Event | None = None
        for event in events:
            if event.start not in whole or event.start in tuning:
                continue
            if event.name.startswith(at.TPU_KERNEL):
                name = event.name.removeprefix(at.TPU_KERNEL)
                result.kernels[name] = result.kernels.get(name, 0) + event.length
                result.code += event.length
            elif event.name == at.GPU_MODULE:
                module = event
                result.code += event.length
            elif event.name.startswith(at.GPU_LLVM) and module is not None:
                name = event.name.removeprefix(f"{at.GPU_LLVM}:")
                if not name.endswith(at.GPU_CONSTANTS):
                    when = _place(module.start, thread, tasks, given)
                    places.append((when, name, module.length))
                module = None
    for _, name, length in places:
        if name != at.GPU_UNNAMED:
            result.kernels[name] = result.kernels.get(name, 0) + length
    if all(when is not None for when, _, _ in places):
        places.sort(key=lambda one: one[0] or 0)
        result.ordered = [
            ("" if name == at.GPU_UNNAMED else name, length) for _, name, length in places
        ]


def _given(threads: Sequence[Sequence[Event]]) -> dict[int, tuple[int, int]]:
    """When each task was handed to a thread, and by which."""
    return {
        event.task: (event.start, thread)
        for thread, events in enumerate(threads)
        for event in events
        if event.name == at.TASK_GIVEN
    }


class _Tasks:
    """The tasks that a thread worked on."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._changes: list[tuple[int, int | None]] = [
            (one.start, one.task if one.name == at.TASK_BEGINS else None)
            for one in events
            if one.name in (at.TASK_BEGINS, at.TASK_ENDS)
        ]

    def during(self, moment: int) -> int | None:
        index = bisect_right(self._changes, moment, key=itemgetter(0)) - 1
        return self._changes[index][1] if index >= 0 else None


def _place(
    moment: int, thread: int, tasks: Sequence[_Tasks], given: dict[int, tuple[int, int]]
) -> int | None:
    """When the thread that compiles the program asked for what was done at a moment.

    It hands a kernel to a thread to emit, which hands it to another one to compile.
    """
    for _ in range(len(given) + 1):
        # The thread that compiles the program may do a task in between as well.
        if (task := tasks[thread].during(moment)) is None:
            return moment
        if task not in given:
            return None
        moment, thread = given[task]
    return None

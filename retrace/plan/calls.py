"""Which of the user's functions around an eager operation could be jitted as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import TypeAlias

from retrace.causes import Cause
from retrace.model import CallSite, Listing, Miss, Stage, Verdict
from retrace.model.advice import LibraryCall
from retrace.model.row import Row
from retrace.reason.eager import OF_MODULES, PURE, of_caller
from retrace.reason.evidence import package_of

Place: TypeAlias = tuple[str, str]
"""A file and a function in it."""

_DRIVER_NAMES = frozenset(("main", "__init__", "__post_init__", "__new__", "setUp", "setup"))


def drivers_of(verdicts: Iterable[Verdict]) -> frozenset[Place]:
    """The user's functions that cannot be jitted as a whole, nor any function that calls them.

    They call jitted functions, as a training loop does, or do something untraceable. A function
    called `main` drives the rest of the script, as a test does; a constructor returns no arrays.
    """
    found: set[Place] = set()
    for verdict in verdicts:
        if verdict.miss.nested:
            continue
        driven = verdict.cause is not Cause.EAGER_OP and not works_inside(verdict)
        for line in _lines(verdict.miss):
            driven = driven or line.untraceable or _is_driver(line.function)
            if driven:
                found.add((line.file, line.function))
    return frozenset(found)


def lines_traced(
    verdicts: Sequence[Verdict], listings: Mapping[str, Listing]
) -> frozenset[tuple[str, int]]:
    """The user's lines that also run while a function is traced, by file and line."""
    nested = (one.miss for one in verdicts if one.miss.nested or one.miss.parent is not None)
    own = (line for miss in nested if miss.derived is None for line in _lines(miss))
    found = {(line.file, line.line) for line in own if not line.in_library}
    waiting = [
        one.miss.program.listing
        for one in verdicts
        if one.cause is not Cause.EAGER_OP and one.miss.program is not None
    ]
    seen: set[str] = set()
    while waiting:
        if (name := waiting.pop()) is None or name in seen or name not in listings:
            continue
        seen.add(name)
        waiting += listings[name].inner.values()
        frames = (frame for stack in listings[name].stacks for frame in stack)
        found.update((frame.file, frame.line) for frame in frames if not frame.in_library)
    return frozenset(found)


def works_inside(verdict: Verdict) -> bool:
    """Whether a library called a function of its own that works inside a jitted one as well.

    It traced it for shapes alone, as flax does for parameters, or jits it and is pure.
    """
    miss = verdict.miss
    if verdict.cause is Cause.EAGER_OP or miss.via is None or not miss.function.in_library:
        return False
    for_shapes = miss.ahead and miss.stages.keys() == {Stage.TRACE}
    return for_shapes or package_of(miss.function.file) in PURE


class Call(Row):
    """A call of a user's function that could be jitted as a whole."""

    file: str
    function: str

    @property
    def is_operator(self) -> bool:
        """Whether it is a method that has no name where it is called: `model(x)`, `a @ b`."""
        return self.function.rpartition(".")[2].startswith("__")

    def call_site(self, verdict: Verdict) -> CallSite:
        """The line that called it on the way to the operation, or its own line if unknown."""
        lines = list(_with_callers(verdict.miss))
        own = [i for i, (line, _) in enumerate(lines) if (line.file, line.function) == self][-1]
        # A function that only forwards the call, such as a decorator's wrapper, is skipped.
        asking = (line for line, above in lines[own + 1 :] if _is_called_whole(line, above))
        return next(asking, lines[own][0])

    def loops(self, verdict: Verdict) -> Iterator[tuple[str, int]]:
        """The Python loops between the function and the operation, by file and line."""
        lines = _lines(verdict.miss)
        own = [i for i, line in enumerate(lines) if (line.file, line.function) == self]
        for line in lines[: own[-1] + 1] if own else ():
            if line.loop:
                yield line.file, line.loop


def is_below(verdict: Verdict, whole: Call | tuple[str, int]) -> bool:
    """Whether a function of the user's, or a line of it, called what missed."""
    lines = _lines(verdict.miss)
    if isinstance(whole, Call):
        return any((line.file, line.function) == whole for line in lines)
    return any((line.file, line.line) == whole for line in lines)


def call_around(verdict: Verdict, drivers: frozenset[Place]) -> Call | None:
    """The outermost user's function around the operation that could be jitted as a whole.

    A local function that its enclosing function does not call usually comes from a decorator; it
    is used only if there is nothing else. Around what a library called stands a function that
    handed it over, which cannot be jitted as a whole.
    """
    site, advice = verdict.miss.call_site, of_caller(verdict.miss)
    if site is not None and isinstance(advice, LibraryCall) and advice.of is not None:
        return Call(site.file, site.function)
    found = [
        (line, above)
        for line, above in _outside_modules(verdict.miss)
        if _is_named(line.function) and (line.file, line.function) not in drivers
    ]
    if not found:
        return None
    plain = [line for line, above in found if _is_called_whole(line, above)]
    line = plain[-1] if plain else found[0][0]
    return Call(line.file, line.function)


def whole_around(verdict: Verdict, drivers: frozenset[Place]) -> Call | tuple[str, int] | None:
    """What would be jitted as a whole: a function around it, or what a line calls."""
    site = verdict.miss.entry or verdict.miss.call_site
    line = None if site is None else (site.file, site.line)
    return call_around(verdict, drivers) or line


def _lines(miss: Miss) -> tuple[CallSite, ...]:
    """The user's lines around a miss, innermost first."""
    return () if miss.call_site is None else (miss.call_site, *miss.callers)


def _with_callers(miss: Miss) -> Iterator[tuple[CallSite, CallSite | None]]:
    """The user's lines around a miss, each with the line that called its function."""
    lines = _lines(miss)
    return zip(lines, (*lines[1:], None), strict=False)


def _outside_modules(miss: Miss) -> Iterator[tuple[CallSite, CallSite | None]]:
    """The same without the lines of what a library of modules calls itself.

    A function that was given to `hk.transform` takes its parameters from the library, not as
    arguments.
    """
    lines = _with_callers(miss)
    package = (miss.through or "").partition(":")[0]
    if miss.entry is None or package not in OF_MODULES:
        return lines
    return dropwhile(lambda pair: pair[0] != miss.entry, lines)


def _is_called_whole(line: CallSite, above: CallSite | None) -> bool:
    """Whether the function belongs to a module, a class, or the function that calls it."""
    outer, local, _ = line.function.rpartition(".<locals>.")
    return not local or (above is not None and above.function == outer)


def _is_named(function: str) -> bool:
    """Whether the function has a name, so that it could be jitted as it is."""
    return not function.endswith(">")


def _is_driver(function: str) -> bool:
    name = function.rpartition(".")[2]
    return name in _DRIVER_NAMES or name.startswith("test")

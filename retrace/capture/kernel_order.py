"""Which kernel of a program is which in a profile that has their order, but few of their names.

XLA emits a GPU's kernels in the order of the program, equal ones once. The profile has the
seconds of each in that order, and the names of some, such as sorts. If there are as many between
two named ones as in the program, each is known. If not, because XLA does something else for an
instruction than this module expects, those in between share their seconds equally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

_NAME = re.compile(r"%[\w.\-]+")
_REST = re.compile(r", (?:metadata|frontend_attributes|backend_config)=")
"""Begins what does not change the kernel, but for the configuration of a custom one."""
_SLICE = re.compile(r"= \w+\[([\d,]*)\](?:\{([\d,]*)[^}]*\})? slice\(%([\w.\-]+)\)")
_SHAPE = re.compile(r"= \w+\[([\d,]*)\]")
_DOUBTS = ("dynamic-update-slice", "dynamic-slice")
"""Operations that may become a copy of memory instead of a kernel: the program does not say."""
_NOTHING = frozenset(("parameter", "constant", "bitcast", "tuple", "get-tuple-element"))


class _Instruction(Protocol):
    name: str
    operation: str
    text: str
    inner: tuple[str, ...]


class _Made(NamedTuple):
    """A kernel of the program."""

    name: str
    """Its instruction."""
    names: frozenset[str]
    """The instruction and those inside it, by one of which the profile may name it."""
    doubt: str
    """The operation because of which it may be no kernel."""


def by_order(
    ordered: Sequence[tuple[str, float]],
    computations: Mapping[str, Sequence[_Instruction]],
    calls: frozenset[str],
) -> dict[str, float]:
    """The seconds of kernels, by the name of their instruction.

    Args:
        ordered: names, as far as known, and seconds in the order of the program.
        computations: the instructions of the program, callees before callers.
        calls: operations that run other computations, which have kernels of their own.
    """
    made = list(_kernels(computations, calls))
    found: dict[str, float] = {}
    between: list[float] = []
    at = 0
    for name, spent in ordered:
        if at and not between and name in made[at - 1].names:
            found[made[at - 1].name] += spent  # a large sort is several kernels
            continue
        after = range(at, len(made)) if name else ()
        here = next((index for index in after if name in made[index].names), None)
        if here is None:
            between.append(spent)
            continue
        _match(made[at:here], between, found)
        found[made[here].name] = spent
        between, at = [], here + 1
    _match(made[at:], between, found)
    return found


def _match(made: Sequence[_Made], spent: Sequence[float], found: dict[str, float]) -> None:
    chosen = made
    for doubt in _DOUBTS:
        if len(chosen) != len(spent):
            chosen = [one for one in made if one.doubt != doubt]
    if len(chosen) != len(spent) and made:
        chosen, spent = made, [sum(spent) / len(made)] * len(made)
    for one, seconds in zip(chosen, spent, strict=False):
        found[one.name] = seconds


def _kernels(
    computations: Mapping[str, Sequence[_Instruction]], calls: frozenset[str]
) -> Iterator[_Made]:
    """The kernels of a program in the order in which XLA emits them, equal ones once."""
    seen: set[str] = set()
    entry = ([*computations] or [""])[-1]
    known = {one.name: one for computation in computations.values() for one in computation}
    given = frozenset(one.name for one in computations.get(entry, ()))
    for one in _executed(entry, computations, calls):
        if one.operation not in ("fusion", "sort"):
            continue
        inside = list(_inside(one, computations))
        works = [each for each in inside if each.operation not in _NOTHING]
        if len(works) == 1 and _copies(works[0], inside):
            continue
        doubt = next((each.operation for each in works if each.operation in _DOUBTS), "")
        if not any(each.operation == "sort" for each in (one, *inside)):  # all are compiled
            text = _plain(one, inside) + _memory(one, known, given)
            if text in seen:
                continue
            seen.add(text)
        yield _Made(one.name, frozenset((one.name, *(each.name for each in inside))), doubt)


def _inside(
    one: _Instruction, computations: Mapping[str, Sequence[_Instruction]]
) -> Iterator[_Instruction]:
    for inner in one.inner:
        for each in computations.get(inner, ()):
            yield from _inside(each, computations)
            yield each


def _plain(one: _Instruction, inside: Sequence[_Instruction]) -> str:
    """What a kernel does, without its names: equal for equal kernels."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], str(len(numbers)))

    lines = [_REST.split(each.text, maxsplit=1)[0] for each in inside]
    head, _, config = one.text.partition(", backend_config=")
    # Its operands are those of the program; what it does with them is in its computation.
    return _NAME.sub(number, "\n".join(lines)) + (config if "kind=kCustom" in head else "")


def _memory(one: _Instruction, known: Mapping[str, _Instruction], given: frozenset[str]) -> str:
    """Which operands are one piece of memory, and which are arguments of the program.

    XLA may make use of how these are aligned, and compiles equal kernels again if that differs.
    """
    sources: list[str] = []
    for name in _operands(one):
        source = name
        while source in known and known[source].operation == "bitcast":
            source = next(iter(_operands(known[source])), "")
        sources.append(source)
    kinds = [known[each].operation if each in known else "" for each in sources]
    is_given = [
        kind if kind == "constant" or (kind == "parameter" and source in given) else ""
        for source, kind in zip(sources, kinds, strict=True)
    ]
    return f"{[sources.index(each) for each in sources]} {is_given}"


def _operands(one: _Instruction) -> list[str]:
    _, _, rest = one.text.partition(f" {one.operation}(")
    return [name[1:] for name in _NAME.findall(rest.partition(")")[0])]


def _copies(one: _Instruction, inside: Sequence[_Instruction]) -> bool:
    """Whether a kernel would only copy one piece of memory, for which XLA makes none."""
    if one.operation != "slice" or (found := _SLICE.search(one.text)) is None:
        return False
    source = next((each for each in inside if each.name == found[3]), None)
    shape = None if source is None else _SHAPE.search(source.text)
    if shape is None:
        return False
    taken, whole = _sizes(found[1]), _sizes(shape[1])
    major = [*reversed(_sizes(found[2] or ""))]
    if not len(taken) == len(whole) == len(major):
        return False
    part = [axis for axis in major if taken[axis] != whole[axis]]
    if not part:
        return True
    # All of what is inside the innermost axis that is cut, and one of each axis around it.
    innermost = major.index(part[-1])
    return all(taken[axis] == 1 for axis in major[:innermost])


def _sizes(written: str) -> list[int]:
    return [int(size) for size in written.split(",") if size]


def _executed(
    name: str, computations: Mapping[str, Sequence[_Instruction]], calls: frozenset[str]
) -> Iterator[_Instruction]:
    for one in computations.get(name, ()):
        if one.operation in calls:
            for inner in one.inner:
                yield from _executed(inner, computations, calls)
        else:
            yield one

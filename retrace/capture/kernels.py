"""Which source lines became which instructions and kernels of a compiled program.

    FileNames          1 "/home/me/train.py"
    FunctionNames      1 "step"
    FileLocations      1 {file_name_id=1 function_name_id=1 line=8 ...}
    StackFrames        1 {file_location_id=1 parent_frame_id=1}
    %sort.1 = f32[16]{0} sort(%x), ..., metadata={op_name="..." stack_frame_id=1}

is what XLA writes since jax 0.7; before, `source_file="..." source_line=8` stands in the
metadata.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.model.slow import Kernel

_MOST_LINES = 500
_MOST_OPERATIONS = 3

_NAME = re.compile(r'(\d+) "((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"(\d+) \{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)")
_FRAME = re.compile(r"(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(")
_NAMED = re.compile(r"=%([\w.\-]+)")
_INNER = ("calls", "to_apply", "body", "condition", "_computation")
"""What an instruction writes before the computations that it calls or applies."""
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_OPERAND = re.compile(r"%([\w.\-]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) (?:\(.*\) -> |\{)")
_FIRST = re.compile(r"^(?:ENTRY )?%", re.MULTILINE)
_BY_FRAME = re.compile(r"stack_frame_id=(\d+)")
_BY_LINE = re.compile(r'source_file="((?:[^"\\]|\\.)*)" source_line=(\d+)')
_QUIET = frozenset(
    (
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "call",
        "while",
        "after-all",
    )
)
"""What no code is made for."""
_CALLS = frozenset(("while", "conditional", "call", "async-start"))
"""What runs other computations: their kernels are kernels of their own."""
_COMPARES = 0.05
"""Of an instruction of a kernel, what one that compares two numbers of a sort takes LLVM: no loop
over arrays is made for it. Twenty sorts of eight arrays were compiled beside none, and ten."""
_SMALL = 'xla_cpu_small_call="true"'
"""A computation of which XLA makes one kernel, with all that it runs."""


class _Place(NamedTuple):
    file: str
    line: int
    function: str


@dataclass(slots=True)
class _Row:
    instructions: int = 0
    kernels: int = 0
    seconds: float = 0.0
    operations: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True, eq=False)
class _Instruction:
    name: str
    operation: str
    text: str
    place: _Place | None
    inner: tuple[str, ...] = ()
    """The computations that it calls, applies, or branches to."""


def kernels(
    text: str, seconds: Mapping[str, float], machine: float = 0.0
) -> tuple[tuple[Kernel, ...], int]:
    """The instructions of a compiled program by the user's source line, and its kernels in all.

    Args:
        text: XLA's, of the compiled program.
        seconds: what it took to compile each kernel, by name, as far as that was told.
        machine: seconds of making machine code, which are told for all kernels together.
    """
    spent = {_plain(name): each for name, each in seconds.items()}
    rows: defaultdict[_Place, _Row] = defaultdict(_Row)
    named = 0
    begins = _FIRST.search(text)
    head, body = ("", "") if begins is None else (text[: begins.start()], text[begins.start() :])
    computations = _computations(body, _places(head.splitlines()))
    # What a fusion calls, and a sort or a reduction applies, becomes part of its kernel.
    within: set[str] = set()
    for name, computation in reversed(computations.items()):
        for one in computation:
            if one.inner and (name in within or _is_whole(one)):
                within.update(one.inner)
    _locate(computations)
    applied: dict[_Place, float] = {}
    timed = 0
    for name, computation in computations.items():
        for one in computation:
            if one.operation in _QUIET and _SMALL not in one.text:
                continue
            own = spent.get(_plain(one.name), 0.0) if spent else 0.0
            is_kernel = name not in within or own > 0
            named += is_kernel
            if one.place is None:
                continue
            row = rows[one.place]
            row.instructions += 1
            row.kernels += is_kernel
            if one.operation != "fusion":
                row.operations[one.operation] += 1
            if own:
                mixed = _mixed(one, computations)
                timed += mixed.total()
                for place, share in mixed.items():
                    rows[place].seconds += own * share / mixed.total()
            elif name not in within and one.operation != "fusion" and _is_whole(one):
                weight = _COMPARES if one.operation == "sort" else 1.0
                for place, number in _mixed(one, computations).items():
                    applied[place] = applied.get(place, 0.0) + number * weight
    _spread(machine, rows, applied, timed)
    told = [
        Kernel(
            shown(place.file),
            place.line,
            place.function,
            row.instructions,
            row.kernels,
            row.seconds,
            tuple(row.operations.most_common(_MOST_OPERATIONS)),
        )
        for place, row in rows.items()
    ]
    told.sort(key=lambda one: (-one.seconds, -one.instructions))
    return tuple(told[:_MOST_LINES]), named


def _spread(
    machine: float, rows: Mapping[_Place, _Row], applied: Mapping[_Place, float], timed: int
) -> None:
    """Add the seconds of making machine code to the lines that it was made for.

    A kernel that took long before takes long there too. XLA makes equal kernels once, and only
    that one has seconds. What a small loop or the like runs has none of its own: each of its
    instructions counts as one of a kernel does, and each of a sort's comparison as less.
    """
    spent = sum(row.seconds for row in rows.values())
    if not spent:
        return
    each = spent / timed
    total = spent + each * sum(applied.values())
    for place, row in rows.items():
        row.seconds += machine * (row.seconds + each * applied.get(place, 0.0)) / total


def _computations(body: str, places: Mapping[int, _Place]) -> dict[str, list[_Instruction]]:
    """The computations of a program, those that are called before those that call them."""
    found: dict[str, list[_Instruction]] = {}
    computation: list[_Instruction] = []
    for line in body.splitlines():
        if line[:1] not in (" ", "}", ""):
            if (begins := _COMPUTATION.match(line.lstrip("%"))) is not None:
                computation = found.setdefault(begins[1], [])
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is None:
            continue
        inner: tuple[str, ...] = ()
        if "=%" in line:  # few have any
            found_in = _NAMED.finditer(line)
            inner = tuple(one[1] for one in found_in if line.endswith(_INNER, 0, one.start()))
        if "branch_computations" in line and (branches := _BRANCHES.search(line)) is not None:
            inner += tuple(_OPERAND.findall(branches[1]))
        computation.append(
            _Instruction(instruction[1], instruction[2], line, _place(line, places), inner)
        )
    return found


def _locate(computations: dict[str, list[_Instruction]]) -> None:
    """Give a place to instructions that XLA added: that of what they were added for.

    That is what a fusion is made of, what uses an instruction, what it uses, or what applies
    the computation that it stands in.
    """
    around: dict[str, _Place] = {}
    for name, computation in reversed(computations.items()):
        for one in computation:
            if one.place is None and one.operation == "fusion":
                inside = _mixed(one, computations)
                one.place = max(inside, key=lambda place: inside[place], default=None)
        _locate_inside(computation, around.get(name))
        for one in computation:
            if one.place is not None:
                for called in one.inner:
                    around.setdefault(called, one.place)


def _locate_inside(computation: Sequence[_Instruction], around: _Place | None) -> None:
    """The same for one computation, with the place of what applies it."""
    without = sum(one.place is None for one in computation)
    if without == len(computation):  # as what a sort compares by
        for one in computation:
            one.place = around
    elif without:
        known = {one.name: one for one in computation}
        for one in reversed(computation):
            if one.place is not None:
                for other in _operands(one, known):
                    other.place = other.place or one.place
        for one in computation:
            if one.place is None:
                placed = (other.place for other in _operands(one, known))
                one.place = next(filter(None, placed), around)


def _operands(one: _Instruction, known: Mapping[str, _Instruction]) -> list[_Instruction]:
    begins = one.text.find(f" {one.operation}(")
    if begins < 0:
        return []
    ends = one.text.find("), ", begins)
    names = _OPERAND.findall(one.text, begins, ends if ends >= 0 else len(one.text))
    return [known[name] for name in names if name in known]


def _is_whole(one: _Instruction) -> bool:
    """Whether what an instruction calls or applies becomes one kernel with it."""
    return bool(one.inner) and (one.operation not in _CALLS or _SMALL in one.text)


def _mixed(
    one: _Instruction, computations: Mapping[str, Sequence[_Instruction]]
) -> Counter[_Place]:
    """The lines that the code of one kernel is made for, each with its instructions."""
    found: Counter[_Place] = Counter()
    waiting, seen = [*one.inner], set(one.inner)
    while waiting:
        for inside in computations.get(waiting.pop(), ()):
            if inside.operation not in _QUIET and inside.place is not None:
                found[inside.place] += 1
            new = [name for name in inside.inner if name not in seen]
            waiting += new
            seen.update(new)
    if not found and one.place is not None:
        found[one.place] = 1
    return found


def _plain(name: str) -> str:
    """A name as it may be written otherwise in a profile."""
    return name.replace(".", "_").replace("-", "_")


def _place(line: str, places: Mapping[int, _Place]) -> _Place | None:
    if "metadata=" not in line:
        return None
    if (by_frame := _BY_FRAME.search(line)) is not None:
        return places.get(int(by_frame[1]))
    if (by_line := _BY_LINE.search(line)) is not None:
        return _Place(by_line[1], int(by_line[2]), "")
    return None


def _places(lines: Iterable[str]) -> dict[int, _Place]:
    """The user's innermost line of each stack; a library's where no line is the user's."""
    table = ""
    files: dict[int, str] = {}
    functions: dict[int, str] = {}
    locations: dict[int, _Place] = {}
    frames: dict[int, tuple[int, int]] = {}
    for line in lines:
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
        elif (name := _NAME.match(line)) is not None:
            (files if table == "FileNames" else functions)[int(name[1])] = name[2]
        elif (at := _LOCATION.match(line)) is not None:
            file, function = files.get(int(at[2]), ""), functions.get(int(at[3]), "")
            locations[int(at[1])] = _Place(file, int(at[4]), function)
        elif (frame := _FRAME.match(line)) is not None:
            frames[int(frame[1])] = int(frame[2]), int(frame[3] or 0)
    # XLA writes the number of the parent, or on some releases the one behind it.
    shift = 1 if any(parent == number for number, (_, parent) in frames.items()) else 0
    found: dict[int, _Place] = {}
    for number in frames:
        outside: _Place | None = None
        at = number
        for _ in range(len(frames)):
            if at not in frames:
                break
            where, parent = frames[at]
            place = locations.get(where)
            if place is not None:
                whose = owner(place.file)
                if whose is Owner.USER:
                    outside = place
                    break
                if outside is None and whose is Owner.LIBRARY:
                    outside = place
            at = parent - shift
        if outside is not None:
            found[number] = outside
    return found

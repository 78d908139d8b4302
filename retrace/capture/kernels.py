"""Which source lines became which instructions and kernels of a compiled program.

    FileNames          1 "/home/me/train.py"
    FunctionNames      1 "step"
    FileLocations      1 {file_name_id=1 function_name_id=1 line=8 ...}
    StackFrames        1 {file_location_id=1 parent_frame_id=1}
    %sort.1 = f32[16]{0} sort(%x), ..., metadata={op_name="..." stack_frame_id=1}

is what XLA writes since jax 0.7. Before that, the metadata contains
`source_file="..." source_line=8`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrace.capture.kernel_order import by_order
from retrace.capture.notebook_cells import shown
from retrace.capture.place import Owner, owner
from retrace.model.slow import Kernel

_MAX_LINES = 500
_MAX_OPERATIONS = 3

_NAME = re.compile(r'(\d+) "((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"(\d+) \{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)")
_FRAME = re.compile(r"(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(")
_NAMED = re.compile(r"=%([\w.\-]+)")
_INNER = ("calls", "to_apply", "body", "condition", "_computation")
"""Attributes of an instruction that name the computations it calls or applies."""
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_OPERAND = re.compile(r"%([\w.\-]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) (?:\(.*\) -> |\{)")
_FIRST = re.compile(r"^(?:ENTRY )?%", re.MULTILINE)
_BY_FRAME = re.compile(r"stack_frame_id=(\d+)")
_BY_LINE = re.compile(r'source_file="((?:[^"\\]|\\.)*)" source_line=(\d+)')
_NO_CODE = frozenset(
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
"""Operations for which no code is generated."""
CALLS = frozenset(("while", "conditional", "call", "async-start"))
"""Operations that run other computations, which have their own kernels."""
_COMPARISON_WEIGHT = 0.05
"""LLVM time for an instruction of a sort's comparison, relative to one of a kernel: no loop over
arrays is generated for it. Measured by compiling zero, ten and twenty sorts of eight arrays."""
_SMALL = 'xla_cpu_small_call="true"'
"""Marks a computation that XLA compiles to one kernel, including everything it runs."""


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
    text: str,
    seconds: Mapping[str, float],
    machine: float = 0.0,
    ordered: Sequence[tuple[str, float]] = (),
) -> tuple[tuple[Kernel, ...], int]:
    """The instructions of a compiled program by user source line, and its number of kernels.

    Args:
        text: XLA's text of the compiled program.
        seconds: compile time of each kernel, by name, as far as reported.
        machine: seconds spent generating machine code, reported for all kernels together.
        ordered: compile times in the order of the program, if not all kernels have names.
    """
    rows: defaultdict[_Place, _Row] = defaultdict(_Row)
    named = 0
    begins = _FIRST.search(text)
    head, body = ("", "") if begins is None else (text[: begins.start()], text[begins.start() :])
    computations = instructions(body, _places(head.splitlines()))
    known = by_order(ordered, computations, CALLS) if ordered else seconds
    spent = {_plain(name): each for name, each in known.items()}
    # Computations called by a fusion or applied by a sort or reduction are part of its kernel.
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
            if one.operation in _NO_CODE and _SMALL not in one.text:
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
                weight = _COMPARISON_WEIGHT if one.operation == "sort" else 1.0
                for place, number in _mixed(one, computations).items():
                    applied[place] = applied.get(place, 0.0) + number * weight
    _spread(machine, rows, applied, timed)
    result = [
        Kernel(
            shown(place.file),
            place.line,
            place.function,
            row.instructions,
            row.kernels,
            row.seconds,
            tuple(row.operations.most_common(_MAX_OPERATIONS)),
        )
        for place, row in rows.items()
    ]
    result.sort(key=lambda one: (-one.seconds, -one.instructions))
    return tuple(result[:_MAX_LINES]), named


def _spread(
    machine: float, rows: Mapping[_Place, _Row], applied: Mapping[_Place, float], timed: int
) -> None:
    """Distribute the seconds of generating machine code among the source lines.

    A kernel that took long before is assumed to take long here too. XLA compiles equal kernels
    once, and only that one has seconds. A small loop or the like has no seconds of its own:
    each of its instructions counts like one of a kernel, and in a sort's comparison less.
    """
    spent = sum(row.seconds for row in rows.values())
    if not spent:
        return
    each = spent / timed
    total = spent + each * sum(applied.values())
    for place, row in rows.items():
        row.seconds += machine * (row.seconds + each * applied.get(place, 0.0)) / total


def instructions(body: str, places: Mapping[int, _Place]) -> dict[str, list[_Instruction]]:
    """The computations of a program, callees before callers."""
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
        if "=%" in line:  # few instructions have any
            found_in = _NAMED.finditer(line)
            inner = tuple(one[1] for one in found_in if line.endswith(_INNER, 0, one.start()))
        if "branch_computations" in line and (branches := _BRANCHES.search(line)) is not None:
            inner += tuple(_OPERAND.findall(branches[1]))
        computation.append(
            _Instruction(instruction[1], instruction[2], line, _place(line, places), inner)
        )
    return found


def _locate(computations: dict[str, list[_Instruction]]) -> None:
    """Give each instruction that XLA added the place of the code it was added for.

    That is the place of what a fusion contains, of an instruction that uses it or that it uses,
    or of the instruction that applies its computation.
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
    """The same within one computation; `around` is the place of what applies it."""
    without = sum(one.place is None for one in computation)
    if without == len(computation):  # for example the comparison of a sort
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
    """Whether an instruction and the computations it calls or applies are one kernel."""
    return bool(one.inner) and (one.operation not in CALLS or _SMALL in one.text)


def _mixed(
    one: _Instruction, computations: Mapping[str, Sequence[_Instruction]]
) -> Counter[_Place]:
    """The source lines of one kernel, each with its number of instructions."""
    found: Counter[_Place] = Counter()
    waiting, seen = [*one.inner], set(one.inner)
    while waiting:
        for inside in computations.get(waiting.pop(), ()):
            if inside.operation not in _NO_CODE and inside.place is not None:
                found[inside.place] += 1
            new = [name for name in inside.inner if name not in seen]
            waiting += new
            seen.update(new)
    if not found and one.place is not None:
        found[one.place] = 1
    return found


def _plain(name: str) -> str:
    """A name normalized for comparison, as a profile may spell it differently."""
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
    """The innermost user line of each stack, or a library line if there is no user line."""
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
    # XLA writes the number of the parent, or on some releases that number plus one.
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

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
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from retrace.capture.cell import shown
from retrace.capture.place import Owner, owner
from retrace.model.slow import Kernel

_MOST_LINES = 500
_MOST_OPERATIONS = 3

_NAME = re.compile(r'(\d+) "((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"(\d+) \{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)")
_FRAME = re.compile(r"(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (?:\([^=]*?\)|\S+) ([\w\-]+)\(")
_INNER = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) (?:\(.*\) -> |\{)")
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


def kernels(text: str, seconds: Mapping[str, float]) -> tuple[tuple[Kernel, ...], int]:
    """The instructions of a compiled program by the user's source line, and its kernels in all.

    Args:
        text: XLA's, of the compiled program.
        seconds: what it took to compile each kernel, by name, as far as that was told.
    """
    spent = {_plain(name): each for name, each in seconds.items()}
    rows: dict[_Place, _Row] = {}
    named = 0
    head, _, body = text.partition("\n%")
    places = _places(head.splitlines())
    inner = set(_INNER.findall(body))
    within = False
    for line in body.splitlines():
        if line[:1] not in (" ", "}", ""):
            found = _COMPUTATION.match(line.lstrip("%"))
            within = found is not None and found[1] in inner
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is None or instruction[2] in _QUIET:
            continue
        own = spent.get(_plain(instruction[1]), 0.0)
        is_kernel = not within or own > 0
        named += is_kernel
        place = _place(line, places)
        if place is None:
            continue
        row = rows.setdefault(place, _Row())
        row.instructions += 1
        row.kernels += is_kernel
        row.seconds += own
        if instruction[2] != "fusion":
            row.operations[instruction[2]] += 1
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


def _plain(name: str) -> str:
    """A name as it may be written otherwise in a profile."""
    return name.replace(".", "_").replace("-", "_")


def _place(line: str, places: Mapping[int, _Place]) -> _Place | None:
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

"""Where the seconds of a miss went: the `slow` field of an amendment.

{"amend": 3, "slow": {"over": 5.0,
   "frames": [[FILE, LINE, FUNCTION, FIRST_LINE, LIBRARY], ...],
   "tracing": {"waited": 1.0, "seconds": 28.8, "samples": 2870,
               "stacks": [[SECONDS, PART, [FRAME, ...]], ...],
               "loops": [[FRAME, LAST_LINE], ...]},
   "compiling": {"passes": [[NAME, SECONDS, TIMES, KIND], ...],
                 "kernels": [[FRAME, INSTRUCTIONS, KERNELS, SECONDS, [[NAME, N], ...]], ...]},
   "memory": [ARGUMENTS, OUTPUTS, TEMPORARIES, ALIASED, CODE],
   "module": {"packed": TEXT, "size": 74210, "constants": 2}}}

A frame is referred to by its number in `frames`. A later amendment replaces the same field of an
earlier one: while a trace is running, what was seen so far is written from time to time.
"""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from retrace.model import JSON, Frame
from retrace.model.slow import (
    Compiling,
    Kernel,
    Loop,
    Memory,
    Module,
    Part,
    Pass,
    Sampled,
    Slow,
    Tracing,
)
from retrace.store.decoded import number, seconds, text, text_or_none

_PARTS = frozenset(part.value for part in Part)
_DIGITS = 6
_MAX_MODULE_BYTES = 1 << 26
"""Maximum size of a module that a reader unpacks."""


class _Frames:
    """Numbers frames, so that each is written once."""

    def __init__(self, redact: Callable[[Frame], Frame] | None) -> None:
        self.rows: list[JSON] = []
        self._known: dict[Frame, int] = {}
        self._redact = redact

    def number(self, frame: Frame) -> int:
        found = self._known.get(frame)
        if found is None:
            found = self._known[frame] = len(self.rows)
            one = frame if self._redact is None else self._redact(frame)
            library = int(one.in_library)
            self.rows.append([one.file, one.line, one.function, one.first_line, library])
        return found


def encode_slow(slow: Slow, redact: Callable[[Frame], Frame] | None = None) -> dict[str, JSON]:
    """Encode the `slow` field of an amendment.

    Args:
        slow: what was observed.
        redact: redacts a frame, if the recording is redacted.
    """
    frames = _Frames(redact)
    fields: dict[str, JSON] = {}
    if (tracing := slow.tracing) is not None:
        traced: dict[str, JSON] = {
            "waited": round(tracing.waited, _DIGITS),
            "seconds": round(tracing.seconds, _DIGITS),
            "samples": tracing.samples,
            "stacks": [
                [round(one.seconds, _DIGITS), one.part, [frames.number(f) for f in one.stack]]
                for one in tracing.stacks
            ],
        }
        if tracing.cut:
            traced["cut"] = round(tracing.cut, _DIGITS)
        if tracing.collections:
            traced["collections"] = tracing.collections
        if not tracing.ended:
            traced["ended"] = False
        if tracing.loops:
            traced["loops"] = [[frames.number(one.frame), one.end] for one in tracing.loops]
        fields["tracing"] = traced
    if (compiling := slow.compiling) is not None:
        fields["compiling"] = _encode_compiling(compiling, frames)
    if slow.memory is not None:
        fields["memory"] = list(slow.memory)
    if slow.module is not None:
        # Its text contains numbers and names of the user, so it is removed completely.
        kept = slow.module if redact is None else Module(unkept="redacted")
        fields["module"] = _encode_module(kept)
    if slow.over:
        fields["over"] = slow.over
    if frames.rows:
        fields["frames"] = frames.rows
    return fields


def _encode_module(module: Module) -> dict[str, JSON]:
    if module.unkept is not None:
        return {"unkept": module.unkept}
    fields: dict[str, JSON] = {"packed": module.packed, "size": module.size}
    if module.constants:
        fields["constants"] = module.constants
    if module.partitions != 1:
        fields["partitions"] = module.partitions
    if module.replicas != 1:
        fields["replicas"] = module.replicas
    if module.options:
        fields["options"] = [list(each) for each in module.options]
    if module.platform:
        fields["platform"] = module.platform
    if module.device:
        fields["device"] = module.device
    return fields


def _encode_compiling(compiling: Compiling, frames: _Frames) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    if compiling.passes:
        fields["passes"] = [
            [one.name, round(one.seconds, _DIGITS), one.times, one.kind]
            for one in compiling.passes
        ]
    if compiling.kernels:
        fields["kernels"] = [
            [
                frames.number(Frame(one.file, one.line, one.function, one.line, False)),
                one.instructions,
                one.kernels,
                round(one.seconds, _DIGITS),
                [list(each) for each in one.operations],
            ]
            for one in compiling.kernels
        ]
    if compiling.named:
        fields["named"] = compiling.named
    if compiling.threads:
        fields["threads"] = round(compiling.threads, _DIGITS)
    if compiling.unprofiled is not None:
        fields["unprofiled"] = compiling.unprofiled
    if compiling.beside:
        fields["beside"] = True
    return fields


def decode_slow(fields: Mapping[str, Any], before: Slow | None) -> Slow:
    """Add an amendment's fields; raises TypeError, ValueError or LookupError on invalid data."""
    slow = before or Slow()
    frames = [_frame(row) for row in fields.get("frames", ())]
    if (tracing := fields.get("tracing")) is not None:
        slow = slow._replace(tracing=_tracing(tracing, frames))
    if (compiling := fields.get("compiling")) is not None:
        slow = slow._replace(compiling=_compiling(compiling, frames))
    if (memory := fields.get("memory")) is not None:
        arguments, outputs, temporaries, aliased, code = map(number, memory)
        slow = slow._replace(memory=Memory(arguments, outputs, temporaries, aliased, code))
    if (module := fields.get("module")) is not None:
        slow = slow._replace(module=_module(module))
    if (over := fields.get("over")) is not None:
        slow = slow._replace(over=seconds(over))
    return slow


def _frame(row: Any) -> Frame:
    file, line, function, first, library = row
    return Frame(text(file), number(line), text(function), number(first), bool(library))


def _at(frames: list[Frame], index: Any) -> Frame:
    if (at := number(index)) < 0:
        raise ValueError("no such frame")
    return frames[at]


def _tracing(fields: Mapping[str, Any], frames: list[Frame]) -> Tracing:
    return Tracing(
        waited=seconds(fields["waited"]),
        seconds=seconds(fields["seconds"]),
        samples=number(fields["samples"]),
        stacks=tuple(
            Sampled(
                seconds(spent),
                # A newer retrace may know more parts of JAX than this one.
                Part(part) if text(part) in _PARTS else Part.TRACING,
                tuple(_at(frames, index) for index in stack),
            )
            for spent, part, stack in fields["stacks"]
        ),
        cut=seconds(fields.get("cut", 0.0)),
        collections=number(fields.get("collections", 0)),
        ended=bool(fields.get("ended", True)),
        loops=tuple(
            Loop(_at(frames, index), number(end)) for index, end in fields.get("loops", ())
        ),
    )


def _compiling(fields: Mapping[str, Any], frames: list[Frame]) -> Compiling:
    return Compiling(
        passes=tuple(
            Pass(text(name), seconds(spent), number(times), text(kind))
            for name, spent, times, kind in fields.get("passes", ())
        ),
        kernels=tuple(_kernel(row, frames) for row in fields.get("kernels", ())),
        named=number(fields.get("named", 0)),
        threads=seconds(fields.get("threads", 0.0)),
        unprofiled=text_or_none(fields.get("unprofiled")),
        beside=bool(fields.get("beside", False)),
    )


def _module(fields: Mapping[str, Any]) -> Module:
    return Module(
        packed=text(fields.get("packed", "")),
        size=number(fields.get("size", 0)),
        constants=number(fields.get("constants", 0)),
        partitions=number(fields.get("partitions", 1)),
        replicas=number(fields.get("replicas", 1)),
        options=tuple((text(name), text(value)) for name, value in fields.get("options", ())),
        unkept=text_or_none(fields.get("unkept")),
        platform=text(fields.get("platform", "")),
        device=text(fields.get("device", "")),
    )


def _kernel(row: Any, frames: list[Frame]) -> Kernel:
    index, instructions, kernels, spent, operations = row
    at = _at(frames, index)
    return Kernel(
        at.file,
        at.line,
        at.function,
        number(instructions),
        number(kernels),
        seconds(spent),
        tuple((text(name), number(times)) for name, times in operations),
    )


def unpack(module: Module) -> str:
    """Unpack the text of a module; raises ValueError if it cannot be read."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(b64decode(module.packed), _MAX_MODULE_BYTES)
    except zlib.error as error:
        raise ValueError("the module is damaged") from error
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("the module is damaged or too long")
    return data.decode()

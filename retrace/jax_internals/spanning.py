"""Find the processes on which the program being compiled will run."""

from __future__ import annotations

from types import FrameType
from typing import Any

from retrace.jax_internals import names_frames as at
from retrace.jax_internals.row import looked_up

_MAX_FRAMES = 10
_DEVICES, _OF_THIS_PROCESS = at.COMPILED_FOR.name, at.OF_THIS_PROCESS.name


def processes_of(frame: FrameType | None) -> tuple[int, ...]:
    """The processes whose devices a program is compiled for.

    Args:
        frame: a JAX frame inside the compilation.

    Returns:
        Their indices; empty if all devices are of this process, or if this JAX does not show
        them.
    """
    compiles = looked_up[at.COMPILES]
    for _ in range(_MAX_FRAMES):
        if frame is None or compiles is None:
            return ()
        if frame.f_code is compiles:
            local = frame.f_locals
            devices: Any = local.get(_DEVICES)
            if devices is None:
                devices = at.COMPILED_FOR_BEFORE.among(local)
            # Making objects of the devices of a list takes longer than everything else here.
            if devices is None or getattr(devices, _OF_THIS_PROCESS, None):
                return ()
            return tuple(sorted({device.process_index for device in devices}))
        frame = frame.f_back
    return ()

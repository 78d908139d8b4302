"""Find the processes on which the program being compiled will run."""

from __future__ import annotations

from types import FrameType

from retrace.jax_internals import names_frames as at

_MAX_FRAMES = 10


def processes_of(frame: FrameType | None) -> tuple[int, ...]:
    """The processes whose devices a program is compiled for.

    Args:
        frame: a JAX frame inside the compilation.

    Returns:
        Their indices; empty if all devices are of this process, or if this JAX does not show
        them.
    """
    compiles = at.COMPILES.get()
    for _ in range(_MAX_FRAMES):
        if frame is None or compiles is None:
            return ()
        if frame.f_code is compiles:
            local = frame.f_locals
            devices = at.COMPILED_FOR.among(local)
            if devices is None:
                devices = at.COMPILED_FOR_BEFORE.among(local)
            # Making objects of the devices of a list takes longer than everything else here.
            if devices is None or at.OF_THIS_PROCESS.of(devices):
                return ()
            return tuple(sorted({device.process_index for device in devices}))
        frame = frame.f_back
    return ()

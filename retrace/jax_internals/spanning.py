"""How many processes the program that is being compiled runs on."""

from __future__ import annotations

from types import FrameType

from retrace.jax_internals import names_frames as at

_DEEPEST = 10


def processes(frame: FrameType | None) -> int | None:
    """The number of processes whose devices a program is compiled for.

    Args:
        frame: of JAX's, below its compilation.

    Returns:
        None where this JAX does not show it.
    """
    compiles = at.COMPILES.get()
    for _ in range(_DEEPEST):
        if frame is None or compiles is None:
            return None
        if frame.f_code is compiles:
            before = at.COMPILED_FOR_BEFORE.among(frame.f_locals)
            devices = at.COMPILED_FOR.among(frame.f_locals, before)
            if devices is None:
                return None
            return len({device.process_index for device in devices})
        frame = frame.f_back
    return None

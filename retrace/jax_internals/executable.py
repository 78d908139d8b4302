"""What XLA made of a program: its memory, and its text."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from retrace.jax_internals import names_slow as at
from retrace.model.slow import Memory

_DEEPEST = 6


class Made(NamedTuple):
    """A program that was just compiled."""

    memory: Callable[[], Memory | None]
    text: Callable[[], str | None]
    """XLA's text of it. The module behind it is XLA's, and holds nothing of the user's."""


def made(frame: FrameType | None) -> Made | None:
    """The program that was compiled in JAX's frames around one; None where it does not show."""
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if frame.f_code.co_name == at.COMPILED.name:
            found = at.EXECUTABLE.among(frame.f_locals)
            return None if found is None else _of(found)
        frame = frame.f_back
    return None


def _of(executable: Any) -> Made:
    modules: list[Any] = executable.hlo_modules()
    text = modules[0].to_string if len(modules) == 1 else _none
    return Made(lambda: _memory(executable), text)


def _none() -> None:
    return None


def _memory(executable: Any) -> Memory | None:
    told = executable.get_compiled_memory_stats()
    sizes = [
        getattr(told, f"{name}_size_in_bytes", 0)
        for name in ("argument", "output", "temp", "alias", "generated_code")
    ]
    arguments, outputs, temporaries, aliased, code = map(int, sizes)
    # CPUs have their code elsewhere.
    code = max(code, int(getattr(told, "host_generated_code_size_in_bytes", 0)), 0)
    return Memory(arguments, outputs, temporaries, aliased, code)

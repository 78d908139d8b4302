"""What XLA compiled a program into: its memory use and its HLO text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from retrace.jax_internals import names_slow as at
from retrace.model.slow import Memory

_MAX_FRAMES = 6
_MAX_CONSTANT = 4096
"""Maximum number of elements; the content of larger constants is never printed."""


class Given(NamedTuple):
    """The input of XLA's compilation."""

    text: str
    """StableHLO with source locations; small constants keep their content."""
    partitions: int
    replicas: int
    options: tuple[tuple[str, str], ...]
    platform: str
    """What it is compiled for: `cpu`, `gpu`, `tpu`. Not always what the process runs on."""
    device: str
    """The kind of device."""


class Made(NamedTuple):
    """A program that has just been compiled."""

    memory: Callable[[], Memory | None]
    text: Callable[[], str | None]
    """Its HLO text. Keeps XLA's module alive, but no user objects."""
    given: Callable[[], Given | None]
    """The input of the compilation. Call at once and do not keep: it holds constants."""


def made(frame: FrameType | None) -> Made | None:
    """Find the program compiled in the JAX frames around `frame`; None if not visible."""
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == at.COMPILED.name:
            found = at.EXECUTABLE.among(frame.f_locals)
            if found is None:
                return None
            computation = at.COMPUTATION.among(frame.f_locals)
            options = at.COMPILE_OPTIONS.among(frame.f_locals)
            backend = at.BACKEND.among(frame.f_locals)
            return _of(found, partial(_given, computation, options, backend))
        frame = frame.f_back
    return None


def _of(executable: Any, given: Callable[[], Given | None]) -> Made:
    modules: list[Any] = _told(executable.hlo_modules) or []
    text = modules[0].to_string if len(modules) == 1 else _none
    return Made(lambda: _memory(executable), text, given)


def _given(computation: Any, options: Any, backend: Any) -> Given | None:
    if computation is None or options is None or backend is None:
        return None
    text: str = computation.operation.get_asm(
        large_elements_limit=_MAX_CONSTANT, enable_debug_info=True
    )
    overrides: list[tuple[str, Any]] = list(options.env_option_overrides)
    return Given(
        text,
        int(options.num_partitions),
        int(options.num_replicas),
        tuple((name, _text(value)) for name, value in overrides),
        str(backend.platform),
        str(next((each.device_kind for each in backend.devices()), "")),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _none() -> None:
    return None


def _told(ask: Callable[[], Any]) -> Any:
    """The answer of XLA; None if it has none, as for a described device on older releases."""
    try:
        return ask()
    except RuntimeError as error:
        if "UNIMPLEMENTED" not in str(error):
            raise
        return None


def _memory(executable: Any) -> Memory | None:
    stats = _told(executable.get_compiled_memory_stats)
    if stats is None:
        return None
    sizes = [
        getattr(stats, f"{name}_size_in_bytes", 0)
        for name in ("argument", "output", "temp", "alias", "generated_code")
    ]
    arguments, outputs, temporaries, aliased, code = map(int, sizes)
    # CPU backends report the code size in another field.
    code = max(code, int(getattr(stats, "host_generated_code_size_in_bytes", 0)), 0)
    return Memory(arguments, outputs, temporaries, aliased, code)

"""Makes each function of retrace's that runs while a program is recorded raise once.

python faults.py RESULTS     a JSON list: for each function what the program then said,
                             what stderr said, and what was recorded
"""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrace import failure
from retrace.capture import session as capture
from retrace.jax_internals import calls, config, shardings
from retrace.model import Recording
from retrace.store.reader import read_lines

PACKAGE = Path(str(capture.__file__)).parent.parent
ROOMS = ("capture/", "jax_internals/", "store/writer.py", "store/sinks.py")
NOT_INSIDE = (
    "jax_internals/counting.py",
    "jax_internals/hooks.py",
    "jax_internals/replacements.py",
    "jax_internals/traces.py",
    "jax_internals/wiring.py",
    "capture/observers.py",
    "capture/session.py",
)
"""The guard itself with what stands around it, and what users call by name."""
GUARDED = frozenset(
    (
        "Hooks._enter",
        "Hooks._exit",
        "Hooks._on_real_trace",
        "Trace.__init__",
        "Wiring.cut",
        "Wiring.is_probe",
        "_unwrapped",
    )
)
"""What the guard stands around in these."""
THE_GUARD = ("_guard", "_run", "_next", "_empty")
"""What carries the guard to a thread of our own."""


class FaultError(Exception):
    """Raised in place of a function of retrace's."""


class Pair(NamedTuple):
    left: Any
    right: Any


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and other.factor == self.factor

    def __hash__(self) -> int:
        return hash(self.factor)

    def double(self, x: Any) -> Any:
        return 2 * x * self.factor


def first() -> object:
    """An argument that was static twice, and options."""
    jax.config.update("jax_log_compiles", False)
    bias = np.ones(2, np.float32)
    scaled = jax.jit(lambda pair, scale: pair.left + scale.factor, static_argnums=1)
    return [scaled.lower(Pair(bias, {"a": None}), Scale(number)) and 0 for number in (2, 3)]


def nested() -> object:
    """A jit inside another, that is called and then cleared."""
    bias = np.ones(2, np.float32)
    inner = jax.jit(lambda x: jnp.sin(x) + bias)
    outer: Any = jax.jit(lambda x: inner(x) * 2)
    result = outer(bias)
    outer.clear_cache()
    return result


def derived() -> object:
    """A gradient, and a bound method under a transform."""
    return jax.grad(jax.jit(Scale(2).double))(3.0)


def ahead() -> object:
    """A long program compiled ahead of time, and one that is not compiled."""

    def long(x: Any, *, shift: float = 1.0) -> Any:
        for _ in range(1100):
            x = x + shift
        return x

    _alive.append(long)  # JAX would drop its program before it was written down
    compiled = jax.jit(long).lower(jnp.float32(1)).compile()
    return compiled(jnp.float32(1)), jax.eval_shape(long, 1)


def eager() -> object:
    """A control-flow operation outside all jitted functions."""
    return jax.lax.scan(lambda carry, x: (carry + x, carry), 0.0, np.ones(2, np.float32))


PROGRAMS: tuple[Callable[[], object], ...] = (first, nested, derived, ahead, eager)

_seen: dict[CodeType, tuple[str, Callable[[], object]]] = {}
_running: Callable[[], object] = first
_target: CodeType | None = None
_raised = False
_alive: list[object] = []


def _place(code: CodeType) -> str | None:
    place = code.co_filename.removeprefix(f"{PACKAGE}/")
    if (
        place == code.co_filename
        or not place.startswith(ROOMS)
        or (place in NOT_INSIDE and code.co_qualname not in GUARDED)
    ):
        return None
    return None if code.co_name in THE_GUARD else f"{place} {code.co_qualname}"


def _discover(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and (place := _place(frame.f_code)) is not None:
        _seen.setdefault(frame.f_code, (place, _running))


def _inject(frame: FrameType, event: str, arg: object) -> None:
    global _target, _raised
    hit = event == "call" and frame.f_code is _target
    # The mark of a debugger's or a signal's exception is a frame among its locals.
    del frame, arg
    if hit:
        _target = None
        _raised = True
        raise FaultError


_outside = failure.interrupts


def _interrupts(error: BaseException) -> bool:
    # A tracer raises here what stands for a failure of ours; else that is a debugger's.
    return type(error) is not FaultError and _outside(error)


def _recorded(trace: Callable[[FrameType, str, object], None]) -> tuple[str, str, Recording]:
    """Run the program under `trace`, and a last miss, both in a session of their own."""
    capture._session = None  # pyright: ignore[reportPrivateUsage]
    for module in (config, calls, shardings):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
    stderr, sys.stderr = sys.stderr, io.StringIO()
    told = sys.stderr
    _alive.clear()
    writer, memory = capture.begin_memory()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        said = str(_running())
        jax.jit(lambda last: last + 1).lower(np.ones(3))
        capture.session().detach(writer)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]
        sys.stderr = stderr
    return said, told.getvalue(), read_lines(memory.lines)


def main() -> None:
    """Find the functions, and make each of them raise."""
    failure.interrupts = _interrupts
    global _running, _target, _raised
    plain: dict[Callable[[], object], str] = {}
    for program in PROGRAMS:
        _running = program
        plain[program] = str(program())
        said, told, recording = _recorded(_discover)
        assert (said, told, recording.runs[0].losses) == (plain[program], "", {}), told
    results: list[dict[str, object]] = []
    for code, (place, program) in sorted(_seen.items(), key=lambda item: item[1][0]):
        _running, _target, _raised = program, code, False
        said, told, recording = _recorded(_inject)
        last = recording.misses[-1]
        results.append(
            {
                "function": place,
                "raised": _raised,
                "said": said,
                "plain": plain[program],
                "told": told,
                "losses": recording.runs[0].losses,
                "last": last.key.leaves[0].path if last.key.leaves else None,
                "stages": sorted(last.stages),
            }
        )
    Path(sys.argv[1]).write_text(json.dumps(results))


main()

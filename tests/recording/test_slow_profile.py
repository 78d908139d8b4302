"""What is read of a profile of XLA's: that leaves out what it need not read."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from retrace.jax_internals import names_slow
from retrace.jax_internals.profile import Profile
from retrace.jax_internals.xspace import Compilation, compilation, threads
from retrace.model.protobuf import fields
from retrace.rebuilt import profiling

KERNEL, INNER, PASS, WORK = 1, 2, 3, 4
NAMES = {KERNEL: "FusionCompiler::Compile", INNER: "CSEPass", PASS: "dce", WORK: "CpuCompiler"}


def number(value: int) -> bytes:
    written = b""
    while value >= 128:
        written += bytes((value & 127 | 128,))
        value >>= 7
    return written + bytes((value,))


def held(at: int, content: bytes) -> bytes:
    return number(at << 3 | 2) + number(len(content)) + content


def plain(at: int, value: int) -> bytes:
    return number(at << 3) + number(value)


def event(kind: int, start: int, length: int, module: str = "") -> bytes:
    said = held(4, plain(1, 9) + held(5, module.encode())) if module else b""
    return held(4, plain(1, kind) + plain(2, start) + plain(3, length) + said)


def profile(*events: bytes, origins: tuple[int, ...] = (0,)) -> bytes:
    """One thread for each origin, in nanoseconds."""
    named = [held(4, plain(1, n) + held(2, held(2, name.encode()))) for n, name in NAMES.items()]
    kinds = held(5, plain(1, 9) + held(2, held(2, b"module")))
    threads = [held(3, plain(3, origin) + b"".join(events)) for origin in origins]
    return held(1, b"".join(threads) + b"".join(named) + kinds)


def test_the_steps_of_a_kernel_are_its_own() -> None:
    second = 10**12
    found = compilation(
        profile(
            event(PASS, 0, second),
            event(KERNEL, 2 * second, 3 * second, "__compute_module_sine_kernel_module"),
            *(event(INNER, 2 * second + step, 100) for step in range(0, 2000, 100)),
            event(INNER, 5 * second - 100, 100),
            event(PASS, 5 * second, 2 * second),
            event(KERNEL, 8 * second, second, "again"),
            event(INNER, 8 * second, second),
        )
    )
    assert found.kernels == {"sine": 3.0, "again": 1.0}
    assert found.threads == 4.0


def test_threads_have_one_clock() -> None:
    found = threads(profile(event(PASS, 5, 7), origins=(10, 1000)))
    assert [[one.start for one in events] for events in found] == [[10_005], [1_000_005]]


def test_numbers_of_any_length() -> None:
    for value in (0, 1, 127, 128, 300, 1 << 14, (1 << 63) - 1, 1 << 63):
        message = memoryview(plain(1, value) + plain(2000, value) + held(3, b"x" * 200))
        assert list(fields(message)) == [(1, value), (2000, value), (3, b"x" * 200)]
        for end in range(1, 8):
            with pytest.raises((ValueError, IndexError)):
                list(fields(message[:-end]))


def test_xla_writes_events_in_the_order_in_which_they_began() -> None:
    # So the steps of a kernel stand behind it, and what began after it can be looked for.
    if not names_slow.SESSION.expected:
        pytest.skip("this JAX tells nothing of its compilations")

    def f(x: Any) -> Any:
        for i in range(20):
            x = jnp.sort(jnp.sin(x) * i + jnp.cumsum(x))
        return x.sum()

    lowered = jax.jit(f).lower(jnp.ones(32))
    ours = Profile()
    assert ours.begin() is None
    lowered.compile()
    data = ours.end()
    assert data is not None
    threads = 0
    for of_space, plane in fields(memoryview(data)):
        if of_space != 1 or isinstance(plane, int):
            continue
        for of_plane, line in fields(plane):
            if of_plane != 3 or isinstance(line, int):
                continue
            began: list[tuple[Any, Any]] = []
            for of_line, written in fields(line):
                if of_line == 4 and not isinstance(written, int):
                    said = dict(fields(written))
                    length: Any = said.get(3, 0)
                    began.append((said.get(2, 0), -length))
            assert began == sorted(began)
            threads += len(began) > 20
    assert threads


def test_a_program_compiled_alone_is_announced_as_jax_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a GPU, passes and kernels count from there on.
    if not names_slow.SESSION.expected:
        pytest.skip("this JAX tells nothing of its compilations")
    read: list[Compilation] = []

    def reading(data: bytes) -> Compilation:
        read.append(compilation(data))
        return read[-1]

    monkeypatch.setattr(profiling, "compilation", reading)
    text = jax.jit(jnp.sin).lower(1.0).as_text()
    profiling.answer({"text": text, "options": [1, 1, [], jax.default_backend()]})
    assert [one.programs for one in read] == [1]

"""`retrace.slow`: halves of a program compiled alone, down to the part that stays slow."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrace
from retrace.errors import UsageError
from retrace.inside import slow as slow_
from retrace.jax_internals import program_parts

pytestmark = pytest.mark.drawn

TABLE = np.ones((50, 60), np.float32)
HELD = re.compile("dense<[^>]*> : tensor<50x60xf32>")


@jax.jit
def inner(x: Any) -> Any:
    for index in range(20):
        x = x + index
    x = jnp.linalg.qr(x)[0]  # planted
    for index in range(20):
        x = x * index
    return x


def step(x: Any) -> Any:
    return inner(x) + (TABLE * x[0, 0]).sum()


def test_the_slow_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a part costs is told here by what is in it: no clock decides.
    real: Callable[[program_parts.Part], Any] = program_parts.compiled

    def compiled(part: program_parts.Part) -> Any:
        _, text = real(part)
        equations = getattr(part.jaxpr, "jaxpr", part.jaxpr).eqns[part.first : part.end]
        return 0.01 * len(equations) + 10 * ("geqrf" in text()), text

    monkeypatch.setattr(program_parts, "compiled", compiled)
    found = retrace.slow(step, jax.ShapeDtypeStruct((9, 9), np.float32))
    assert found.part.seconds > 10 and found.part.equations < 8
    lines = {(line.file, line.line) for line in found.lines}
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    planted = next(number for number, line in enumerate(text, 1) if line.endswith("# planted"))
    assert lines == {(__file__, planted)}
    assert "stablehlo" in found.stablehlo
    assert str(found).startswith("step: ")


def test_each_part_of_a_program_can_be_compiled_alone() -> None:
    whole = program_parts.traced(step, (jax.ShapeDtypeStruct((9, 9), np.float32),), {})
    for first in range(program_parts.size(whole)):
        for end in range(first + 1, program_parts.size(whole) + 1):
            seconds, text = program_parts.compiled(whole._replace(first=first, end=end))
            assert seconds > 0
            # The captured array is an argument: none of its content is in the text.
            assert not HELD.search(text())


def test_a_program_without_equations() -> None:
    with pytest.raises(UsageError):
        retrace.slow(lambda x: x, 1.0)
    assert slow_.slow is retrace.slow

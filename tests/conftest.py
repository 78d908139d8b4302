"""For every test: where JAX runs, and that no hook of retrace is left in JAX afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import cast

import pytest

from tests import sample

# `python tests/matrix.py --device` asks for an accelerator.
os.environ["JAX_PLATFORMS"] = os.environ.get("RETRACE_TEST_PLATFORMS", "cpu")
for name in (
    "RETRACE",
    "RETRACE_DIR",
    "RETRACE_POLICY",
    "RETRACE_REDACT",
    "RETRACE_AGREE",
    "RETRACE_REDACT_KEY",
):
    os.environ.pop(name, None)

# Where hooks could be: JAX's listeners, its trace functions, its `jit` and its stages.
_PLACES = (
    "jax",
    "jax.monitoring",
    "jax._src.api",
    "jax._src.compiler",
    "jax._src.interpreters.partial_eval",
    "jax._src.monitoring",
    "jax._src.pjit",
    "jax._src.stages.Lowered",
    "jax._src.stages.Traced",
    "jax._src.util",
)


# The hooks of `retrace.counts` stay in place, and do nothing but count.
_COUNTS = "retrace.jax_internals.counting"


def _is_ours(value: object) -> bool:
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module == _COUNTS:
        return False
    return module.partition(".")[0] == "retrace"


def hooks_in_jax() -> list[str]:
    """The names in JAX that refer to something of retrace."""
    found: list[str] = []
    for place in _PLACES:
        module, _, class_name = place.rpartition(".")
        owner = sys.modules.get(place) or getattr(sys.modules.get(module), class_name, None)
        for name, value in vars(owner).items() if owner is not None else ():
            held = cast("list[object]", value) if isinstance(value, list) else [value]
            found += [f"{place}.{name}" for one in held if _is_ours(one)]
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what CI runs on another JAX: each run does a part of the tests marked `drawn`."""
    left_out = [item for item in items if not _is_drawn(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_drawn(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("drawn")
    # Ignore parameters, so that a fixture shared by all of them is only used on one JAX.
    name = item.nodeid.partition("[")[0]
    return mark is None or sample.is_drawn(name, **{"of": 3, **mark.kwargs})


@pytest.fixture(autouse=True)
def _jax_is_left_as_it_was() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    assert not hooks_in_jax(), "left by an earlier test, or by an import"
    yield
    assert not hooks_in_jax(), "left by this test"

"""What JAX keeps of the context of an equation, under which it is lowered.

`with jax.threefry_partitionable(False)` inside a function changes no operation and no parameter,
but the numbers that are drawn.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from retrace.jax_internals.names_values import OF_CONTEXT

DRAWING = ("random_", "threefry2x32", "rng_")
"""How the names of operations begin that draw random numbers."""
_PARTITIONABLE = OF_CONTEXT["threefry_partitionable"]
_COMPUTED_ON = OF_CONTEXT["compute_type"]
_METADATA = OF_CONTEXT["xla_metadata"]

_READ = attrgetter(_COMPUTED_ON.name, _METADATA.name, _PARTITIONABLE.name)
_USUAL, _NOTHING = (None, None, True), ("", "")
"""For nearly all, which in jax 0.6 have a context each."""


def context_texts(context: Any) -> tuple[str, str]:
    """What differs from JAX's defaults, as more parameters of an equation; mostly nothing.

    Args:
        context: the `ctx` of an equation.

    Returns:
        The text for any operation, and for one that draws random numbers.
    """
    try:
        if _READ(context) == _USUAL:
            return _NOTHING
    except AttributeError:
        pass  # this JAX lacks one of them
    text = ""
    if (where := _COMPUTED_ON.of(context)) is not None:
        text += f"\tcompute_type={where}"
    if metadata := _METADATA.of(context):
        text += f"\txla_metadata={sorted(metadata.items())}"
    is_other = _PARTITIONABLE.of(context) is False
    return text, "\tthreefry_partitionable=False" if is_other else ""

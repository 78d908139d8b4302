"""Eager operations by what they are: made again at each call, or such as only JAX has."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.causes import OF_FUNCTION, Cause
from retrace.model import Verdict
from retrace.reason.evidence import is_another_function, is_function

_MIN_AGAIN = 2
"""Minimum number of times that something was made again."""
_NOT_OF_NUMPY = frozenset(
    (
        *("_map_coordinates", "_resize", "_scale_and_translate", "conv_general_dilated"),
        *("custom_jvp_call", "custom_vjp_call", "reduce_window", "top_k"),
    )
)
"""Operations of which NumPy has no function."""


def made_again(members: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """What missed for nothing but a function, which a library made again at each call.

    As `odeint` does with that of the user, and flax to ask for shapes. A jitted call makes it
    once, for one program.
    """
    again = [
        one
        for one in members
        if one.program_change in ("identical", "constants-only") and _is_only_of_function(one)
    ]
    return tuple(again) if len(again) >= _MIN_AGAIN else ()


def _is_only_of_function(verdict: Verdict) -> bool:
    if verdict.cause is not Cause.EAGER_OP:
        return verdict.cause in OF_FUNCTION
    return bool(verdict.changes) and all(
        is_function(change) and not is_another_function(change) for change in verdict.changes
    )


def is_only_of_jax(verdict: Verdict) -> bool:
    """Whether NumPy cannot take the place of an operation: a loop, or one that it lacks."""
    miss = verdict.miss
    return bool(miss.bodies) or miss.function.jax_name in _NOT_OF_NUMPY


def repeated(members: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Operations that had been compiled before for other arrays."""
    seen: set[tuple[str, str]] = set()
    found: list[Verdict] = []
    for verdict in members:
        operation = (verdict.miss.run, verdict.miss.function.jax_name)
        if operation in seen:
            found.append(verdict)
        seen.add(operation)
    return tuple(found)

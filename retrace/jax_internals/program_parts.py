"""Compile parts of a program separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import jax

from retrace.jax_internals.jaxprs import is_jaxpr
from retrace.jax_internals.names_values import LITERAL


class Part(NamedTuple):
    """Consecutive equations of a program."""

    jaxpr: Any
    """The jaxpr that contains them, open or closed."""
    first: int
    end: int
    device: Any = None
    """What it is compiled for, if its arguments say that it is not for JAX's default."""


def traced(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Part:
    """The whole program of a function for these arguments."""
    jitted: Any = function if hasattr(function, "trace") else jax.jit(function)
    jaxpr = jitted.trace(*args, **kwargs).jaxpr
    return Part(jaxpr, 0, len(_equations(jaxpr)), _device([*args, kwargs]))


def _device(args: Sequence[Any]) -> Any:
    """A device of the arguments that is not JAX's, such as one that is only described."""
    for leaf in jax.tree.leaves(args):
        devices = getattr(getattr(leaf, "sharding", None), "device_set", ())
        for device in sorted(devices, key=lambda one: one.id):
            return device if device not in jax.devices() else None
    return None


def inside(part: Part) -> Part | None:
    """The program that a part calls, if its only equation is a call of a jitted function."""
    if part.end - part.first != 1:
        return None
    equation = _equations(part.jaxpr)[part.first]
    called = equation.params.get("jaxpr")
    if equation.primitive.name not in ("jit", "pjit") or not is_jaxpr(called):
        return None
    return Part(called, 0, len(_equations(called)), part.device)


def size(part: Part) -> int:
    """Number of equations, sub-jaxprs not counted."""
    return part.end - part.first


def primitives(part: Part) -> list[str]:
    """The primitive names of its equations, in order."""
    return [each.primitive.name for each in _equations(part.jaxpr)[part.first : part.end]]


def compiled(part: Part) -> tuple[float, Callable[[], str]]:
    """Compile a part by itself; returns the seconds it took, and a function for its StableHLO.

    Values from outside the part become arguments, captured arrays included: the compiled
    program does not contain their data.
    """
    function, given = _alone(part)
    lowered = jax.jit(function).lower(*given)
    begun = perf_counter()
    lowered.compile()
    return perf_counter() - begun, lowered.as_text


def _alone(part: Part) -> tuple[Callable[..., Any], list[Any]]:
    equations = _equations(part.jaxpr)
    rows = equations[part.first : part.end]
    made = {id(var) for row in rows for var in row.outvars}
    needed = {
        id(var): var
        for row in rows
        for var in row.invars
        if _is_variable(var) and id(var) not in made
    }
    later = {
        id(var) for row in equations[part.end :] for var in row.invars if _is_variable(var)
    } | {id(var) for var in _open(part.jaxpr).outvars}
    kept = [var for row in rows for var in row.outvars if id(var) in later]
    results = kept or list(rows[-1].outvars)

    def part_of_the_program(*values: Any) -> list[Any]:
        held = dict(zip(needed, values, strict=True))

        def read(var: Any) -> Any:
            return held[id(var)] if _is_variable(var) else var.val

        for row in rows:
            # Before jax 0.12, functions among the parameters are passed first.
            bound = row.primitive.get_bind_params(row.params)
            functions, params = bound if isinstance(bound, tuple) else ((), bound)
            with row.ctx.manager:
                found = row.primitive.bind(*functions, *map(read, row.invars), **params)
            outs = found if row.primitive.multiple_results else [found]
            held.update({id(var): out for var, out in zip(row.outvars, outs, strict=True)})
        return [held[id(var)] for var in results]

    return part_of_the_program, [_like(var.aval, part.device) for var in needed.values()]


def _like(aval: Any, device: Any) -> Any:
    weak = bool(getattr(aval, "weak_type", False))
    at = None if device is None else jax.sharding.SingleDeviceSharding(device)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak, sharding=at)


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)


def _equations(jaxpr: Any) -> list[Any]:
    return _open(jaxpr).eqns


def _is_variable(var: Any) -> bool:
    return not isinstance(var, LITERAL.get())

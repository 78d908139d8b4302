"""Predict, in microseconds, whether XLA will certainly compile a program quickly."""

from __future__ import annotations

from math import prod
from typing import Any

from retrace.jax_internals.names_values import INNER, OF_EQUATION, OF_JAXPR

_MAX_EQUATIONS = 24
"""Maximum number of equations, including sub-jaxprs."""
_MIN_FOLDED_ELEMENTS = 1 << 16
"""Number of elements from which constant folding in XLA may take long."""
_PLAIN = frozenset(
    (
        *("abs", "add", "and", "broadcast_in_dim", "concatenate", "convert_element_type"),
        *("copy", "cos", "div", "dot_general", "dynamic_slice", "eq", "exp", "expand_dims"),
        *("floor", "ge", "gt", "integer_pow", "iota", "is_finite", "jit", "le", "log"),
        *("log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pad"),
        *("pjit", "pow", "reduce_max", "reduce_min", "reduce_sum", "rem", "reshape", "rsqrt"),
        *("select_n", "sign", "sin", "slice", "sqrt", "square", "squeeze", "stop_gradient"),
        *("sub", "tanh", "transpose"),
    )
)
"""Operations that compile to a few instructions each, for any arguments."""


def is_quick(jaxpr: Any) -> bool:
    """Whether a program consists of a few simple operations on small arrays."""
    waiting, left = [getattr(jaxpr, "jaxpr", jaxpr)], _MAX_EQUATIONS
    while waiting:
        inner = waiting.pop()
        made = list(OF_JAXPR["constvars"].of(inner, ()))
        for equation in OF_JAXPR["eqns"].of(inner, ()):
            left -= 1
            if left < 0 or OF_EQUATION["primitive"].of(equation).name not in _PLAIN:
                return False
            made += OF_EQUATION["outvars"].of(equation, ())
        if any(map(_is_large, made)):
            return False
        waiting += INNER.get()(inner)
    return True


def _is_large(variable: Any) -> bool:
    sizes = getattr(variable.aval, "shape", ())
    return not all(type(size) is int for size in sizes) or prod(sizes) >= _MIN_FOLDED_ELEMENTS

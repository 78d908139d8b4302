"""The closed list of causes. The codes are stable: other programs rely on them."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why JAX could not serve a call from its caches.

    The order is the precedence: if several parts differ from the nearest key, the
    cause is the one that comes first here.
    """

    FIRST_TRACE = "first-trace"
    FUNCTION_REDEFINED = "function-redefined"
    LAMBDA_RECREATED = "lambda-recreated"
    PARTIAL_RECREATED = "partial-recreated"
    TRANSFORM_RECREATED = "transform-recreated"
    METHOD_REBOUND = "method-rebound"
    SOURCE_CHANGED = "source-changed"
    JIT_OPTIONS_CHANGED = "jit-options-changed"
    CONFIG_CHANGED = "config-changed"
    STATIC_ARGUMENT_CHANGED = "static-argument-changed"
    CALL_SIGNATURE_CHANGED = "call-signature-changed"
    TREE_STRUCTURE_CHANGED = "tree-structure-changed"
    SHAPE_CHANGED = "shape-changed"
    DTYPE_CHANGED = "dtype-changed"
    WEAK_TYPE_CHANGED = "weak-type-changed"
    SHARDING_CHANGED = "sharding-changed"
    CACHE_CLEARED = "cache-cleared"
    CACHE_EVICTED = "cache-evicted"
    JAXPR_CHANGED = "jaxpr-changed"
    EAGER_OP = "eager-op"
    CONTROL_FLOW_RECREATED = "control-flow-recreated"
    UNKNOWN = "unknown"


OF_FUNCTION = frozenset(
    {
        Cause.FUNCTION_REDEFINED,
        Cause.LAMBDA_RECREATED,
        Cause.PARTIAL_RECREATED,
        Cause.TRANSFORM_RECREATED,
        Cause.METHOD_REBOUND,
        Cause.SOURCE_CHANGED,
    }
)
"""Causes that lie in the function object, not in its arguments."""

"""The wording of each cause, one file for each family of causes, as in `reason/cards`."""

from __future__ import annotations

from functools import cache

from retrace.causes import Cause
from retrace.present.cards import arrays, calls, eager, entries, functions
from retrace.present.cards.card import Words


@cache
def words(cause: Cause) -> Words:  # noqa: C901, PLR0912 - the type checker misses no cause
    """The wording of a cause."""
    match cause:
        case Cause.FIRST_TRACE:
            return entries.FIRST_TRACE
        case Cause.FUNCTION_REDEFINED:
            return functions.FUNCTION_REDEFINED
        case Cause.LAMBDA_RECREATED:
            return functions.LAMBDA_RECREATED
        case Cause.PARTIAL_RECREATED:
            return functions.PARTIAL_RECREATED
        case Cause.TRANSFORM_RECREATED:
            return functions.TRANSFORM_RECREATED
        case Cause.METHOD_REBOUND:
            return functions.METHOD_REBOUND
        case Cause.SOURCE_CHANGED:
            return functions.SOURCE_CHANGED
        case Cause.JIT_OPTIONS_CHANGED:
            return calls.JIT_OPTIONS_CHANGED
        case Cause.CONFIG_CHANGED:
            return calls.CONFIG_CHANGED
        case Cause.STATIC_ARGUMENT_CHANGED:
            return calls.STATIC_ARGUMENT_CHANGED
        case Cause.CALL_SIGNATURE_CHANGED:
            return calls.CALL_SIGNATURE_CHANGED
        case Cause.TREE_STRUCTURE_CHANGED:
            return calls.TREE_STRUCTURE_CHANGED
        case Cause.SHAPE_CHANGED:
            return arrays.SHAPE_CHANGED
        case Cause.DTYPE_CHANGED:
            return arrays.DTYPE_CHANGED
        case Cause.WEAK_TYPE_CHANGED:
            return arrays.WEAK_TYPE_CHANGED
        case Cause.SHARDING_CHANGED:
            return arrays.SHARDING_CHANGED
        case Cause.CACHE_CLEARED:
            return entries.CACHE_CLEARED
        case Cause.CACHE_EVICTED:
            return entries.CACHE_EVICTED
        case Cause.JAXPR_CHANGED:
            return entries.JAXPR_CHANGED
        case Cause.EAGER_OP:
            return eager.EAGER_OP
        case Cause.CONTROL_FLOW_RECREATED:
            return eager.CONTROL_FLOW_RECREATED
        case Cause.UNKNOWN:
            return entries.UNKNOWN

"""What to do about a miss, with the user's own names.

Only advice that was seen to remove the miss is given. A partial made afresh, or
`jax.jit(self.method)` in a loop, misses again on every release: nobody is sent there. What
rests on what the program means is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from retrace.causes import Cause
from retrace.model import Miss
from retrace.model.advice import Advice, KeepCaches, Library, Proof
from retrace.reason import arrays, functions
from retrace.reason.avoidable import is_new_as_well, of_library, wrapped_by
from retrace.reason.eager import eager
from retrace.reason.evidence import Evidence, package_of
from retrace.reason.statics import static_argument, tree_structure
from retrace.reason.weak import weak_type


def fix(cause: Cause, evidence: Evidence) -> Advice | None:
    """The advice for a miss; None where there is nothing to do or nothing known to work."""
    miss = evidence.miss
    is_new = is_new_as_well(cause, miss, evidence.changes)
    if of_library(cause, miss) or (is_new and miss.function.in_library):
        return _of_library(miss)
    if (package := wrapped_by(cause, miss, evidence.nearest, evidence.changes)) is not None:
        return Library(name=miss.function.name, package=package, proof=Proof.MEANING)
    advise = _ADVICE.get(cause)
    advised = None if advise is None else advise(evidence)
    if advised is None or not is_new:
        return advised
    return replace(advised, remade=miss.function.name)


def _of_library(miss: Miss) -> Advice:
    package = package_of(miss.function.file)
    return Library(name=miss.function.name, package=package, proof=Proof.MEANING)


def _cleared(_: Evidence) -> Advice:
    return KeepCaches()


_ADVICE: dict[Cause, Callable[[Evidence], Advice | None]] = {
    Cause.FUNCTION_REDEFINED: functions.made_again,
    Cause.LAMBDA_RECREATED: functions.made_again,
    Cause.PARTIAL_RECREATED: functions.made_again,
    Cause.TRANSFORM_RECREATED: functions.made_again,
    Cause.METHOD_REBOUND: functions.rebound,
    Cause.JIT_OPTIONS_CHANGED: functions.options,
    Cause.CONFIG_CHANGED: functions.config,
    Cause.STATIC_ARGUMENT_CHANGED: static_argument,
    Cause.CALL_SIGNATURE_CHANGED: arrays.signature,
    Cause.TREE_STRUCTURE_CHANGED: tree_structure,
    Cause.SHAPE_CHANGED: arrays.shape,
    Cause.DTYPE_CHANGED: arrays.dtype,
    Cause.WEAK_TYPE_CHANGED: weak_type,
    Cause.SHARDING_CHANGED: arrays.sharding,
    Cause.CACHE_CLEARED: _cleared,
    Cause.JAXPR_CHANGED: functions.hidden,
    Cause.EAGER_OP: eager,
    Cause.CONTROL_FLOW_RECREATED: functions.body,
}

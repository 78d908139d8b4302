"""The words of a report, each in a sentence or two."""

from __future__ import annotations

from retrace.causes import Cause

CAUSES = {
    Cause.FIRST_TRACE: "The function is traced and compiled for the first time in this process.",
    Cause.FUNCTION_REDEFINED: (
        "A `def` ran again and made a new function object, which JAX does not know."
    ),
    Cause.LAMBDA_RECREATED: "A `lambda` was evaluated again, with the same effect.",
    Cause.PARTIAL_RECREATED: (
        "A `functools.partial` was made again; it is never found, whatever it binds."
    ),
    Cause.TRANSFORM_RECREATED: "`jax.grad`, `jax.vmap` or another transform was applied again.",
    Cause.METHOD_REBOUND: "A bound method or a callable instance is another object than before.",
    Cause.SOURCE_CHANGED: "The code was edited, and run or loaded again.",
    Cause.JIT_OPTIONS_CHANGED: "The same function was jitted with other options.",
    Cause.CONFIG_CHANGED: "A setting of JAX that takes part in the key has another value.",
    Cause.STATIC_ARGUMENT_CHANGED: (
        "A static argument has another value, or an equal-looking one that compares unequal."
    ),
    Cause.CALL_SIGNATURE_CHANGED: (
        "The call passes the same by keyword, by position, or not at all."
    ),
    Cause.TREE_STRUCTURE_CHANGED: (
        "The containers around the arrays differ, or their static parts do."
    ),
    Cause.SHAPE_CHANGED: "An array has another shape.",
    Cause.DTYPE_CHANGED: "An array has another dtype.",
    Cause.WEAK_TYPE_CHANGED: (
        "A Python number came where an array had come, or the other way round."
    ),
    Cause.SHARDING_CHANGED: (
        "An array lies on another device, or is sharded or committed otherwise."
    ),
    Cause.CACHE_CLEARED: "`jax.clear_caches()` or `f.clear_cache()` dropped the program.",
    Cause.CACHE_EVICTED: "JAX dropped the program because one of its caches was full.",
    Cause.JAXPR_CHANGED: "The same call gave another program: the function reads hidden state.",
    Cause.EAGER_OP: "An operation ran outside all jitted functions and was compiled by itself.",
    Cause.CONTROL_FLOW_RECREATED: "An eager loop or branch was given a body that was made again.",
    Cause.UNKNOWN: "None of these: a bug in retrace, or this JAX does not show what would tell.",
}
"""As in `docs/causes`."""

TERMS = {
    "miss": (
        "A call that JAX could not serve from its caches: it was traced, lowered or compiled."
    ),
    "trace": (
        "JAX runs the Python function with stand-ins for its arrays and notes each operation."
    ),
    "jaxpr": "What a trace gives: the program as JAX writes it, an equation for each operation.",
    "lower": "JAX turns the jaxpr into the language of the compiler, StableHLO.",
    "compile": (
        "XLA makes machine code of it. It counts also where it came from JAX's cache on disk."
    ),
    "cache key": (
        "All by which JAX finds a program again: the function object, the types and places of "
        "the arrays, the tree around them, static arguments, options and configuration."
    ),
    "nearest": (
        "The earlier miss of the same function whose key differs in the fewest places. The "
        "changes turn its key into the new one."
    ),
    "avoidable": (
        "The program is the same as before, or the advice was seen to remove such a miss on "
        "this JAX. Perhaps avoidable: retrace cannot know whether the difference is meant."
    ),
    "weak type": "That of a Python number, which takes the dtype of whatever it meets.",
    "pytree": (
        "The containers around the arrays of an argument: dicts, lists, dataclasses, modules."
    ),
    "static argument": "One that JAX puts into the key by its value, rather than tracing it.",
    "committed": (
        "Said of an array that was put on a device on purpose: JAX computes where it lies."
    ),
    "sharding": "How an array is spread over devices.",
    "backward program": (
        "What JAX compiles for the gradient of a jitted function, a miss of its own."
    ),
    "eager operation": "One outside of all jitted functions: JAX compiles each by itself.",
}
"""What else is used without being explained."""

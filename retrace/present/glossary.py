"""The words of a report, each in a sentence or two."""

from __future__ import annotations

from retrace.causes import Cause

HOME = "https://github.com/retrace-jax/retrace"
PAGES = f"{HOME}/tree/main/docs/causes"


def page(cause: Cause) -> str:
    """The address of the page on a cause."""
    return f"{HOME}/blob/main/docs/causes/{cause.value}.md"


CAUSES = {
    Cause.FIRST_TRACE: "The function is traced and compiled for the first time in this process.",
    Cause.FUNCTION_REDEFINED: (
        "A `def` ran again and created a new function object, which JAX has not seen."
    ),
    Cause.LAMBDA_RECREATED: "A `lambda` was evaluated again and created a new function object.",
    Cause.PARTIAL_RECREATED: (
        "A new `functools.partial` was created. JAX never finds one again, whatever it binds."
    ),
    Cause.TRANSFORM_RECREATED: "`jax.grad`, `jax.vmap` or another transform was applied again.",
    Cause.METHOD_REBOUND: (
        "A bound method or a callable instance is not the same object as before."
    ),
    Cause.SOURCE_CHANGED: "The code was edited, and run or loaded again.",
    Cause.JIT_OPTIONS_CHANGED: "The same function was jitted with other options.",
    Cause.CONFIG_CHANGED: "A JAX setting that is part of the key has another value.",
    Cause.STATIC_ARGUMENT_CHANGED: (
        "A static argument has another value, or one with the same contents that is not equal."
    ),
    Cause.CALL_SIGNATURE_CHANGED: (
        "The call passes an argument by keyword instead of by position, or leaves it out."
    ),
    Cause.TREE_STRUCTURE_CHANGED: (
        "The pytree structure of the arguments differs, or static data in it does."
    ),
    Cause.SHAPE_CHANGED: "An array has another shape.",
    Cause.DTYPE_CHANGED: "An array has another dtype.",
    Cause.WEAK_TYPE_CHANGED: (
        "A Python number was passed where an array was passed before, or the other way round."
    ),
    Cause.SHARDING_CHANGED: (
        "An array is on another device, or its sharding or committedness differs."
    ),
    Cause.CACHE_CLEARED: "`jax.clear_caches()` or `f.clear_cache()` dropped the program.",
    Cause.CACHE_EVICTED: "JAX dropped the program because one of its caches was full.",
    Cause.JAXPR_CHANGED: (
        "The same call gave a different program: the function reads hidden state."
    ),
    Cause.EAGER_OP: "An operation ran outside all jitted functions and was compiled separately.",
    Cause.CONTROL_FLOW_RECREATED: "The body of an eager loop or branch is a new function object.",
    Cause.UNKNOWN: "None of these: a bug in retrace, or this JAX does not show the reason.",
}
"""As in `docs/causes`."""

TERMS = {
    "miss": (
        "A call that JAX could not serve from its caches: it was traced, lowered or compiled."
    ),
    "trace": ("JAX runs the Python function with abstract arrays and records each operation."),
    "jaxpr": (
        "The result of a trace: the program in JAX's own language, one "
        "equation for each operation."
    ),
    "lower": "JAX translates the jaxpr into StableHLO, the language of the compiler.",
    "compile": ("XLA turns it into machine code, or JAX loads that from its cache on disk."),
    "cache key": (
        "Everything JAX uses to look up a compiled program: the function object, the types and "
        "placement of the arrays, the pytree around them, static arguments, options and "
        "configuration."
    ),
    "nearest": (
        "The earlier miss of the same function whose key differs in the fewest places. The "
        "changes turn its key into the new one."
    ),
    "avoidable": (
        "The program is the same as before, or the advice was seen to remove such a miss on "
        "this JAX. Perhaps avoidable: retrace cannot know whether the difference is meant."
    ),
    "weak type": (
        "The type of a Python number, which takes the dtype of the array it is combined with."
    ),
    "pytree": (
        "The containers around the arrays of an argument: dicts, lists, dataclasses, modules."
    ),
    "static argument": "An argument that is part of the key by value instead of being traced.",
    "committed": ("An array that was placed on a device explicitly: JAX computes where it is."),
    "sharding": "How an array is spread over devices.",
    "backward program": (
        "What JAX compiles for the gradient of a jitted function; it is a separate miss."
    ),
    "eager operation": (
        "An operation outside all jitted functions: JAX compiles each one separately."
    ),
}
"""What else is used without being explained."""

"""The terms of a report, each explained in a sentence or two."""

from __future__ import annotations

from retrace.causes import Cause
from retrace.present.cards import words

HOME = "https://github.com/retrace-jax/retrace"
PAGES = f"{HOME}/tree/main/docs/causes"


def page(cause: Cause) -> str:
    """The address of a cause's page."""
    return f"{HOME}/blob/main/docs/causes/{cause.value}.md"


CAUSES = {cause: words(cause).meaning for cause in Cause}
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
"""Other terms that are used without explanation."""

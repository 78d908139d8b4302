"""What to do where only the weak type of an argument changed."""

from __future__ import annotations

from retrace.compare.outputs import Output, outputs
from retrace.model import Component, Fix, Leaf
from retrace.reason.evidence import Evidence, listed
from retrace.reason.program import Comparison

_NUMPY = frozenset(
    (
        *("bool", "complex64", "complex128", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)


def weak_type(evidence: Evidence) -> Fix | None:
    """What to do where an argument is weakly typed in one call, and not in another.

    The advice names the dtype of the strong side, which is one of the two that the program
    has seen: any other would be a further key, and might change results.
    """
    own = [change for change in evidence.changes if change.component is Component.WEAK_TYPE]
    leaves = {leaf.path: leaf for leaf in evidence.miss.key.leaves}
    found = [leaves[change.path] for change in own if change.path in leaves]
    if not found:
        return None
    name = listed([leaf.path for leaf in found])
    if not own[0].old and (made := _made_weak(evidence, found)) is not None:
        at = "" if made.place is None else f" where line {made.place.line} makes it"
        text = (
            f"`{evidence.miss.function.name}` returns {name} weakly typed and gets it back: give "
            f"it a dtype{at}, by `.astype(jnp.{found[0].dtype})`."
        )
        return Fix("cast-result", text)
    typed = " or ".join(dict.fromkeys(map(_typed, found)))
    if not keeps_types(evidence.program):
        text = (
            f"a Python number as {name} takes the dtype of what it meets, an array does not, and "
            f"the results differ in dtype: if all calls should compute as with the array, pass "
            f"{typed} at every call; else cast inside `{evidence.miss.function.name}`."
        )
        return Fix("cast-argument", text)
    if own[0].old:
        return Fix("cast-carry", f"start {name} as {typed}, the type that later calls pass.")
    return Fix("cast-argument", f"pass {name} as {typed} at every call, not as a Python number.")


def keeps_types(program: Comparison | None) -> bool:
    """Whether both programs give results of the same dtypes, as far as they are known."""
    listings = None if program is None else program.listings()
    if listings is None:
        return True
    old, new = ([result.type.lstrip("~") for result in outputs(one)] for one in listings)
    return old == new


def _typed(leaf: Leaf) -> str:
    """A value of the dtype that compiles nothing by itself, as `jnp.asarray` would."""
    if leaf.shape:
        return f"`value.astype(jnp.{leaf.dtype})`"
    if leaf.dtype in _NUMPY:
        return f"`np.{leaf.dtype}(value)`"
    return f"`np.asarray(value, jnp.{leaf.dtype})`"


def _made_weak(evidence: Evidence, found: list[Leaf]) -> Output | None:
    """The result of the earlier program that came back weakly typed, if it did."""
    listings = None if evidence.program is None else evidence.program.listings()
    if listings is None:
        return None
    inputs = {text for text in listings[1].inputs if text.startswith("~")}
    made = [result for result in outputs(listings[0]) if result.is_weak]
    # A scalar result of the same type may also be none of it: then the line still says where.
    return next((result for result in made if result.type in inputs and found), None)

"""Words advice to pass a static value as an argument, an array or a leaf of a tree."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.compare.untraced import STATIC
from retrace.model import advice as model
from retrace.model.advice import Proof
from retrace.present.words import as_objects, listed, names, quoted

AS_ARRAY = "with its dtype, as `np.float32(value)`"
FOLDED = "; last bits may differ, since a compiler folds constants"
_TRAINED = " (not in a tree that is differentiated and updated: it would be trained, too)"


def made_array(dtype: str) -> str:
    """How to make an array of a number: unlike the number, it decides the dtype of results."""
    if dtype:
        return f" (`np.asarray(..., jnp.{dtype})`)"
    return " (`np.asarray(...)`, with the dtype of what it is computed with)"


def leaf(advice: model.ToArray, who: str, it: str) -> str:
    many = len(advice.paths) > 1
    kind = "leaves" if many else "a leaf"
    if advice.by_type:
        kind = f"{'array leaves' if many else 'an array leaf'}{made_array(advice.dtype)}"
    tree = "its tree" if not advice.carried else "its tree and of the results that carry it"
    get = "get" if len(advice.leaf_of) > 1 else "gets"
    too = f" ({names(advice.leaf_of)} {get} it, too)" if advice.leaf_of else ""
    return (
        f"make {who} {kind} of {tree}{too}, if no shape, loop, `if`, `float` or NumPy depends on "
        f"{it}{_TRAINED}; otherwise keep "
        f"{it} the same between calls{_kept(advice).replace(', and', '; in either case', 1)}"
    )


def not_static(advice: model.ToArray, who: str, it: str, many: bool) -> str:
    kind = "arguments that are not static" if many else "an argument that is not static"
    if advice.by_type:
        kind = f"{'arrays' if many else 'an array'}{made_array(advice.dtype)}"
    where = f", outside of {names(advice.outside)}" if advice.outside else ""
    where += f", with `None` for {it} in `in_axes`" if advice.mapped else ""
    return (
        f"pass {who} as {kind}{where}, if no shape, loop, `if`, `float` or NumPy depends on "
        f"{it}{_kept(advice)}; otherwise keep {it} to a few values"
    )


def _kept(advice: model.ToArray) -> str:
    kept = as_objects(advice.kept)
    same = " if it holds the same" if advice.proof is Proof.MEANING else ""
    return f", and keep one {names(kept)}{same}: a new one is another key" if kept else ""


_INSTEAD = {
    "arange": "`jnp.arange(...) + start`",
    "integer_pow": "`jnp.power`",
    "scatter": "`jax.lax.dynamic_update_slice`",
    "slice": "`jax.lax.dynamic_slice`",
}
"""How to write with an array what takes a Python number as it was written."""


def _if_untraced(fixed: Sequence[str]) -> str:
    """On what it depends whether an array can be passed."""
    other = [_INSTEAD[name] for name in fixed if name in _INSTEAD]
    static = [name.removeprefix(STATIC) for name in fixed if name.startswith(STATIC)]
    text = ""
    if other:
        text += f", if it may be written with {listed(other, len(other))}"
    if static:
        takes = "takes" if len(static) == 1 else "take"
        text += (
            f", but {names(static)} of JAX {takes} a number that is static: write that otherwise"
        )
    if any(name.startswith("custom_") for name in fixed):
        text += ", and the rule of a custom gradient, if that can take an array"
    return text


def stays(it: str) -> str:
    """What Python does with a value does not work, or does something else, with a traced one."""
    return f" (`if`, `range`, `float`, `isinstance` and NumPy on {it} stay outside)"


def argument(advice: model.ToArgument, who: str, it: str, many: bool) -> str:
    kind = "arguments that are" if many else "an argument that is"
    depends = f"constants depend on {it}" if many else f"a constant depends on {it}"
    outside = (*advice.outside, *(() if advice.function is None else (advice.function,)))
    where = f", outside of {names(outside)}" if outside else ""
    text = f"pass {who} as {kind} not static{where}: only {depends}"
    if advice.seen_with:
        only = "constants do" if many else "a constant does"
        text = (
            f"pass {who} as {kind} not static{where}, if no shape and no loop depends on {it} "
            f"with another {names(advice.seen_with)}: with this only {only}"
        )
    if advice.by_type:
        kind = "arrays" if many else "an array"
        trained = _TRAINED if _is_in_tree(advice) else ""
        text = f"pass {who} as {kind}{made_array(advice.dtype)}{where}: only {depends}{trained}"
    if advice.texts:
        # Which of them the constants are computed from is not known.
        rest = f", and leave {it} out of {names(outside)}" if outside else f" in place of {it}"
        text = f"only constants depend on {who}: pass what Python makes of {it} outside{rest}"
    if advice.fixed:
        text += f"{_if_untraced(advice.fixed)}{stays(it)}"
    elif advice.computed and not advice.texts:
        # `math.sqrt`, `int`, `if` and a list's index reject traced values.
        text += (
            f" (compute what Python makes of {it}, with `if`, `int`, `math`, NumPy, a list or in "
            "more than 32 bits, outside, and pass that)"
        )
    elif not advice.texts:
        text += stays(it)
    if advice.mapped:
        text += f", with `None` for {it} in `in_axes`"
    if advice.folded:
        text += FOLDED
    if advice.one_type:
        text += f"; pass {it} as one type where results keep their dtype"
    if advice.function is not None:
        text += f"; and create {quoted(advice.function)} once"
    if advice.needed:
        by = (*advice.read_by, *advice.may_read)
        depend = ("depends" if len(by) == 1 else "depend") if advice.read_by else "may depend"
        needed = names(advice.needed)
        text += (
            f"; {names(by)} {depend} on {needed}, which the class has to go on comparing"
            if advice.also
            else f"; pass {it} in place of the whole {names(advice.outside)}, whose class has to "
            f"compare {needed}: {names(by)} {depend} on {'them' if advice.needed[1:] else 'it'}"
        )
    if advice.unread:
        them = "them" if len(advice.unread) > 1 else "it"
        seen = advice.proof is not Proof.MEANING
        none = "which no constant depends on" if seen else f"if no constant depends on {them}"
        text += f"; leave out {names(advice.unread)}, {none}"
    if advice.type is not None:
        text += (
            f"; and keep one {quoted(advice.type)}, or give it an `__eq__` and a `__hash__` "
            f"without {it}: a new one is another key"
        )
    return text


def _is_in_tree(advice: model.ToArgument) -> bool:
    return any("." in path or "[" in path for path in advice.paths)

"""Advice on arrays and how they are passed, in words."""

from __future__ import annotations

import re

from retrace.model import advice as model
from retrace.model.advice import Advice, Proof
from retrace.present.as_argument import FOLDED
from retrace.present.words import listed, names, quoted

_NUMPY = frozenset(
    (
        *("bool", "complex64", "complex128", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
_PLACED = "`jax.device_put` with that device or sharding: without one it stays uncommitted"


def of_arrays(advice: Advice) -> str | None:  # noqa: C901, PLR0912 - a case each
    """What to do about shapes, dtypes, placement and ways of passing."""
    who = names(advice.paths)
    it, many = ("it", False) if len(advice.paths) == 1 else ("them", True)
    asks = advice.proof is Proof.MEANING
    match advice:
        case model.OneCallStyle(variadic=True):
            return f"pass {who} the same arguments at every call, if they mean the same"
        case model.OneCallStyle(optional=True):
            return f"wherever a call passes {who}, pass {it} the same way"
        case model.OneCallStyle(branches=True):
            return (
                f"pass {who} the same way at every call, if it means the same: with the default "
                "of what is omitted other operations run; otherwise leave it"
            )
        case model.OneCallStyle(computed=True):
            return (
                f"pass {who} the same way at every call, if results may differ in their last "
                "bits: Python computes with the default of what is omitted, in 64 bits, and JAX "
                "with what is passed"
            )
        case model.OneCallStyle(typed=typed):
            as_ = f", as {_typed(typed, False)}" if typed else ""
            return f"pass {who} the same way at every call{as_}{FOLDED if advice.folded else ''}"
        case model.OneStructure():
            return _structure(advice, who)
        case model.OneKeyType():
            return f"create {who} the same way at every call, preferably with `jax.random.key`"
        case model.OneScope():
            return (
                f"create the symbolic dimensions of {who} once and reuse them: JAX treats "
                "sizes from another scope as different"
            )
        case model.LeaveOutArray(name=name):
            return f"{quoted(name)} never uses {who}: do not pass {it}"
        case model.AnotherModel() | model.PadShape(kernels=True) if asks:
            parameters = "are parameters" if many else "is a parameter"
            return (
                f"if {who} {parameters}, this is a different model, which needs its own "
                f"program: leave it; if {'they are' if many else 'it is'} data, pad to one "
                "or a few shapes"
            )
        case model.AnotherModel():
            return (
                f"{who} {'have other sizes' if many else 'has another size'}: this is a "
                "different model, which needs its own program"
            )
        case model.SkipEmpty():
            return (
                f"{who} had no rows in one of the calls: if there is nothing to compute then, "
                "skip the call"
            )
        case model.PadBatch(passed_by=by) if by:
            package, _, name = by.partition(":")
            return (
                f"if {f'`{name}` of ' if name else ''}{package} cuts the batches, choose sizes "
                "that divide, or leave it; if you cut them, drop or pad the last, smaller one"
            )
        case model.PadBatch():
            return (
                "if this is the last, smaller batch of a dataset, drop or pad it "
                "(`drop_remainder=True`, or a mask); otherwise round axis 0 up to a few sizes"
            )
        case model.PadShape(square=square) if square:
            belong = "belongs" if len(square) == 1 else "belong"
            return (
                f"if {names(square)} {belong} to a problem of another dimension, like a "
                "covariance, this needs its own program: leave it; for data, pad to one or a few "
                "shapes"
            )
        case model.PadShape(ordered=ordered) if ordered:
            through = [quoted(one) if one else "the size itself" for one in ordered]
            return (
                f"{who} {'go' if many else 'goes'} through {listed(through, 2)}: if rows may "
                f"still be added at the end, pad {it} with NumPy to one or a few shapes and mask "
                "the padding; otherwise each size needs its own program"
            )
        case model.PadShape(sizes=sizes) if sizes:
            phrase = ", ".join(map(str, sizes))
            return (
                f"the sizes of {who} ({phrase}) look intended: if they are, leave them; "
                "otherwise pad to one shape with NumPy and mask the padding"
            )
        case model.PadShape(written=True):
            return (
                f"the program has other operations for each size of {who}: if Python decides "
                "that by the size (`if`, `for`), padding changes results: leave it; otherwise "
                f"pad {it} with NumPy to one or a few shapes and mask the padding"
            )
        case model.PadShape(keys=keys) if keys:
            rest = [path for path in advice.paths if path not in keys]
            made = f"make {names(keys)} (PRNG keys, which NumPy cannot pad) in one or a few sizes"
            return f"{made}, pad {names(rest)} to these and mask the padding" if rest else made
        case model.PadShape():
            return (
                f"pad {who} with NumPy (`jnp.pad` compiles for each shape) to one or a few "
                "shapes, and mask the padding"
            )
        case model.OneRank(start=str(code)) if code:
            return f"start {who} with the shape that later calls pass: `{code}`"
        case model.OneRank():
            return f"pass {who} with the same number of axes at every call, if they mean the same"
        case model.OneDtype():
            return _one_dtype(advice, who, it)
        case model.CastResult():
            cast = f"with `.astype(jnp.{advice.dtype})`"
            at = "" if advice.line is None else f" where line {advice.line} creates {it}"
            how = f"give {it} a dtype{at}, {cast}"
            of = ""
            if advice.package:
                of = f" of {advice.package}"
                how = f"convert {it} in between, {cast}, or report it there"
            text = (
                f"{quoted(advice.name)}{of} returns {who} weakly typed and gets {it} back: {how}"
            )
            return f"{text}, if you want results of that dtype" if asks else text
        case model.CastNumber(later=later) if later:
            return _both_ways(advice, later)
        case model.CastNumber():
            return _number(advice, who)
        case model.LowerWithSharding():
            return (
                f"lower it ahead of time with {who} placed as in the call: "
                "`jax.ShapeDtypeStruct(shape, dtype, sharding=...)`"
            )
        case model.OneMesh(specs=specs):
            how = " with one `PartitionSpec`" if specs else ""
            other = "another mesh or spec" if specs else "a different mesh"
            return (
                f"create one mesh and place {who} on it{how} at every call: {other} misses"
                f"{_SPLIT if advice.split else ''}"
            )
        case model.OneSharding():
            return (
                f"keep {who} on one device, or shard {it} over all with one `NamedSharding`: JAX "
                "compiles a program for each device; if that is intended, leave it"
            )
        case model.PlaceFirst():
            return _placed(advice, who, it, "they" if many else "it")
        case _:
            return None


_SPLIT = "; sums over what is split run in another order, so last bits may differ"


def _placed(advice: model.PlaceFirst, who: str, it: str, they: str) -> str:
    when, where = "before the first call, ", f"{they} will be later"
    if advice.later or advice.always:
        when, where = "", f"other calls have {it}"
    at = "" if when else f" at {'this' if advice.later else 'every'} call"
    text = f"{when}place {who}{at} where {where} ({_PLACED})"
    return text + _SPLIT if advice.split else text


MEANT = "; where both are meant, leave it: each has its own program"


def _structure(advice: model.OneStructure, who: str) -> str:
    match advice.way:
        case "omitted" | "none":
            means = "where it is omitted" if advice.way == "omitted" else "in place of None"
            what = "array" if not advice.number else "Python number"
            such = "0.0 (other calls pass one)" if advice.number else "zeros or a mask of ones"
            return (
                f"if some {what} for {who} gives what None gives, such as {such}, pass that "
                f"{means}; otherwise leave it: each has its own program"
            )
        case "nodes" if advice.containers is not None:
            one, other = (quoted(kind) for kind in advice.containers)
            return f"give {who} the same structure at every call, {one} or {other}, not both"
        case "nodes":
            meant = MEANT if advice.proof is Proof.MEANING else ""
            return f"give {who} the same structure at every call{meant}"
        case "program":
            return f"keep {who} the same between calls: its program depends on it{MEANT}"
        case "unknown":
            it = "them" if len(advice.paths) > 1 else "it"
            return (
                f"keep {who} the same between calls, or leave {it} out of the tree's static data "
                f"if no jitted function reads {it}"
            )
        case _:
            return f"keep {who} the same between calls"


def _number(advice: model.CastNumber, who: str) -> str:
    if all(has_axes for _, has_axes in advice.types):
        return _weak_array(advice, who)
    typed = " or ".join(_typed(*one) for one in advice.types)
    if advice.proof is Proof.MEANING:
        return (
            f"a Python number for {who} takes the dtype of what it is combined with, an array "
            "does not, so results differ: if all calls should compute as with the array, pass "
            f"{typed} at every call; otherwise cast inside {quoted(advice.name)}"
        )
    if isinstance(advice, model.CastCarry) and len(advice.types) > 1 and advice.each:
        by_type: dict[str, list[str]] = {}
        for path, dtype, has_axes in advice.each:
            if path in advice.paths:
                by_type.setdefault(_typed(dtype, has_axes), []).append(path)
        each = [f"{names(paths)} as {typed}" for typed, paths in by_type.items()]
        return f"start {listed(each, len(each))}, the type that later calls pass"
    if isinstance(advice, model.CastCarry):
        return f"start {who} as {typed}, the type that later calls pass"
    return (
        f"pass {who} as {typed} at every call, not as a Python number or the result of Python "
        "numbers only"
    )


def _both_ways(advice: model.CastNumber, later: tuple[str, ...]) -> str:
    """What to do if some values start weakly typed and others become so."""
    # Of what it is about, a plan may have left some to another step.
    started = tuple([path for path in advice.paths if path not in later])
    became = tuple([path for path in advice.paths if path in later])
    if not became:
        return _number(advice, names(started))
    it = "it" if len(became) == 1 else "them"
    made = f"{quoted(advice.name)} returns" if advice.returned else "later calls create"
    text = f"give {names(became)} a dtype where {made} {it}, as at the start"
    if advice.returned and advice.package:
        text += f" ({quoted(advice.name)} belongs to {advice.package}: report it there)"
    if not started:
        return text
    return f"{_number(advice.changed(paths=started), names(started))}; and {text}"


def _weak_array(advice: model.CastNumber, who: str) -> str:
    """The same for arrays with axes, which are weakly typed as they were created."""
    made = " or ".join(f"`jnp.array(0.0, jnp.{dtype})`" for dtype, _ in advice.types)
    at = "where it is created" if len(advice.paths) == 1 else "where they are created"
    typed = " or ".join(_typed(*one) for one in advice.types)
    text = (
        f"give {who} a dtype {at}, as in {made}, or pass {typed}: an array that is made of "
        "Python numbers alone is weakly typed, and so is what is made from it, like the state of "
        "an optimizer"
    )
    if advice.proof is not Proof.MEANING:
        return text
    return f"{text}; one takes the dtype of what it is combined with, so results may differ"


def _one_dtype(advice: model.OneDtype, who: str, it: str) -> str:
    dtypes, many = advice.dtypes, it == "them"
    asks = advice.proof is Proof.MEANING and not advice.seen_with
    both = f": {_of_dtypes(dtypes, asks=asks)}" if dtypes else ""
    each = f"each of {who}" if many and not dtypes else who
    text = f"give {each} one dtype at every call{both}"
    if "bool" in dtypes and len(dtypes) > 1 and asks:
        means = "mean" if many else "means"
        return f"if {who} {means} the same in every call, {text}; otherwise leave {it}"
    if advice.python and _fractional(dtypes):
        text += ", as a Python number (`1.0` for `1`; `np.float32(1)` is another key)"
    if advice.seen_with:
        other = names(advice.seen_with)
        text += f", unless calls with another {other} need integers, as an index does"
    if not asks:
        return text
    choose = "compare them" if _fractional(dtypes) else "choose the one you mean"
    return f"{text} (results differ: {choose})"


def _typed(dtype: str, has_axes: bool) -> str:
    """An expression for such a value that compiles nothing itself, unlike `jnp.asarray`."""
    if has_axes:  # a JAX array as before: a library may flatten a NumPy array differently
        return f"`jax.device_put(np.asarray(value, jnp.{dtype}))`"
    return f"`np.{dtype}(value)`" if dtype in _NUMPY else f"`np.asarray(value, jnp.{dtype})`"


def _of_dtypes(dtypes: tuple[str, ...], *, asks: bool) -> str:
    """Which of several dtypes to give: not one that would cut off fractions of the others.

    If all calls compute with the same dtypes, it is the one in which no value is rounded.
    """
    if kept := _fractional(dtypes):
        which = kept[0] if len(kept) == 1 else f"one of {listed(kept)}"
        whole = [one for one in dtypes if one not in kept]
        return f"{which}, not {listed(whole)}, which would cut fractions off"
    if (widest := _widest(dtypes) or (None if asks else _most_exact(dtypes))) is not None:
        others = [one for one in dtypes if one != widest]
        return f"{widest}, not {listed(others)}, which cannot hold every {widest}"
    if len(dtypes) > 2:
        return f"one of {listed(dtypes)}"
    return f"{' or '.join(dtypes)}, not both"


def _widest(dtypes: tuple[str, ...]) -> str | None:
    """The integers that hold all of the others, if these are integers of several widths."""
    if not all(re.fullmatch(r"u?int\d+", one) for one in dtypes):
        return None
    bits = {one: int(one.lstrip("uint")) for one in dtypes}
    widest = max(dtypes, key=lambda one: bits[one])
    return widest if all(bits[one] < bits[widest] for one in dtypes if one != widest) else None


def _most_exact(dtypes: tuple[str, ...]) -> str | None:
    """The floats that hold all of the others, if these are floats of several widths."""
    bits = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
    if not bits.keys() >= {*dtypes} or {"float16", "bfloat16"} <= {*dtypes}:
        return None
    return max(dtypes, key=lambda one: bits[one])


def _fractional(dtypes: tuple[str, ...]) -> list[str]:
    """Those that hold fractions, if others among them do not."""
    found = [one for one in dtypes if not one.startswith(("int", "uint", "bool"))]
    return found if len(found) < len(dtypes) else []

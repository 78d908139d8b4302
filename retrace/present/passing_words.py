"""Words advice to jit a function once and to pass what it holds."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.model import advice as model
from retrace.model.advice import OfFunction, What
from retrace.present.as_argument import AS_ARRAY, FOLDED, made_array, stays
from retrace.present.words import names, quoted

UNEXPLAINED = "; its program may depend on more that was not recorded: pass that, too"


def jit(advice: OfFunction) -> str:
    """What to do with the function once."""
    return "`jax.pmap`" if advice.mapped else "jit"


def whom(advice: OfFunction) -> str:
    if advice.maker:
        return f"what {quoted(advice.maker)} makes of {quoted(advice.name)}"
    match advice.what:
        case What.LAMBDA:
            return "the lambda"
        case What.PARTIAL:
            return f"{quoted(advice.name)} itself"
        case What.TRANSFORMED | What.WRAPPED:
            return f"the {advice.what.value} {quoted(advice.name)}"
        case What.FUNCTION | What.METHOD:
            return quoted(advice.name)


def _as_static(advice: model.JitAndPass) -> str:
    """A static argument; a list becomes a tuple, since JAX takes only what has a hash."""
    kind = arguments(advice.static, "static")
    if advice.mapped:
        kind = f"{kind} (`static_broadcasted_argnums`)"
    if not advice.lists:
        return kind
    if len(advice.static) == 1:
        return f"{kind}, as a tuple"
    return (
        f"{kind} ({names(advice.lists)} as {'a tuple' if len(advice.lists) == 1 else 'tuples'})"
    )


def and_pass(advice: model.JitAndPass) -> str:
    traced, static = advice.traced, advice.static
    if advice.reads:
        also = f"{names(traced)} and " if traced else ""
        who = names(advice.functions) if advice.functions else "it"
        read = "read" if len(advice.functions) > 1 else "reads"
        kept = f", and {names(static)} as {_as_static(advice)}" if static else ""
        through = "" if advice.functions else ", also through what it calls,"
        return (
            f"{_once(advice)}, and pass {also}the arrays that {who} {read}{through} as "
            f"arguments{kept}{_of_one_size(advice)}{UNEXPLAINED if advice.unexplained else ''}"
        )
    ways = (
        [f"pass {names(traced)} as {arrays(advice)}{_unmapped(advice)}{_kept_outside(advice)}"]
        if traced
        else []
    )
    if static:
        kind = _as_static(advice)
        ways.append(
            f"pass {names(static)} as {kind}: each value gets its own program{_if_read(advice)}"
        )
    if advice.inject:
        ways.append(
            f"create {names(advice.inject)} once with `optax.inject_hyperparams`: what differs "
            f"is then set in the optimizer's state, {AS_ARRAY} (name its other arguments in "
            "`static_args`, so that they stay as they are)"
        )
    if not ways and advice.functions:
        them = "it is" if len(advice.functions) == 1 else "they are"
        return (
            f"{_once(advice)}, over one {names(advice.functions)}, "
            f"which it holds: {them} created again as well"
            f"{UNEXPLAINED if advice.unexplained else ''}"
        )
    if not ways:
        ways = ["pass what the partial binds at each call"]
    text = f"{_once(advice)}, and {', and '.join(ways)}"
    if advice.picks:
        text += (
            f" (if {names(advice.picks)} picks rows, pass their numbers, `np.flatnonzero(...)`)"
        )
    if advice.one_type:
        text += f"; give {names(advice.one_type)} as one type where results keep their dtype"
    return text + _of_one_size(advice) + (UNEXPLAINED if advice.unexplained else "")


def arrays(advice: model.JitAndPass | model.JitForEach) -> str:
    """The arguments that are traced: a wrapper may take each Python number as static."""
    numbers = isinstance(advice, model.JitForEach) or advice.numbers
    if not (advice.by_type and numbers):
        return arguments(advice.traced)
    kind = "an array" if len(advice.traced) == 1 else "arrays"
    return f"{kind}{made_array(advice.dtype)}"


def _if_read(advice: model.JitAndPass) -> str:
    """What would make a program for each call, which may be for nothing."""
    new = [name for name in advice.static if name in advice.always_new]
    if not new:
        return ""
    it, is_ = ("it", "is another one") if len(new) == 1 else ("them", "are others")
    return (
        f" ({names(new)} {is_} at each call: leave {it} out if the function does not read {it})"
    )


def _unmapped(advice: model.JitAndPass) -> str:
    """A mapped function takes a slice of each argument, unless told otherwise."""
    them = "them" if len(advice.traced) > 1 else "it"
    if advice.mapped:
        return f", with `None` for {them} in `in_axes`"
    if advice.what is What.TRANSFORMED:
        return (
            f", with `None` for {them} in the `in_axes` of a `vmap`, `P()` in the `in_specs` of "
            f"a `shard_map`, and without {them} in the `argnums` of a `grad`"
        )
    return ""


def _kept_outside(advice: model.JitAndPass) -> str:
    """What Python does with traced arguments stays outside of the function."""
    if advice.picks:
        return ""
    it = "them" if len(advice.traced) > 1 else "it"
    folded = FOLDED if advice.folded else ""
    return (or_computed(it) if advice.computed else stays(it)) + folded


def static_where(passed: Sequence[str]) -> str:
    """How to pass what a function holds, where its program does not show what depends on it."""
    which = "one of them" if len(passed) > 1 else "it"
    return f" (as a static argument where a shape, an `if` or a loop depends on {which})"


def or_computed(it: str) -> str:
    """What to pass in place of numbers with which Python computes while it traces."""
    return (
        f" (or what Python computes from {it}: an array computes in 32 bits, and `if`, "
        f"`int`, `math` and NumPy refuse {it})"
    )


def _once(advice: model.JitAndPass) -> str:
    if advice.what is What.METHOD:
        kept = "jax.pmap" if advice.mapped else "jax.jit"
        return f"keep `{kept}(...{advice.name})` in a variable or attribute"
    at = "at module level" if advice.bound else "outside the loop"
    if advice.maker:
        maker, name = quoted(advice.maker), quoted(advice.name)
        return (
            f"{jit(advice)} once, {at}, a function that calls {maker} over {name} and then what "
            f"that returns; what {maker} takes besides is an argument of it, too, if it differs"
        )
    if advice.jitted:
        return f"call {whom(advice)}, which is jitted already, and jit no partial of it"
    return f"{jit(advice)} {whom(advice)} {once(advice)}, {at}"


def _of_one_size(advice: model.JitAndPass) -> str:
    """What passing arrays does not save."""
    if not advice.resized:
        return ""
    return "; each size still compiles, unless you pad to one size and mask the padding"


def once(advice: OfFunction) -> str:
    return f"once for each {names(advice.each)}" if advice.each else "once"


def arguments(found: tuple[str, ...], kind: str = "") -> str:
    if len(found) > 1:
        return f"{kind} arguments".strip()
    return f"a {kind} argument" if kind else "an argument"

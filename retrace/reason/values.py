"""What the programs say of Python values that went into them: could one have done for both?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

from retrace.causes import Cause
from retrace.model import Change, Component, Fix
from retrace.reason import rules
from retrace.reason.evidence import innermost, listed
from retrace.reason.fields import field_changes
from retrace.reason.program import HELD, Comparison, numbers

_NUMBERS = frozenset(("bool", "int", "float", "complex"))
_PLAIN = _NUMBERS | {"str", "NoneType", "tuple"}


def avoidable(
    cause: Cause, changes: tuple[Change, ...], program: Comparison | None
) -> Literal["yes", "no"] | None:
    """What the programs alone decide; None where they leave it open.

    A program that differs only in a number which Python put into it could have taken
    that number as an argument. One in which Python's `if` or `for` took another way
    is rightly separate.
    """
    values = _values(cause, changes)
    if program is None or not values or not all(map(is_plain, values)):
        return None
    kind = program.kind
    if kind == "constants-only" and (all(map(is_amount, values)) or _constants(values, program)):
        return "yes"
    return "no" if kind == "different" and not program.differs_in_prints else None


def advice(cause: Cause, changes: tuple[Change, ...], program: Comparison | None) -> Fix | None:
    """What to do about a value that Python put into the program; None where it did not."""
    values = _values(cause, changes)
    if program is None or cause is not Cause.STATIC_ARGUMENT_CHANGED or not values:
        return None
    if not all(map(is_plain, values)):
        return None
    match program.kind:
        case "constants-only":
            return _as_arguments(changes, values, program)
        case "repeated":
            return _rolled(values, program)
        case "different" if program.differs_in_prints:
            named = listed([value.path for value in values])
            text = (
                f"only what is printed depends on {named}: print it outside of the function, and "
                "all values share one program."
            )
            return Fix("print-outside", text)
        case "different":
            return _separate(_unexplained(values, program))
        case _:
            return None


def _as_arguments(
    changes: tuple[Change, ...], values: Sequence[Change], program: Comparison
) -> Fix | None:
    constants = _constants(values, program)
    amounts = constants or [value for value in values if is_amount(value)]
    if not constants and len(amounts) < len(values):
        return None
    named = listed([value.path for value in amounts])
    kind = "arguments that are" if len(amounts) > 1 else "an argument that is"
    it = "constants depend on them" if len(amounts) > 1 else "a constant depends on it"
    objects = _objects(changes, amounts)
    outside = f", outside of {listed(objects)}" if objects else ""
    text = f"pass {named} as {kind} not static{outside}: only {it}."
    if not constants:
        # `math.sqrt` and `int` refuse what is traced, and an `if` does.
        them = "it" if len(amounts) == 1 else "them"
        text = f"{text[:-1]} (an `if`, `int` or `math` of {them} would need `jnp`)."
    elif rest := listed([value.path for value in values if value not in amounts]):
        text = f"{text[:-1]}; on {rest} no constant depends."
    return Fix("static-to-dynamic", text)


def _rolled(values: Sequence[Change], program: Comparison) -> Fix:
    found = program.difference
    repeats = () if found is None else found.repeats
    counts = {(block.old, block.new) for block in repeats}
    sure = [value for value in values if numbers(value) in counts]
    named = listed([value.path for value in sure or _unexplained(values, program)])
    if all(block.loop for block in repeats):
        text = (
            f"{named} is how often a loop of JAX's own runs: `jax.lax.fori_loop` and "
            "`jax.lax.while_loop` take one that is not static (without a reverse gradient); "
            "else keep to a few values."
        )
        return Fix("trips-in-program", text)
    is_said = "is unrolled" if sure else "would be unrolled"
    text = (
        f"a Python loop over {named} {is_said}: `jax.lax.fori_loop` takes a bound that is not "
        "static, `jax.lax.scan` keeps it one block for each length; else keep to a few values."
    )
    return Fix("loop-in-program", text)


def _separate(values: Sequence[Change]) -> Fix:
    named = listed([value.path for value in values])
    text = f"each value of {named} rightly has a program of its own"
    if not all(map(is_number, values)):
        return Fix("few-values", f"{text}: keep to a few.")
    text = f"{text}; where it steers an `if` or a `for`, `jax.lax.cond` or"
    return Fix("branch-in-program", f"{text} `jax.lax.fori_loop` would make it one.")


def _objects(changes: tuple[Change, ...], values: Sequence[Change]) -> list[str | None]:
    """The objects that hold what is to be passed by itself."""
    own = {change.path for change in changes if change.component in HELD}
    found = [value.path for value in values if value.path not in own]
    return [
        path
        for path in own
        if any(str(one).startswith((f"{path}.", f"{path}[")) for one in found)
    ]


def are_constants(values: Sequence[Change], program: Comparison) -> bool:
    """Whether all constants of the program that changed are among these values."""
    return bool(_constants(values, program))


def _constants(values: Sequence[Change], program: Comparison) -> list[Change]:
    """The values that are constants of the program, where they are all that changed in it."""
    own = [value for value in values if is_amount(value) and numbers(value) in program.constants]
    return own if own and program.constants == {numbers(value) for value in own} else []


def _unexplained(values: Sequence[Change], program: Comparison) -> Sequence[Change]:
    """The values that may be why: not those that are a mere constant, if others are left."""
    return [value for value in values if numbers(value) not in program.constants] or values


def _values(cause: Cause, changes: tuple[Change, ...]) -> list[Change]:
    """The Python values that alone can have made another program, config objects by field."""
    if cause is not Cause.STATIC_ARGUMENT_CHANGED and cause not in rules.OF_FUNCTION:
        return []
    ignored = {*HELD, Component.FUNCTION, Component.PROGRAM, Component.SIGNATURE}
    if not all(change.component in ignored for change in changes):
        return []
    own = [change for change in changes if change.component in HELD]
    found = {
        part.path: part
        for change in own
        for part in (() if is_plain(change) else field_changes(change)) or (change,)
    }
    kept = innermost([path for path in found if path is not None])
    return [part for path, part in found.items() if path is None or path in kept]


def _types(change: Change) -> Iterable[str]:
    for side in (change.old, change.new):
        fields = cast(dict[str, Any], side) if isinstance(side, dict) else {}
        yield str(fields.get("type", ""))


def _data(side: object) -> object:
    return cast(dict[str, Any], side).get("data") if isinstance(side, dict) else None


def is_plain(change: Change) -> bool:
    """Whether both sides are numbers, texts or None, or tuples: hashable, and told whole."""
    return all(type_ in _PLAIN or type_.startswith("numpy.") for type_ in _types(change))


def is_amount(change: Change) -> bool:
    """Whether it is a number that can be traced: a bool is there for an `if`."""
    return is_number(change) and "bool" not in _types(change)


def is_number(change: Change) -> bool:
    """Whether both sides are numbers, or tuples of them."""
    if set(_types(change)) == {"tuple"}:
        return all(
            isinstance(data, list) and {*map(type, data)} <= {int, float}  # pyright: ignore[reportUnknownArgumentType]
            for data in (_data(change.old), _data(change.new))
        )
    # `numpy.float32`, but not `numpy.ndarray`.
    return all(
        type_ in _NUMBERS or type_.startswith(("numpy.int", "numpy.uint", "numpy.float"))
        for type_ in _types(change)
    )

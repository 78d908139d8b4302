"""What to change about a slow miss, in words."""

from __future__ import annotations

from typing import assert_never

from retrace.costs.account import Advice
from retrace.costs.donation import Donated
from retrace.present.program import at
from retrace.present.view import View
from retrace.present.words import clean, count, seconds


def advised(view: View, advice: Advice) -> str:
    """What to change, in one sentence."""
    where = "" if advice.frame is None else at(view, advice.frame)
    match advice.code:
        case "scan":
            rounds = f"the {advice.times:,} rounds at {where}"
            return f"`jax.lax.scan` over {rounds}: {_fewer(advice)}"
        case "vmap":
            return (
                f"the {advice.times:,} rounds at {where} are independent: work on whole arrays "
                f"there, or use `jax.vmap`: {_fewer(advice)}, besides those for indices"
            )
        case "set" | "add":
            return (
                f"{advice.times:,} rounds at {where} store into one array, piece by piece: "
                "compute all values at once (`jax.vmap`) and store them with one "
                f"`.at[indices].{advice.code}(values)`: {_fewer(advice)}, besides those for "
                "indices"
            )
        case "jit":
            return (
                f"`jax.jit` on `{clean(advice.frame.function, 32) if advice.frame else ''}` "
                f"({where}), called {advice.times:,} times alike here: it is then traced and "
                f"lowered once, {advice.after:,} equations instead of {advice.before:,} (XLA "
                "inlines it and compiles as much as before)"
            )
        case "collection":
            return (
                f"Python collected garbage for {seconds(advice.seconds)} at {where}: call "
                "`gc.freeze()` once after loading, or collect outside the trace"
            )
        case "folding":
            held = f" ({size(advice.before)} at {where})" if where else ""
            return (
                f"XLA computed on constants for {seconds(advice.seconds)}{held}: "
                "pass the array as an argument, or compute on it with NumPy first"
            )
        case "argument":
            return (
                f"pass what is captured at {where} as an argument: {size(advice.before)} "
                "are copied into the program and compiled with it"
            )
        case "equality":
            return (
                f"comparing values at {where} took {seconds(advice.seconds)}: make `__eq__` and "
                "`__hash__` cheap (an id, or a hash computed once)"
            )
        case "flatten":
            return (
                f"the pytree node at {where} took {seconds(advice.seconds)} to flatten: "
                "compute nothing in its flatten function"
            )
        case "python":
            return (
                f"{where} spent {seconds(advice.seconds)} outside JAX: do that before the call, "
                "and pass the result as an argument"
            )
    assert_never(advice.code)


def _fewer(advice: Advice) -> str:
    return f"{advice.before:,} equations become about {advice.after:,}"


def size(bytes_: int) -> str:
    """`1.2 GB`, `340 kB`."""
    value = float(bytes_)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return (
                f"{value:.0f} {unit}" if value >= 9.95 or unit == "B" else f"{value:.1f} {unit}"
            )
        value /= 1000
    raise AssertionError


def donation(found: Donated) -> str:
    """`3.8 MiB donated, all of it reused`."""
    text = f"{size(found.bytes)} donated, "
    if found.reused == found.bytes:
        return f"{text}all of it reused for results"
    text += f"{size(found.reused)} of it reused" if found.reused else "none of it reused"
    if not found.refused:
        return text
    first = found.refused[0]
    more = len(found.refused) - 1
    who = f"`{clean(first.path, 60)}` {first.dtype}{list(first.shape)}"
    others = f" and {count(more, 'more array')}" if more else ""
    return f"{text}: no result is as large as {who}{others}"

"""Constants of a program in whose place JAX takes no array: the number has to be Python's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from retrace.compare.equation import primitive
from retrace.model import Listing
from retrace.regex import regex

STATIC = "static:"
"""Before the name of a function of JAX that takes the number as a static argument."""
ARANGE, WINDOW = "arange", "scatter"

_JITS = ("jit", "pjit")
_NAME = regex(r"\tname='([^']*)'")
_DIMENSIONS = regex(r"ScatterDimensionNumbers\(\([\d,]*\),\(([\d,]*)\),\(([\d,]*)\)")
_MAX_AHEAD = 8
"""How many equations may lie between the bound of a window and what writes into it."""


def untraced(listing: Listing, index: int) -> Iterator[str]:
    """What takes the constant of an equation only as a Python number, as far as it shows."""
    text = listing.equations[index]
    arguments = text.split("\t", 2)[1].split(" ")
    # `jnp.arange(n, m)` adds its start to an iota; `jnp.arange(m) + n` adds in the other order.
    before = primitive(listing.equations[index - 1]) if index else ""
    if (primitive(text), before, arguments[1:]) == ("add", "iota", ["$"]) and arguments[0] != "$":
        yield ARANGE
    if primitive(text) == "broadcast_in_dim" and any(
        map(_is_window, islice(listing.equations, index + 1, index + 1 + _MAX_AHEAD))
    ):
        yield WINDOW


def _is_window(text: str) -> bool:
    """Whether it writes into a slice, `x.at[n:m]`, rather than at an index."""
    if not primitive(text).startswith(WINDOW) or (found := _DIMENSIONS.search(text)) is None:
        return False
    inserted, indexed = (one.count(",") + bool(one) for one in found.groups())
    return indexed > inserted


def static_argument(text: str, *, shown: bool, inner: bool) -> str | None:
    """The function of JAX of whose own program a constant is a part; None if it is no program.

    What the user passes to `jnp.round` or `jnp.triu` as an array is an argument of the program of
    these; what is a constant in it was a static argument. A function of the user's or of a
    library has lines, and may close over the number.

    Args:
        text: the equation that calls a program.
        shown: whether its line is known.
        inner: whether those of the program's equations are.
    """
    if primitive(text) not in _JITS or not shown:
        return None
    name = _NAME.search(text)
    return "" if inner or name is None else f"{STATIC}{name[1]}"

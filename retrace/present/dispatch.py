"""Functions whose every call is slow."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.model import Callback
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import clean, count, listed, name, place

COST = "hundreds of microseconds a call, where a plain one takes about 5"
_CALLED = {
    "debug_print": "jax.debug.print",
    "debug_callback": "a callback of jax.debug",
    "inspect_sharding": "jax.debug.inspect_array_sharding",
    "io_callback": "io_callback",
    "pure_callback": "jax.pure_callback",
}
_MAX_CALLED = 3


def heading(number: int) -> str:
    """The heading of the list of these functions."""
    leave = "leaves" if number == 1 else "leave"
    return f"{count(number, 'function')} {leave} JAX's fast path at every call ({COST})"


def rows(view: View, tally: Tally) -> list[tuple[str, str, str]]:
    """Each function, where it is defined, and what its program calls."""
    return [
        (name(miss.function), view.place(miss), _called(view, found))
        for miss, found in tally.slow.values()
    ]


def lines(view: View, tally: Tally) -> list[str]:
    """`step (train.py:3): jax.debug.print at train.py:5`."""
    return [f"{who} ({at}): {what}" for who, at, what in rows(view, tally)]


def said(view: View, callbacks: Iterable[Callback]) -> str:
    """What was found about one function."""
    return f"every call leaves JAX's fast path: {_called(view, callbacks)} ({COST})"


def _called(view: View, callbacks: Iterable[Callback]) -> str:
    texts = [
        _CALLED.get(one.primitive, clean(one.primitive, 32))
        + (f" at {place(one.file, one.line, view.bases)}" if one.file else "")
        for one in callbacks
    ]
    return listed(texts, _MAX_CALLED)

"""Compares the program that JAX keeps with what tracing its function again gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

from retrace.auditing import alike, returned
from retrace.auditing.effects import kept_by
from retrace.capture.programs import transcript
from retrace.jax_internals.retracing import Retraced
from retrace.jax_internals.transcript import Transcript
from retrace.model import Outcome, Reason, Value


class Compared(NamedTuple):
    """How the programs differ."""

    outcome: Outcome
    transcripts: tuple[Transcript, ...] = ()
    """If they differ: of the program that JAX keeps, of a trace, and of a second one if that
    differs again."""
    returned: tuple[Value, Value] | None = None
    """What the function returned besides arrays, then and now, if that differs."""
    reason: Reason | None = None
    detail: str = ""
    ruling: tuple[tuple[Any, Any], ...] = ()
    """The functions of custom rules that the same program has, none of which was traced."""


def compared(
    jaxpr: Any,
    arrays: tuple[str, ...] | None,
    contents: frozenset[str],
    is_stuck: bool,
    trace: Callable[[], Retraced],
) -> Compared:
    """Compare a program with the ones that its function gives now.

    Args:
        jaxpr: the program that JAX keeps.
        arrays: the host arrays, by content, that it captured when it was traced, if known.
        contents: what arrays that were changed in place hold now.
        is_stuck: whether arrays changed in place may be traced in their old state again.
        trace: traces the function again.
    """
    old, now = transcript(jaxpr, with_callbacks=True), trace()
    new = transcript(now.jaxpr, with_callbacks=True)
    answer = _same(old, new)
    if answer is False and alike.differ_in_nothing_computed(jaxpr, now.jaxpr):
        answer = True
    if answer is True and arrays is not None and alike.changed_in_place(jaxpr, arrays, old.host):
        answer = False
    if answer and contents and alike.literal_changed_in_place(jaxpr, now.jaxpr, contents):
        answer = False
    gives = returned.same(now.before, now.returned)
    again = None
    if answer is False or gives is not True:
        then = trace()
        fresh = transcript(then.jaxpr, with_callbacks=True)
        gives_each = returned.same(now.returned, then.returned)
        if gives is None and gives_each is not True:
            gives = True  # metadata made at each trace, such as a function
        if answer is False and _same(new, fresh) is not True:
            # A custom rule may hold something different at each trace, such as the traceback
            # that equinox keeps for an error; it does not affect what the program computes.
            if alike.computes_same(now.jaxpr, then.jaxpr) is True:
                answer = alike.computes_same(jaxpr, now.jaxpr)
            else:
                again = fresh
        if answer is True and gives is False and gives_each is False:
            again = fresh
    if answer is False and gives is not False and again is None:
        kept = kept_by(old.called)
        if kept is not None and alike.differ_in_callbacks(jaxpr, now.jaxpr):
            return Compared(Outcome.UNTRACED, reason=Reason.KEEPS, detail=kept)
    if answer is False or gives is False:
        gave = (returned.described(now.before), returned.described(now.returned))
        return Compared(
            Outcome.OTHER if again is None else Outcome.EACH,
            (old, new) if again is None else (old, new, again),
            gave if gives is False else None,
        )
    if answer is None or is_stuck:
        return Compared(Outcome.UNTRACED, reason=Reason.CONSTANTS)
    if gives is None:
        return Compared(Outcome.UNTRACED, reason=Reason.RETURNED)
    return _unless_unknown(old, new)


def _unless_unknown(old: Transcript, new: Transcript) -> Compared:
    """The same, unless callbacks hold objects that cannot be compared."""
    for held, other in zip_longest(old.unknown, new.unknown):
        if held is not other:
            kind = type(other if held is None else held).__name__
            return Compared(Outcome.UNTRACED, reason=Reason.HOLDS, detail=kind)
    return Compared(Outcome.SAME, ruling=new.ruling)


def _same(old: Transcript, new: Transcript) -> bool | None:
    same_text = old.program.hash == new.program.hash
    return same_text and alike.captured_same(old, new)

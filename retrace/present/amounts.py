"""Words numbers of calls and seconds: a number, or a range if it is uncertain."""

from __future__ import annotations

from retrace.plan.amount import Amount, Span
from retrace.plan.step import Step
from retrace.present.words import seconds

_HYPHEN, _TO = "-", " to "
"""The separator of a range, in a column and in a sentence."""


def saved(step: Step) -> tuple[str, str]:
    """What a step saves, for two columns: calls or eager operations, and seconds."""
    calls, eager, spent = step.gone
    if calls.high:
        many = _counted(calls, _HYPHEN)
    else:
        noun = "op" if eager.high == 1 else "ops"
        many = f"{_counted(eager, _HYPHEN)} {noun}" if eager.high else "nested"
    return many, _figures(spent, _HYPHEN) if spent.high >= _MIN_SECONDS else "<0.01"


def saving(step: Step) -> str:
    """The same for use in a sentence: `4 calls, 5.7 s`."""
    many, spent = saved(step)
    noun = {"nested": " calls", "1": " call"}.get(many, "" if "op" in many else " calls")
    return f"{many}{noun}, {spent} s"


def left(step: Step) -> str:
    """What is left after a step and those before it, or why it is not done, for a column."""
    if step.worth:
        latest = step.left.seconds.high
        return _in_words(step.left._replace(seconds=Span(latest, latest)), _HYPHEN, "ops")
    spent = step.gone.seconds
    if spent.low < _MIN_SECONDS <= spent.high:
        return "may save nothing"
    return "may save little" if is_open(step) else "not worth it"


def is_open(step: Step) -> bool:
    """Whether a step that certainly saves too little may save more."""
    return not step.worth and step.gone.seconds.high >= _MUCH


def in_words(one: Amount) -> str:
    """Calls, eager operations and seconds: `1 to 2 calls and 3 eager operations, 0.45 s`."""
    return _in_words(one, _TO, "eager operations", both=True)


def number(span: Span) -> str:
    """`3`, `1 to 2`, `up to 28`."""
    return _counted(span, _TO)


def spent(span: Span) -> str:
    """`5.80 s`, `3.2 to 5.7 s`, `up to 0.6 s`."""
    return _spent(span, _TO)


_MIN_SECONDS = 0.005
"""Smaller numbers of seconds are 0.00 with two decimals."""
_MUCH = 0.05
"""Seconds that are worth a step if they are saved."""


def _in_words(one: Amount, between: str, operations: str, *, both: bool = False) -> str:
    if one.is_nothing:
        return "nothing"
    parts: list[str] = []
    if one.calls.high:
        noun = "call" if one.calls.high == 1 else "calls"
        parts.append(f"{_counted(one.calls, between)} {noun}")
    if one.eager.high and (both or not parts):
        noun = operations[:-1] if one.eager.high == 1 else operations
        parts.append(f"{_counted(one.eager, between)} {noun}")
    counted = [" and ".join(parts)] if parts else []
    return ", ".join((*counted, _spent(one.seconds, between)))


def _spent(span: Span, between: str) -> str:
    if span.is_exact or span.high < _MIN_SECONDS:
        return seconds(span.high)
    return f"{_figures(span, between)} s"


def _counted(span: Span, between: str) -> str:
    return _range(f"{int(span.low):,}", f"{int(span.high):,}", between)


def _figures(span: Span, between: str) -> str:
    is_wide = span.high >= 0.95 or (span.high >= 0.1 and not span.is_exact)
    places = 0 if span.high >= 100 else 1 if is_wide else 2
    return _range(f"{span.low:,.{places}f}", f"{span.high:,.{places}f}", between)


def _range(low: str, high: str, between: str) -> str:
    if low == high:
        return high
    return f"{low}{between}{high}" if low.strip("0.,") else f"up to {high}"

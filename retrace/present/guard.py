"""The text of a guard: which limits were exceeded, and a message for each miss that did it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrace.causes import Cause
from retrace.model import Verdict
from retrace.present.detail import detail
from retrace.present.layout import group_message
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import clean, count, ordinal, turned

_KILLED = "killed in its"
"""How a message describes a stage that started and did not end."""

_MAX_CAUSES = 10
"""Maximum number of causes explained; the rest are counted."""


def explanation(
    view: View,
    heads: Iterable[str],
    verdicts: Sequence[Verdict],
    width: int = 80,
    *,
    begun: bool = False,
) -> str:
    """The exceeded limits, one per line, and the messages of the misses.

    Args:
        view: everything that is known.
        heads: the exceeded limits, in words.
        verdicts: the misses that count; first traces stay quiet next to others.
        width: columns.
        begun: whether the misses were stopped before they ran.
    """
    again = [verdict for verdict in verdicts if verdict.cause is not Cause.FIRST_TRACE]
    groups = Tally.of(view, again or verdicts).groups()
    texts = [group_message(view, group, width) for group in groups[:_MAX_CAUSES]]
    if len(groups) > _MAX_CAUSES:
        texts.append(f"and {count(len(groups) - _MAX_CAUSES, 'more cause')}")
    if begun:
        texts = [text.replace(_KILLED, "stopped before its") for text in texts]
    return "\n\n".join(["\n".join(heads), *texts])


def repeated(head: str, verdict: Verdict, times: int) -> str:
    """One line for a miss whose cause was explained in full before."""
    changes = [turned(detail(change), 80) for change in verdict.changes[:2] if detail(change)]
    paths = [clean(change.path or "", 40) for change in verdict.changes[:2] if detail(change)]
    text = ", ".join(f"{p} {c}".strip() for p, c in zip(paths, changes, strict=True))
    return f"{head} for the {ordinal(times)} time{': ' if text else ''}{text}"

"""What a guard says: which limit was exceeded, and the message of each miss that did it."""

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
"""What the message says of a stage that began and did not end."""

_MOST = 10
"""So many causes are explained; the others are counted."""


def explanation(
    view: View,
    heads: Iterable[str],
    verdicts: Sequence[Verdict],
    width: int = 80,
    *,
    begun: bool = False,
) -> str:
    """The limits that were exceeded, one a line, and the messages of the misses.

    Args:
        view: everything that is known.
        heads: what was exceeded, in words.
        verdicts: the misses that count; first traces stay quiet beside others.
        width: columns.
        begun: the misses are about to run, and are not going to.
    """
    again = [verdict for verdict in verdicts if verdict.cause is not Cause.FIRST_TRACE]
    groups = Tally.of(view, again or verdicts).groups()
    texts = [group_message(view, group, width) for group in groups[:_MOST]]
    if len(groups) > _MOST:
        texts.append(f"and {count(len(groups) - _MOST, 'more cause')}")
    if begun:
        texts = [text.replace(_KILLED, "stopped before its") for text in texts]
    return "\n\n".join(["\n".join(heads), *texts])


def repeated(head: str, verdict: Verdict, times: int) -> str:
    """One line for a miss whose cause was explained in full before."""
    changes = [turned(detail(change), 80) for change in verdict.changes[:2] if detail(change)]
    paths = [clean(change.path or "", 40) for change in verdict.changes[:2] if detail(change)]
    said = ", ".join(f"{p} {c}".strip() for p, c in zip(paths, changes, strict=True))
    return f"{head} for the {ordinal(times)} time{': ' if said else ''}{said}"

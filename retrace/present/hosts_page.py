"""Differences between the processes of a job, as part of the page."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.present.hosts import Sentence
from retrace.present.markup import rows, text
from retrace.present.message import Line
from retrace.present.view import View


def section(view: View) -> Iterator[str]:
    """Where processes diverge; nothing if all did the same.

    Also includes processes that find nothing in the on-disk cache.
    """
    if view.hosts is None:
        return
    texts = [_html(part) for part in view.hosts.parts()]
    if texts:
        yield f'<div class="parting">{"".join(texts)}</div>'
    yield from (f"<p>{text(phrase)}</p>" for phrase in view.hosts.unserved())


def _html(part: Sentence | list[Line]) -> str:
    if isinstance(part, list):
        return f"<table>{''.join(rows(part))}</table>"
    phrase = text(part.text)
    return f"<p><strong>{phrase}</strong></p>" if part.style == "loud" else f"<p>{phrase}</p>"

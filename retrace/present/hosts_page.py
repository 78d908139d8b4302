"""What processes of a job did otherwise, as a part of the page."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.present.hosts import Sentence
from retrace.present.markup import rows, text
from retrace.present.message import Line
from retrace.present.view import View


def section(view: View) -> Iterator[str]:
    """Where processes part; nothing where all did the same.

    Which processes find nothing in the disk cache is told here as well.
    """
    if view.hosts is None:
        return
    told = [_told(part) for part in view.hosts.parts()]
    if told:
        yield f'<div class="parting">{"".join(told)}</div>'
    yield from (f"<p>{text(said)}</p>" for said in view.hosts.unserved())


def _told(part: Sentence | list[Line]) -> str:
    if isinstance(part, list):
        return f"<table>{''.join(rows(part))}</table>"
    said = text(part.text)
    return f"<p><strong>{said}</strong></p>" if part.style == "loud" else f"<p>{said}</p>"

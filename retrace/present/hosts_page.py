"""What processes of a job did otherwise, as a part of the page."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.present.markup import text
from retrace.present.view import View


def section(view: View) -> Iterator[str]:
    """The lines of the text report; nothing where all did the same.

    Which processes find nothing in the disk cache is told here as well.
    """
    if view.hosts is not None and (differ := [*view.hosts.block(), *view.hosts.stored()]):
        yield f"<pre>{'<br>'.join(map(text, differ))}</pre>"

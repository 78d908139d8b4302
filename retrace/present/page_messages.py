"""The messages of the page: each cause explained, with its programs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrace.present import side_by_side
from retrace.present.group import Group
from retrace.present.markup import prose, rows, text
from retrace.present.message import compose
from retrace.present.sentences import explanation
from retrace.present.tally import rest_summary
from retrace.present.view import View
from retrace.present.words import seconds

_OPEN_MESSAGES = 3
"""The number of messages that are open; a click opens the others."""
_MAX_LINES = 120
"""Maximum number of lines of a program difference."""


def messages(
    view: View, groups: Sequence[Group], anchors: dict[int, str], numbers: dict[int, int]
) -> Iterator[str]:
    """One message for each group."""
    for index, group in enumerate(groups):
        message, shown = compose(view, group), group.shown
        is_open = " open" if index < _OPEN_MESSAGES else ""
        yield f'<details class="message {message.worth}" id="{anchors[id(group)]}"'
        yield f' data-group="{numbers[id(group)]}"{is_open}>'
        yield f"<summary><span>{text(message.heading)}</span>"
        yield f' <span class="at">{text(message.place)}</span>'
        yield f' <span class="cost">{seconds(group.seconds)}</span></summary>'
        yield f"<p><code>{group.cause.value}</code> {prose(explanation(view, shown))}</p>"
        yield f"<table>{''.join(rows(message.lines))}</table>"
        yield from side_by_side.call(view, shown)
        yield from side_by_side.programs(view, shown, _MAX_LINES)
        yield f'<p class="quiet"><code>retrace show {text(shown.miss.id)}</code></p></details>'


def rest(groups: Sequence[Group]) -> Iterator[str]:
    """The causes that are only counted."""
    if groups:
        yield f'<p id="more">And {rest_summary(groups)}.</p>'

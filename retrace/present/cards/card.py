"""The wording of one cause. Everything else about it is in `reason/cards`."""

from __future__ import annotations

from collections.abc import Callable

from retrace.model import Change, Miss, Verdict
from retrace.model.record import Record
from retrace.present import verdict_detail
from retrace.present.changes import in_words
from retrace.present.view import View
from retrace.present.words import clean, listed
from retrace.reason.cards import card


class Case(Record):
    """The miss that a sentence is about."""

    view: View
    verdict: Verdict
    who: str
    """The function, as the subject of a sentence."""
    before: str
    """The closest earlier call: `step #1`."""

    @property
    def miss(self) -> Miss:
        """The miss itself."""
        return self.verdict.miss

    @property
    def changes(self) -> tuple[Change, ...]:
        """What differs from the closest earlier call."""
        return self.verdict.changes

    @property
    def own(self) -> str:
        """Those that have its cause, in words."""
        parts = card(self.verdict.cause).components
        return listed([in_words(one) for one in self.changes if one.component in parts], 3)

    @property
    def again(self) -> str:
        """`step` was traced again."""
        return f"{self.who} was {self.view.did(self.verdict)}"

    @property
    def written(self) -> str:
        """The place where the function is defined."""
        return self.view.place(self.miss)

    @property
    def detail(self) -> str:
        """What the cause alone does not say; may be empty."""
        return clean(verdict_detail.in_words(self.verdict.detail) or "", 160)


class Words(Record):
    """How one cause is worded, wherever it is shown."""

    meaning: str
    """The cause in general, for the glossary, the index of docs/causes and completion."""
    sentence: Callable[[Case], str]
    """Why this miss happened, with the user's own names."""
    because: Callable[[str], str] | None
    """The first line of a message, given the detail of a verdict, which may be empty. None if the
    changes say it."""


def then(text: str) -> Callable[[str], str]:
    """A line that the detail continues: `cleared by f()`, `dropped: 2,048 misses later`."""

    def line(detail: str) -> str:
        if not detail:
            return text
        return f"{text} {detail}" if detail.startswith("by ") else f"{text}: {detail}"

    return line


def with_more(text: str) -> Callable[[str], str]:
    """A line that the detail is appended to."""
    return lambda detail: f"{text}, and {detail}" if detail else text


def replaced_by_detail(text: str) -> Callable[[str], str]:
    """A line that is replaced by a detail on who created the object and how."""
    return lambda detail: detail or text

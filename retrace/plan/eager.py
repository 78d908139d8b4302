"""Eager operations of one line, and what of them one jitted function would spare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from retrace.causes import Cause
from retrace.model import CallSite, Verdict

_REPEATED = 3
"""From so many programs of one operation on, a line compiles again and again."""
_MANY = 10
"""From so many programs on, a line is worth a word whatever they are."""
_SPARED = 0.05
"""Seconds that a line must spare for certain to be worth doing."""


@dataclass(frozen=True, slots=True)
class Line:
    """The eager operations that one line of the user's asked for, in all processes."""

    site: CallSite
    verdicts: tuple[Verdict, ...]
    again: tuple[Verdict, ...]
    """Those of an operation that the line had compiled before, on other arrays."""

    @property
    def repeats(self) -> bool:
        """Whether the line compiles one operation again and again."""
        return len(self.again) >= _REPEATED

    @property
    def worth(self) -> bool:
        """Whether anything is saved for certain."""
        return self.repeats and sum(v.miss.seconds for v in self.again) >= _SPARED

    @property
    def certain(self) -> tuple[Verdict, ...]:
        """Those that are gone for certain when arrays of one size are used."""
        return self.again if self.repeats else ()


def lines(verdicts: Iterable[Verdict]) -> Iterator[Line]:
    """The lines of which a person could do something about their eager operations."""
    found: dict[tuple[str, int], list[Verdict]] = {}
    for verdict in verdicts:
        miss = verdict.miss
        if verdict.cause is not Cause.EAGER_OP or miss.parent is not None:
            continue
        if miss.call_site is not None and not miss.call_site.in_library:
            found.setdefault((miss.call_site.file, miss.call_site.line), []).append(verdict)
    for members in found.values():
        seen: set[tuple[str, str]] = set()
        again: list[Verdict] = []
        for verdict in members:
            operation = (verdict.miss.run, verdict.miss.function.jax_name)
            if operation in seen:
                again.append(verdict)
            seen.add(operation)
        site = members[0].miss.call_site
        if site is not None and (len(again) >= _REPEATED or len(members) >= _MANY):
            yield Line(site, tuple(members), tuple(again))

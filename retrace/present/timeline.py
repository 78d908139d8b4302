"""When a program waited for JAX: each miss a bar, from where it began to where it ended."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import floor, inf, log10
from typing import NamedTuple

from retrace.model import Miss, Stage, Verdict
from retrace.present.group import Group
from retrace.present.markup import text
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import clean, count, seconds

_MOST = 1000
"""So many bars are drawn, the longest ones; the others are counted."""
_LANES = 24
"""So many threads have a lane of their own."""
_LABELS = 6
"""Numbers along the axis, about."""
_HEIGHT = 22


class _Bar(NamedTuple):
    seconds: float
    order: int
    miss: Miss
    label: str
    group: Group | None


class Timeline:
    """The misses that are in no other, the longest kept as they are told."""

    def __init__(self) -> None:
        self._bars: list[_Bar] = []
        self._told = 0
        self._rest = 0.0
        self._first = inf
        self._last = -inf

    def add(self, view: View, tally: Tally, verdicts: Sequence[Verdict]) -> None:
        """Take in misses that were not told yet; their groups are known to the tally."""
        for verdict in verdicts:
            miss = verdict.miss
            if not miss.stages or view.enclosing(miss) is not None:
                continue
            self._told += 1
            self._first = min(self._first, miss.time)
            self._last = max(self._last, miss.time + miss.seconds)
            label = f"{view.label(miss)}: {verdict.cause.value}"
            bar = _Bar(miss.seconds, -self._told, miss, label, tally.group_of(verdict))
            if len(self._bars) < _MOST:
                heapq.heappush(self._bars, bar)
            else:
                self._rest += heapq.heappushpop(self._bars, bar).seconds

    def html(self, view: View, anchor: Callable[[Group], str]) -> Iterator[str]:
        """The drawing.

        Args:
            view: knows the processes.
            anchor: where the page tells of a group.
        """
        span = self._last - self._first
        if not self._bars or not 0 < span < inf:
            return
        lanes: dict[tuple[str, str], list[_Bar]] = {}
        for bar in sorted(self._bars, key=lambda bar: bar.miss.time):
            lanes.setdefault((bar.miss.run, bar.miss.thread), []).append(bar)
        kept = sorted(lanes, key=lambda lane: -sum(bar.seconds for bar in lanes[lane]))[:_LANES]
        threads = Counter(run for run, _ in lanes)
        yield '<figure class="timeline">'
        for lane in (lane for lane in lanes if lane in kept):
            run, thread = lane
            named = list(view.process(run)) if len(view.missed) > 1 else []
            named += [clean(thread, 24)] if threads[run] > 1 else []
            if named:
                yield f'<div class="lane">{text(", ".join(named))}</div>'
            yield f'<svg height="{_HEIGHT}" role="group" aria-label="{self._said(lanes[lane])}">'
            for bar in lanes[lane]:
                yield from self._drawn(bar, span, bar.group and anchor(bar.group))
            yield "</svg>"
        yield f'<svg class="axis" height="20" aria-hidden="true">{"".join(_axis(span))}</svg>'
        caption = " ".join(self._caption(len(lanes) - len(kept)))
        yield f"<figcaption>{caption}</figcaption></figure>"

    def _said(self, bars: Sequence[_Bar]) -> str:
        spent = seconds(sum(bar.seconds for bar in bars))
        return text(f"{count(len(bars), 'miss', 'misses')}, {spent}")

    def _drawn(self, bar: _Bar, span: float, anchor: str | None) -> Iterator[str]:
        miss = bar.miss
        spent = ", ".join(
            f"{stage.value} {seconds(miss.stages[stage])}"
            for stage in Stage
            if stage in miss.stages
        )
        after = seconds(miss.time - self._first)
        title = f"{bar.label}; {spent}; {after} after the first"
        at = miss.time - self._first
        shown = [f"<title>{text(title)}</title>"]
        for stage in Stage:
            if (lasted := miss.stages.get(stage)) is not None:
                shown.append(
                    f'<rect class="{stage.value}" x="{_percent(at, span)}" y="3" '
                    f'width="{_percent(lasted, span)}" height="{_HEIGHT - 6}"/>'
                )
                at += lasted
        drawn = "".join(shown)
        # By the keyboard the same is reached through the list of functions.
        yield f'<a href="#{anchor}" tabindex="-1">{drawn}</a>' if anchor else f"<g>{drawn}</g>"

    def _caption(self, lanes: int) -> Iterator[str]:
        keys = ", ".join(f'<span class="key {s.value}"></span>{s.value}' for s in Stage)
        yield f"Each bar is a miss: {keys}, one after the other as if nothing came between them."
        if self._told > len(self._bars):
            others = count(self._told - len(self._bars), "shorter one")
            yield f"Not drawn: {others}, {seconds(self._rest)}."
        if lanes:
            yield f"Not drawn: {count(lanes, 'more thread')}."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.4g}%"


def _axis(span: float) -> Iterator[str]:
    step = _step(span / _LABELS)
    for number in range(int(span / step) + 1):
        at = number * step
        where = _percent(at, span)
        anchor = "start" if at < span * 0.9 else "end"
        yield f'<line x1="{where}" x2="{where}" y1="0" y2="5"/>'
        yield f'<text x="{where}" y="17" text-anchor="{anchor}">{at:g} s</text>'


def _step(least: float) -> float:
    """The next round number: 1, 2 or 5, or one of these with noughts."""
    ten = 10.0 ** floor(log10(least))
    return next(ten * number for number in (1, 2, 5, 10) if ten * number >= least)

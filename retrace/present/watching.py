"""What `retrace watch` tells of a program that still runs, on a screen or line after line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retrace.causes import Cause
from retrace.model import Run, Verdict
from retrace.plan.step import Plan
from retrace.present.detail import detail
from retrace.present.layout import Paint, plain, wrapped
from retrace.present.message import origin
from retrace.present.plan_text import block, step_cells
from retrace.present.plan_words import title
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import cells, clean, count, listed, name, place, seconds, turned
from retrace.reason.underway import Underway
from retrace.store.following import Life

_MOST_UNDERWAY = 6
_MOST_LATEST = 8
_MOST_LOOKED_AT = 500
"""So many of the last misses are gone through for these: most may be eager operations."""
_CLOCK = "%H:%M:%S"


@dataclass(slots=True)
class Seen:
    """A recording as it stands."""

    view: View
    """Explained as far as that was done when it was last looked at."""
    tally: Tally
    plan: Plan | None = None
    misses: int = 0
    """All until now, explained or not."""
    spent: float = 0.0
    """Seconds of their stages, each counted once."""
    underway: list[tuple[Run, Underway]] = field(default_factory=list[tuple[Run, Underway]])
    lives: Counter[Life] = field(default_factory=Counter[Life])
    """How many processes run, and how many do not."""
    now: float = 0.0


def screen(seen: Seen, width: int, height: int, paint: Paint = plain) -> list[str]:
    """What a terminal shows, of `height` lines at most."""
    head = [paint(text, "bold") for text in wrapped(f"retrace: {_headline(seen)}", width, 9)]
    now = list(_now(seen, width, paint))
    steps: list[str] = []
    if seen.plan is not None:
        steps = list(block(seen.view, seen.plan, width, paint))
    room = height - len(head) - len(now)
    shown = ["", *steps] if steps and len(steps) < room else []
    room -= len(shown)
    latest = list(_latest(seen, width, min(_MOST_LATEST, room - 2), paint))
    return [*head, *now, *latest, *shown][:height]


def status(seen: Seen, width: int) -> str:
    """One line for the foot of a terminal; what does not fit is left out, the last first."""
    parts = [count(seen.misses, "miss", "misses") + f", {seconds(seen.spent)}"]
    if seen.underway:
        parts.insert(0, _told(seen, *seen.underway[0], brief=True))
        if len(seen.underway) > 1:
            parts[0] += f", {len(seen.underway) - 1:,} more"
    if seen.plan is not None and (worth := [s for s in seen.plan.steps if s.worth]):
        what, at, *_ = step_cells(seen.view, worth[0], title(worth[0].proposal))
        parts.append(f"first: {what}" + (f", {at}" if at else ""))
    said = ""
    for part in parts:
        more = f"{said}  |  {part}" if said else f"retrace: {part}"
        if cells(more) < width:
            said = more
    return said or "retrace: "


def rows(view: View, verdicts: Iterable[Verdict], width: int) -> Iterator[list[str]]:
    """The lines of each miss that is told by itself, and of the eager operations between."""
    eager: list[Verdict] = []
    for verdict in verdicts:
        if view.enclosing(verdict.miss) is not None:
            continue
        if verdict.cause is Cause.EAGER_OP:
            eager.append(verdict)
            continue
        if eager:
            yield wrapped(_eager(view, eager), width, 21)
            eager = []
        yield wrapped(_row(view, verdict), width, 21)
    if eager:
        yield wrapped(_eager(view, eager), width, 21)


def opening(seen: Seen, width: int) -> list[str]:
    """What is followed, for one who reads line after line."""
    runs = seen.view.recording.runs
    processes = f" ({count(len(runs), 'process', 'processes')})" if len(runs) > 1 else ""
    return wrapped(f"retrace: watching {origin(seen.view)}{processes}", width, 9)


def still(seen: Seen, run: Run, one: Underway, width: int) -> list[str]:
    """What is under way and takes long, for one who reads line after line."""
    said = f"{_clock(seen.now)}  {'':>9}  {_told(seen, run, one)}"
    return wrapped(said, width, 21)


def _headline(seen: Seen) -> str:
    said = origin(seen.view) or "a program"
    total = sum(seen.lives.values())
    if total > 1:
        alive = total - seen.lives[Life.ENDED] - seen.lives[Life.GONE]
        said += f", {alive:,} of {count(total, 'process', 'processes')} running"
    missed = f"{count(seen.misses, 'miss', 'misses')}, {seconds(seen.spent)}"
    if not seen.misses:
        missed = "no misses so far"
    if not seen.view.verdicts:
        return f"{said}: {missed}"
    return f"{said}: {missed}; {seen.tally.totals.worth}"


def _now(seen: Seen, width: int, paint: Paint) -> Iterator[str]:
    if not seen.underway:
        for text in wrapped("  now       nothing is being traced or compiled", width, 12):
            yield paint(text, "dim")
        return
    label = "now"
    for run, one in seen.underway[:_MOST_UNDERWAY]:
        for text in wrapped(f"  {label:<10}{_told(seen, run, one)}", width, 12):
            yield paint(text, "warm" if one.is_compiling else "bold")
        label = ""
    if (rest := len(seen.underway) - _MOST_UNDERWAY) > 0:
        yield f"{'':12}and {rest:,} more"


def _told(seen: Seen, run: Run, one: Underway, *, brief: bool = False) -> str:
    """`compiling train_step, train.py:41: 12.4 s, since 14:03:07`."""
    does = "compiling" if one.is_compiling else "tracing or lowering"
    function = one.outer.function
    said = f"{does} {name(function)}"
    if function.file is not None:
        said += f", {place(function.file, function.line, seen.view.bases)}"
    if one.inner is not one.outer:
        said += f", in {name(one.inner.function)}"
    if len(seen.view.recording.runs) > 1:
        said += f", {' '.join(seen.view.process(run.id))}"
    said += f": {_elapsed(max(0.0, seen.now - one.since))}"
    return said if brief else f"{said}, since {_clock(one.since)}"


def _elapsed(spent: float) -> str:
    return f"{spent:.0f} s" if spent < 120 else f"{spent // 60:,.0f} min {spent % 60:02.0f} s"


def _latest(seen: Seen, width: int, most: int, paint: Paint) -> Iterator[str]:
    """The misses that ended last, the last one first."""
    ended = [v for v in seen.view.verdicts if v.miss.in_flight is None]
    ended.sort(key=lambda verdict: verdict.miss.time, reverse=True)
    told: list[str] = []
    for lines in rows(seen.view, ended[:_MOST_LOOKED_AT], width - 2):
        if len(told) + len(lines) > most:
            break
        told += [f"  {text}" for text in lines]
    if told:
        yield ""
        yield paint("latest misses", "dim")
        yield from told


def _row(view: View, verdict: Verdict) -> str:
    miss = verdict.miss
    said = f"{_clock(miss.time)}  {seconds(miss.seconds):>9}  {view.label(miss)}"
    if view.place(miss) not in said:
        said += f", {view.place(miss)}"
    said += f": {verdict.cause.value}"
    named = [change for change in verdict.changes if change.path is not None]
    if verdict.cause is not Cause.FIRST_TRACE and named:
        change = named[0]
        said += f", {clean(change.path or '', 40)} {turned(detail(change), 60)}".rstrip()
        if len(named) > 1:
            said += f", and {count(len(named) - 1, 'more change')}"
    if miss.raised is not None:
        said += f" (raised {clean(miss.raised, 40)})"
    return said


def _eager(view: View, verdicts: Sequence[Verdict]) -> str:
    first = verdicts[0].miss
    spent = seconds(sum(v.miss.seconds for v in verdicts))
    at = dict.fromkeys(view.caused_at(v.miss) for v in verdicts)
    said = count(len(verdicts), "eager operation")
    return f"{_clock(first.time)}  {spent:>9}  {said}: {listed(list(at), 2, 'more line')}"


def _clock(moment: float) -> str:
    # Of whoever looks on, in their own time: nothing of it is kept.
    return datetime.fromtimestamp(moment).astimezone().strftime(_CLOCK)

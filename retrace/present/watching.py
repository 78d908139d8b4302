"""What `retrace watch` shows of a running program, on a screen or line by line."""

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
from retrace.present.plan_titles import title
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import cells, clean, count, listed, name, place, seconds, turned
from retrace.reason.underway import Underway
from retrace.store.following import Life

_MAX_UNDERWAY = 6
_MAX_LATEST = 8
_MAX_SEARCHED = 500
"""Maximum number of recent misses searched for these: most may be eager operations."""
_CLOCK = "%H:%M:%S"


@dataclass(slots=True)
class Seen:
    """A recording as it stands."""

    view: View
    """Explained as far as it was at the last look."""
    tally: Tally
    plan: Plan | None = None
    misses: int = 0
    """All misses so far, explained or not."""
    spent: float = 0.0
    """Seconds of their stages, each counted once."""
    underway: list[tuple[Run, Underway]] = field(default_factory=list[tuple[Run, Underway]])
    lives: Counter[Life] = field(default_factory=Counter[Life])
    """How many processes are running, and how many are not."""
    now: float = 0.0


def screen(seen: Seen, width: int, height: int, paint: Paint = plain) -> list[str]:
    """What a terminal shows, in at most `height` lines."""
    head = [paint(text, "bold") for text in wrapped(f"retrace: {_headline(seen)}", width, 9)]
    now = list(_now(seen, width, paint))
    steps: list[str] = []
    if seen.plan is not None:
        steps = list(block(seen.view, seen.plan, width, paint))
    room = height - len(head) - len(now)
    shown = ["", *steps] if steps and len(steps) < room else []
    room -= len(shown)
    latest = list(_latest(seen, width, min(_MAX_LATEST, room - 2), paint))
    return [*head, *now, *latest, *shown][:height]


def status(seen: Seen, width: int) -> str:
    """One line for the bottom of a terminal; what does not fit is dropped, last part first."""
    parts = [count(seen.misses, "miss", "misses") + f", {seconds(seen.spent)}"]
    if seen.underway:
        parts.insert(0, _activity(seen, *seen.underway[0], brief=True))
        if len(seen.underway) > 1:
            parts[0] += f", {len(seen.underway) - 1:,} more"
    if seen.plan is not None and (worth := [s for s in seen.plan.steps if s.worth]):
        what, at, *_ = step_cells(seen.view, worth[0], title(worth[0].proposal))
        parts.append(f"first: {what}" + (f", {at}" if at else ""))
    text = ""
    for part in parts:
        more = f"{text}  |  {part}" if text else f"retrace: {part}"
        if cells(more) < width:
            text = more
    return text or "retrace: "


def rows(view: View, verdicts: Iterable[Verdict], width: int) -> Iterator[list[str]]:
    """The lines of each miss shown on its own, and of the eager operations in between."""
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
    """What is being watched, for line-by-line output."""
    runs = seen.view.recording.runs
    processes = f" ({count(len(runs), 'process', 'processes')})" if len(runs) > 1 else ""
    return wrapped(f"retrace: watching {origin(seen.view)}{processes}", width, 9)


def still(seen: Seen, run: Run, one: Underway, width: int) -> list[str]:
    """What is under way and takes long, for line-by-line output."""
    text = f"{_clock(seen.now)}  {'':>9}  {_activity(seen, run, one)}"
    return wrapped(text, width, 21)


def _headline(seen: Seen) -> str:
    text = origin(seen.view) or "a program"
    total = sum(seen.lives.values())
    if total > 1:
        alive = total - seen.lives[Life.ENDED] - seen.lives[Life.GONE]
        text += f", {alive:,} of {count(total, 'process', 'processes')} running"
    missed = f"{count(seen.misses, 'miss', 'misses')}, {seconds(seen.spent)}"
    if not seen.misses:
        missed = "no misses so far"
    if not seen.view.verdicts:
        return f"{text}: {missed}"
    return f"{text}: {missed}; {seen.tally.totals.worth}"


def _now(seen: Seen, width: int, paint: Paint) -> Iterator[str]:
    if not seen.underway:
        for text in wrapped("  now       nothing is being traced or compiled", width, 12):
            yield paint(text, "dim")
        return
    label = "now"
    for run, one in seen.underway[:_MAX_UNDERWAY]:
        for text in wrapped(f"  {label:<10}{_activity(seen, run, one)}", width, 12):
            yield paint(text, "warm" if one.is_compiling else "bold")
        label = ""
    if (rest := len(seen.underway) - _MAX_UNDERWAY) > 0:
        yield f"{'':12}and {rest:,} more"


def _activity(seen: Seen, run: Run, one: Underway, *, brief: bool = False) -> str:
    """`compiling train_step, train.py:41: 12.4 s, since 14:03:07`."""
    does = "compiling" if one.is_compiling else "tracing or lowering"
    function = one.outer.function
    text = f"{does} {name(function)}"
    if function.file is not None:
        text += f", {place(function.file, function.line, seen.view.bases)}"
    if one.inner is not one.outer:
        text += f", in {name(one.inner.function)}"
    if len(seen.view.recording.runs) > 1:
        text += f", {' '.join(seen.view.process(run.id))}"
    text += f": {_elapsed(max(0.0, seen.now - one.since))}"
    return text if brief else f"{text}, since {_clock(one.since)}"


def _elapsed(spent: float) -> str:
    return f"{spent:.0f} s" if spent < 120 else f"{spent // 60:,.0f} min {spent % 60:02.0f} s"


def _latest(seen: Seen, width: int, limit: int, paint: Paint) -> Iterator[str]:
    """The misses that ended last, latest first."""
    ended = [v for v in seen.view.verdicts if v.miss.in_flight is None]
    ended.sort(key=lambda verdict: verdict.miss.time, reverse=True)
    texts: list[str] = []
    for lines in rows(seen.view, ended[:_MAX_SEARCHED], width - 2):
        if len(texts) + len(lines) > limit:
            break
        texts += [f"  {text}" for text in lines]
    if texts:
        yield ""
        yield paint("latest misses", "dim")
        yield from texts


def _row(view: View, verdict: Verdict) -> str:
    miss = verdict.miss
    text = f"{_clock(miss.time)}  {seconds(miss.seconds):>9}  {view.label(miss)}"
    if view.place(miss) not in text:
        text += f", {view.place(miss)}"
    text += f": {verdict.cause.value}"
    named = [change for change in verdict.changes if change.path is not None]
    if verdict.cause is not Cause.FIRST_TRACE and named:
        change = named[0]
        text += f", {clean(change.path or '', 40)} {turned(detail(change), 60)}".rstrip()
        if len(named) > 1:
            text += f", and {count(len(named) - 1, 'more change')}"
    if miss.raised is not None:
        text += f" (raised {clean(miss.raised, 40)})"
    return text


def _eager(view: View, verdicts: Sequence[Verdict]) -> str:
    first = verdicts[0].miss
    spent = seconds(sum(v.miss.seconds for v in verdicts))
    at = dict.fromkeys(view.caused_at(v.miss) for v in verdicts)
    text = count(len(verdicts), "eager operation")
    return f"{_clock(first.time)}  {spent:>9}  {text}: {listed(list(at), 2, 'more line')}"


def _clock(moment: float) -> str:
    # In the reader's own time zone; it is not stored.
    return datetime.fromtimestamp(moment).astimezone().strftime(_CLOCK)

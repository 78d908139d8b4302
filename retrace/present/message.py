"""The message: verdict first, then cause, evidence, cost and what to do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from retrace.causes import Cause
from retrace.compare.keys import of_same_paths
from retrace.model import Change, Component, Kind, Miss, Stage, Verdict
from retrace.model.parts import BY_COMPONENT, VALUES
from retrace.model.row import Row
from retrace.present import logged, plan_words, sentences, verdict_detail
from retrace.present.advice import advised
from retrace.present.cards import words
from retrace.present.changes import set_at, sides
from retrace.present.detail import detail
from retrace.present.group import Group
from retrace.present.program import compared, evidence
from retrace.present.view import View
from retrace.present.words import (
    cells,
    clean,
    count,
    cut,
    did,
    listed,
    name,
    operation,
    ordinal,
    place,
    places,
    seconds,
    times,
    turned,
)
from retrace.reason.eager import is_elsewhere
from retrace.regex import regex

_LEAF = (Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE)
_OF_FUNCTION = (Component.FUNCTION, Component.CODE, Component.CLOSURE, Component.DEFAULTS)
_VALUES = (*BY_COMPONENT, Component.SIGNATURE)
_MAX_CHANGES = 4
"""Maximum number of changes listed; the rest are counted."""
_MAX_FIXES = 3
"""Maximum number of kinds of advice on one group."""
_MIN_NAME = 32
"""Names up to this many characters are never shortened."""


class Line(Row):
    """One line of a message: its label, and the cells of its text."""

    label: str
    cells: tuple[str, ...]


class Message(Row):
    """Everything shown about the misses of one function and cause."""

    worth: Literal["yes", "maybe", "no"]
    heading: str
    place: str
    lines: tuple[Line, ...]


def compose(view: View, group: Group) -> Message:
    """The message on a group."""
    texts = heading(view, group), where(view, group), tuple(lines(view, group))
    return Message(group.avoidable, *texts)


def heading(view: View, group: Group, same: str = ", same cause", room: int | None = None) -> str:
    """`train_step traced again (3rd time, avoidable)`.

    Args:
        view: the whole recording.
        group: the misses of one function and cause.
        same: the text after the number of times.
        room: the columns that a long name is cut to; None if it is not cut.
    """
    who = " ".join((name(group.shown.miss.function), *view.around(group.shown.miss.function)))
    if group.cause is Cause.CONTROL_FLOW_RECREATED:
        who += f" of an eager {operation(group.shown.miss)}"
    text = _heading(view, group, who, same)
    if room is not None and (over := cells(text) - room) > 0:
        text = _heading(view, group, cut(who, max(len(who) - over, _MIN_NAME)), same)
    return text


def _heading(view: View, group: Group, who: str, same: str) -> str:
    verdict = group.shown
    miss = verdict.miss
    if miss.derived is not None:
        who = f"{who} ({clean(miss.derived)})"
    if group.cause is Cause.EAGER_OP:
        where = "one line" if group.functions < 2 else f"{group.functions} lines"
        text = f"{count(group.count, 'eager operation')} compiled on {where}"
        return f"{text} ({_worth(group)})"
    if group.cause is Cause.FIRST_TRACE and not verdict.repeat:
        return f"{who} {did(miss, '').replace(' without a trace', '')} for the first time"
    if group.functions > 1:
        who = f"{who} and {count(group.functions - 1, 'more function')} called on one line"
        return f"{who}: {view.did(verdict)} ({times(group.count)}{same}, {_worth(group)})"
    if group.count > 1:
        return f"{who} {view.did(verdict)} ({times(group.count)}{same}, {_worth(group)})"
    # Programs that JAX derived are counted with those of the function: its second is the third.
    nth = "" if miss.derived is not None else f"{ordinal(view.number[miss.id])} time, "
    return f"{who} {view.did(verdict)} ({nth}{_worth(group)})"


def _worth(group: Group) -> str:
    words = {"yes": "avoidable", "maybe": "perhaps avoidable", "no": "not avoidable"}
    strongest = group.avoidable
    if strongest == "no" and group.planned:
        return words["maybe"]
    text = words[strongest]
    sure = group.worths[strongest]
    if strongest != "no" and sure < group.count:
        return f"{sure:,} {text}"
    return text


def lines(view: View, group: Group) -> Iterator[Line]:
    """The lines under the heading."""
    verdict = group.shown
    yield from _because(view, group)
    yield from _reads(verdict)
    if (pattern := verdict.pattern) is not None:
        yield Line("pattern", (sentences.pattern(pattern),))
    if verdict.nearest is not None and group.cause is not Cause.EAGER_OP:
        yield Line("nearest", (_nearest(view, verdict.nearest, verdict.miss),))
        if verdict.miss.said:
            if words := logged.brief(verdict.miss):
                yield Line("JAX says", (words,))
        elif same := _same(verdict):
            yield Line("same", (same,))
    elif group.cause is Cause.EAGER_OP:
        yield Line("made of", (_operations(group),))
        if group.places:
            lined = [(site.file, site.line) for site in group.places]
            yield Line("lines", (places(lined, view.bases),))
    if inner := _inner(group):
        yield Line("nested", (inner,))
    if said_raised := what_raised(group):
        yield Line("raised", (said_raised,))
    yield Line("cost", (_cost(group),))
    if group.cause is not Cause.EAGER_OP and (program := compared(view, group)):
        yield Line("program", (program, *evidence(view, verdict)))
    if only := _only(view, group):
        yield Line("process", (only,))
    for number, text in enumerate(fixes(group)):
        yield Line("" if number else "fix", (clean(text, 1000),))


def fix(group: Group) -> str | None:
    """What to do about a group first, in words, or None if there is no advice."""
    return next(fixes(group), None)


def fixes(group: Group) -> Iterator[str]:
    """What to do about a group, in words: a text for each kind of advice on its misses."""
    own = group.shown.fix
    if group.remedy is not None:
        yield plan_words.sentence(group.remedy)
    elif group.cause is Cause.EAGER_OP:
        if own is not None:
            yield _of_some(group, group.told, advised(own))
    else:
        kinds = dict(group.sums.advised)
        if own is not None:
            yield _of_some(group, kinds.pop((own.code, own.paths))[1], advised(own))
        for other, number in islice(kinds.values(), _MAX_FIXES - 1):
            yield _of_some(group, number, advised(other))
        if (more := len(kinds) + 1 - _MAX_FIXES) > 0:
            yield f"{count(more, 'more kind')} of advice on others."


def _of_some(group: Group, number: int, text: str) -> str:
    return text if number == group.count else f"{number:,} of the {group.count:,}: {text}"


def _because(view: View, group: Group) -> Iterator[Line]:
    verdict = group.shown
    label = "because"
    if group.cause is Cause.UNKNOWN or (group.cause is Cause.FIRST_TRACE and verdict.detail):
        yield Line(label, (sentences.explanation(view, verdict),))
        return
    if (because := words(group.cause).because) is not None:
        detail = clean(verdict_detail.in_words(verdict.detail) or "", 160)
        yield Line(label, (because(detail),))
        label = ""
        if ways := group.sums.other_ways(verdict):
            yield Line("", (ways,))
    elif group.cause is Cause.EAGER_OP and is_elsewhere(verdict):
        return
    elif not verdict.changes:
        if group.cause not in (Cause.FIRST_TRACE, Cause.EAGER_OP):
            yield Line(label, (sentences.explanation(view, verdict),))
        return
    shown = [change for change in verdict.changes if _tells(change, group.cause)]
    arrays: set[str | None] = set()
    for change in shown[:_MAX_CHANGES]:
        yield Line(label, _cells(view, verdict, change, change.path in arrays))
        label = ""
        if change.component in _LEAF:
            arrays.add(change.path)
    if len(shown) > _MAX_CHANGES:
        yield Line("", (f"and {count(len(shown) - _MAX_CHANGES, 'more change')}",))
    if others := group.sums.others(verdict):
        yield Line("", (others,))


def _reads(verdict: Verdict) -> Iterator[Line]:
    """What changed outside the function, one item per line."""
    label = "reads"
    for change in verdict.reads[:_MAX_CHANGES]:
        yield Line(label, (clean(change.path, 40), turned(detail(change), 160)))
        label = ""
    if len(verdict.reads) > _MAX_CHANGES:
        yield Line("", (f"and {count(len(verdict.reads) - _MAX_CHANGES, 'more')}",))


def _tells(change: Change, cause: Cause) -> bool:
    # That the object is new is either the cause itself or irrelevant.
    if change.component in (Component.FUNCTION, Component.PROGRAM):
        return False
    return not (change.component is Component.CODE and cause is Cause.SOURCE_CHANGED)


def _cells(view: View, verdict: Verdict, change: Change, again: bool) -> tuple[str, ...]:
    what = change.component.value.replace("_", " ")
    path = () if change.path is None else (clean(change.path, 40),)
    detail_text = turned(detail(change), 160)
    if change.component in _LEAF and not again:
        old, new = sides(verdict, change)
        text = f"{old} -> {new}"
        extra = (
            () if change.component is Component.DTYPE or detail_text in text else (detail_text,)
        )
        return (what, *path, text, *extra)
    return (what, *path, detail_text, *set_at(view, change))


def _nearest(view: View, nearest: Miss, miss: Miss) -> str:
    text = view.earlier(nearest, miss)
    where = view.called_from(nearest)
    return text if where is None else f"{text}, called from {where}"


_ROOT = regex(r"[^.\[]*")


def _same(verdict: Verdict) -> str:
    """What stayed the same, with arguments by name."""
    key = verdict.miss.key
    changed = {change.component for change in verdict.changes}
    touched = {_argument(change.path) for change in verdict.changes if change.path is not None}
    arguments = Counter(_argument(leaf.path) for leaf in key.leaves)
    if (Component.TREE in changed and not touched) or "" in touched:
        arguments.clear()
    texts = [
        f"{clean(argument, 24)} ({count(leaves, 'array')})" if leaves > 1 else clean(argument, 24)
        for argument, leaves in sorted(arguments.items(), key=lambda item: -item[1])
        if argument not in touched and argument
    ]
    if not touched & set(arguments) and len(texts) > 3:
        texts = [f"all arguments ({count(len(key.leaves), 'array')})"]
    elif len(texts) > 3:
        texts = [*texts[:3], count(len(texts) - 3, "more argument")]
    if touched & set(arguments):
        below = of_same_paths(verdict.nearest or verdict.miss, verdict.miss)
        texts += [words for part, words in _LEAF_WORDS if part not in changed | below]
    texts += [
        words for part, words, held in _other_parts(verdict) if held and part not in changed
    ]
    return ", ".join(texts)


_LEAF_WORDS = ((Component.SHAPE, "shapes"), (Component.DTYPE, "dtypes"))


def _other_parts(verdict: Verdict) -> tuple[tuple[Component, str, bool], ...]:
    key, function = verdict.miss.key, verdict.miss.function
    new = any(change.component in _OF_FUNCTION for change in verdict.changes)
    return (
        *((row.component, row.title, bool(row.of(key))) for row in VALUES),
        (Component.CODE, "code", new and function.code is not None),
        (Component.CLOSURE, "closure", new and bool(function.closure or function.bound)),
        (Component.DEFAULTS, "defaults", new and bool(function.defaults)),
    )


def _argument(path: str | None) -> str:
    found = _ROOT.match(path or "")
    return found[0] if found else ""


def _operations(group: Group, limit: int = 4) -> str:
    texts = [
        f"{what} ({times(number)})" if number > 1 else what
        for what, number in group.sums.operations.most_common()
    ]
    return listed(texts, limit)


def _inner(group: Group) -> str:
    """`6 functions traced inside`."""
    nested, derived = group.sums.nested, group.sums.derived
    texts: list[str] = []
    if nested:
        texts.append(f"{count(len(nested), 'function')} traced inside")
    texts += [count(number, f"{what} program") for what, number in derived.items()]
    return listed(texts)


def raised(view: View, groups: Sequence[Group]) -> list[str]:
    """`bad (train.py:3) raised RuntimeError (4 times)`, for groups without a message."""
    texts: list[str] = []
    for group in groups:
        if what := what_raised(group):
            function = group.shown.miss.function
            at = ", ".join((where(view, group), *view.around(function)))
            texts.append(f"{name(function)} ({at}) raised {what}")
    return texts


def what_raised(group: Group) -> str:
    """`RuntimeError (4 times)`, or an empty string."""
    raised = group.sums.raised
    return listed(
        [f"{what} ({times(number)})" if number > 1 else what for what, number in raised.items()]
    )


def _cost(group: Group) -> str:
    sums = group.sums
    texts = [f"{s.value} {seconds(sums.stages[s])}" for s in Stage if s in sums.stages]
    if sums.after:
        texts.append(f"derived {seconds(sums.after)}")
    if sums.in_flight is not None:
        texts.append(f"killed in its {sums.in_flight.value} stage")
    text = "   ".join(texts) or "nothing measured"
    if (stored := sums.on_disk) == 1:
        text += "   (from the disk cache)"
    elif stored:
        text += f"   (disk cache hit {times(stored)})"
    if group.count > 1 and len(texts) > 1:
        text += f"   all {group.count:,}: {seconds(group.seconds)}"
    return text


def _only(view: View, group: Group) -> str:
    """Which processes it happened in, if not in all."""
    runs = group.sums.runs
    if len(view.missed) < 2 or runs == view.missed.keys():
        return ""
    named = [" ".join(view.process(run.id)) for run in view.recording.runs if run.id in runs]
    return f"only {listed(named)} of {len(view.missed)}"


def where(view: View, group: Group) -> str:
    """The place at the end of the heading."""
    miss = group.shown.miss
    if group.cause is Cause.EAGER_OP or miss.function.kind is Kind.OP:
        return view.caused_at(miss)
    return (view.called_from(miss) if group.functions > 1 else None) or view.place(miss)


def eager_row(view: View, group: Group) -> tuple[str, str, str]:
    """A line's eager operations as table cells: how many, where, which."""
    return str(group.count), cut(where(view, group), 40), _operations(group, 2)


def firsts(view: View, groups: Sequence[Group]) -> list[str]:
    """`predict 0.05 s` for each, with its place if several have the same name."""
    named = Counter(name(group.shown.miss.function) for group in groups)
    texts: list[str] = []
    for group in groups:
        who = name(group.shown.miss.function)
        around = view.around(group.shown.miss.function)
        at = f" ({', '.join((where(view, group), *around))})" if named[who] > 1 else ""
        texts.append(f"{who}{at} {seconds(group.seconds)}")
    return texts


_INTERACTIVE = {"ipykernel_launcher.py": "a notebook", "ipython": "IPython"}


def origin(view: View) -> str:
    """What was run."""
    named: Counter[str] = Counter()
    for run in view.recording.runs:
        program = run.argv[0] if run.argv and run.argv[0] else "python"
        interactive = _INTERACTIVE.get(os.path.basename(program))
        named[interactive or place(program, None, view.bases)] += 1
    return listed([what for what, _ in named.most_common()])

"""What the audits found, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, assert_never

from retrace.model import Reason
from retrace.present.layout import Paint, plain, wrapped
from retrace.present.program import difference_facts
from retrace.present.view import View
from retrace.present.words import clean, count, cut_apart, listed, name, place

if TYPE_CHECKING:
    from retrace.compare.programs import Difference
    from retrace.reason.stale import Audited, Change, Remedy, Stale

_MAX_FUNCTIONS = 20
_MAX_READS = 6
_HEADS = {
    "proved": "OUT OF DATE",
    "each-trace": "ANOTHER PROGRAM AT EACH TRACE",
    "perhaps": "perhaps out of date",
    "not-checked": "not checked",
}
_UNCHECKED = {
    Reason.WRITES: "it writes `{detail}`, so it was not traced again (--audit-all does)",
    Reason.CALLS: "it calls `{detail}`, so it was not traced again (--audit-all does)",
    Reason.THREAD: "it reads `{detail}`, which is set per thread, and another thread traced it",
    Reason.CONTEXT: "it reads `{detail}`, which may differ where it is called",
    Reason.GONE: "what JAX traced no longer exists",
    Reason.CONFIG: "it was traced under another `{detail}`",
    Reason.RAISES: "traced again, it raised {detail}",
    Reason.SLOW: "tracing it again took longer than the limit",
    Reason.TIME: "the audit ran out of time",
    Reason.CONSTANTS: "the arrays that it captured could not be compared",
    Reason.RETURNED: "the static values that it returned could not be compared",
    Reason.KEEPS: "its callback writes `{detail}`, which may be all that differs",
    Reason.HOLDS: "its callback holds a `{detail}`, which could not be compared",
    Reason.RULES: "its custom rule `{detail}` reads it, which matters if it was differentiated",
}


def reason(view: View, one: Stale) -> str:
    """The reason for the verdict, in one sentence."""
    match one.verdict:
        case "proved" if one.returned is not None and _is_same(one.difference):
            return "proved: traced now, it returns something else"
        case "proved":
            return "proved: traced now, it gives a different program"
        case "each-trace":
            phrase = "traced twice now, it gave two different programs"
            if one.sources:
                asked = [
                    f"{clean(s.name, 48)} at {place(s.file, s.line, view.bases)}"
                    for s in one.sources
                ]
                phrase += f": {listed(asked, 3)}"
            return phrase
        case _:
            return _unchecked(one.reason, clean(one.detail, 64))


def _unchecked(why: Reason | None, detail: str) -> str:
    said = None if why is None else _UNCHECKED.get(why)
    return (
        "this JAX does not allow tracing it again" if said is None else said.format(detail=detail)
    )


def when(one: Stale) -> str:
    """Since when, as far as the audits show."""
    if one.verdict not in ("proved", "perhaps"):
        return ""
    phrase = ""
    if one.before is not None:
        phrase = f" since audit {one.since.number} (it was not at audit {one.before.number})"
    elif one.since.number > 1 or one.until is not None:
        phrase = f" at audit {one.since.number}"
    if one.until is not None:
        phrase += f", up to date again at audit {one.until.number}"
    return phrase


def text(view: View, audited: Audited, width: int = 80, paint: Paint = plain) -> Iterator[str]:
    """The section of the report; nothing if there is nothing to report."""
    loud = [one for one in audited.stale if one.verdict != "not-checked"]
    quiet = [one for one in audited.stale if one.verdict == "not-checked"]
    audits = count(audited.audits, "audit")
    programs = count(audited.programs, "program")
    worst = sum(one.verdict == "proved" for one in loud)
    found = f"{worst} proved out of date" if worst else "none proved out of date"
    yield from (
        paint(line, "bold") for line in wrapped(f"{audits} of {programs}: {found}", width, 2)
    )
    if audited.gone:
        # Nothing is claimed about these, and nothing can call them either.
        gone, them = count(audited.gone, "more program"), "it" if audited.gone == 1 else "them"
        yield from wrapped(f"{gone} not checked: JAX no longer has {them}.", width, 2)
    for one in loud[:_MAX_FUNCTIONS]:
        head = f"{name(one.function)}   {view.place(one.miss)}   {_HEADS[one.verdict]}"
        many = f" in {one.programs} programs" if one.programs > 1 else ""
        lines = list(wrapped(f"{head}{when(one)}{many}   ({reason(view, one)})", width, 2))
        yield paint(lines[0], "bold")
        yield from lines[1:]
        for change in one.reads[:_MAX_READS]:
            yield from wrapped(f"  {_change(view, change)}", width, 4)
        if len(one.reads) > _MAX_READS:
            yield f"  and {count(len(one.reads) - _MAX_READS, 'more value')}"
        for fact in _evidence(view, one):
            yield from wrapped(f"  program    {fact}", width, 13)
        if one.fix is not None:
            yield from wrapped(f"  fix        {_advised(one.fix)}", width, 13)
        if one.disturbed:
            changed = listed([f"`{clean(each, 48)}`" for each in one.disturbed], 3)
            yield from wrapped(f"  note       tracing it again changed {changed}", width, 13)
    if len(loud) > _MAX_FUNCTIONS:
        yield f"and {count(len(loud) - _MAX_FUNCTIONS, 'more function')}"
    if audited.harmless:
        values = count(len(audited.harmless), "changed value")
        one = len(audited.harmless) == 1
        leave = "leaves its program unchanged" if one else "leave their programs unchanged"
        named = listed([clean(each, 32) for each in audited.harmless], 4)
        yield from wrapped(f"{values} {leave} ({named}).", width, 2)
    if audited.disturbed:
        named = listed([f"`{clean(each, 32)}`" for each in audited.disturbed], 4)
        yield from wrapped(f"Tracing functions again changed {named}.", width, 2)
    if quiet:
        why: dict[str, int] = {}
        for one in quiet:
            phrase = reason(view, one)
            why[phrase] = why.get(phrase, 0) + 1
        reasons = listed(
            [f"{phrase}" + (f" ({n})" if n > 1 else "") for phrase, n in why.items()], 4
        )
        yield from wrapped(f"{count(len(quiet), 'function')} not checked: {reasons}.", width, 2)


def _change(view: View, change: Change) -> str:
    old, new = cut_apart(clean(change.old_text, 200), clean(change.new_text, 200), 40)
    at = f"   {place(change.file, change.line, view.bases)}" if change.file else ""
    return f"{clean(change.name, 40):<10} {old} when traced -> {new} now{at}"


def data(view: View, audited: Audited | None) -> list[dict[str, Any]]:
    """The `stale` section of a JSON report."""
    if audited is None:
        return []
    return [
        {
            "function": name(one.function),
            "file": one.function.file,
            "line": one.function.line,
            "verdict": one.verdict,
            "reads": [
                {
                    "name": change.name,
                    "old": change.old,
                    "new": change.new,
                    "file": change.file,
                    "line": change.line,
                }
                for change in one.reads
            ],
            "reason": reason(view, one),
            "fix": one.fix and {"code": one.fix.code, "text": _advised(one.fix)},
            "miss": one.miss.id,
            "since": one.since.number,
            "before": one.before and one.before.number,
            "until": one.until and one.until.number,
            "evidence": _evidence(view, one),
        }
        for one in audited.stale
    ]


def _is_same(difference: Difference | None) -> bool:
    return difference is None or difference.kind == "identical"


def _evidence(view: View, one: Stale) -> list[str]:
    facts: list[str] = []
    if one.returned is not None:
        before, now = one.returned
        old, new = cut_apart(clean(before, 200), clean(now, 200), 60)
        facts = [f"returns {new}, not {old}"]
    if one.difference is not None and not (facts and _is_same(one.difference)):
        facts += difference_facts(view, one.difference, ())
    return facts


def _advised(remedy: Remedy) -> str:
    """What to do, in one sentence."""
    who = f"`{clean(remedy.function)}`"
    named = listed([f"`{clean(name, 48)}`" for name in remedy.names], 4)
    match remedy.how:
        case "result":
            what = f"what {named} gives" if remedy.names else "what changes"
            return f"pass {what} to {who} as an argument"
        case "again":
            return f"have {who} traced again after the change: `jax.clear_caches()`"
        case "argument" | "static":
            is_static = remedy.how == "static"
            if len(remedy.names) > 1:
                passed = "static arguments" if is_static else "arguments"
            else:
                passed = "a static argument" if is_static else "an argument"
            instead = ", not as an attribute" if remedy.is_attribute else ""
            return f"pass {named} to {who} as {passed}{instead}"
    assert_never(remedy.how)

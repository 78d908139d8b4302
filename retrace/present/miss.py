"""One miss in full, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from retrace.model import Verdict
from retrace.present import difference, dispatch, logged
from retrace.present.group import Group
from retrace.present.layout import Paint, key, parts, plain, rows, wrapped
from retrace.present.message import Line, compose
from retrace.present.operands import Operands
from retrace.present.sentences import explanation
from retrace.present.view import View
from retrace.present.words import clean, count, place


def show(
    view: View,
    verdict: Verdict,
    *,
    width: int = 80,
    paint: Paint = plain,
    program: bool = False,
) -> str:
    """One miss on one screen, or in full with its whole key and the program difference."""
    group = Group.alone(verdict)
    miss, site = verdict.miss, verdict.miss.call_site
    for other in view.verdicts:
        if other is not verdict and view.root(other.miss) is miss:
            group.fold(other)
    out = list(parts(compose(view, group), width, paint))
    function = miss.function
    known = f"{clean(function.qualname)} ({function.kind.value}), {view.place(miss)}"
    if function.jax_name != function.name:
        known += f"; to JAX it is {clean(function.jax_name)}"
    facts = [Line("explained", (explanation(view, verdict),)), Line("function", (known,))]
    for label, called in (
        ("called", site),
        ("nearest", verdict.nearest and verdict.nearest.call_site),
    ):
        if called:
            at = place(called.file, called.line, view.bases)
            if called.function and not called.function.startswith("<"):
                at += f" in {clean(called.function)}"
            facts.append(Line(label, (f"{at}{' (a library)' if called.in_library else ''}",)))
            if called.source:
                facts.append(Line("", (clean(called.source.strip(), 100),)))
    if miss.parent is not None:
        outer = view.by_id.get(miss.parent)
        within = "after" if miss.derived else "inside the trace of"
        facts.append(
            Line(
                "part of",
                (f"{within} {miss.parent if outer is None else view.label(outer.miss)}",),
            )
        )
    if miss.inner:
        facts.append(
            Line("nested", (f"{count(miss.inner, 'trace')} of functions of jax itself",))
        )
    if (cache := miss.persistent_cache) is not None and cache.outcome != "off":
        why = f" ({clean(cache.reason)})" if cache.reason else ""
        facts.append(
            Line(
                "on disk",
                (f"{cache.outcome}{why}", *([clean(cache.key)] if cache.key else [])),
            )
        )
    facts += [Line(label, (text,)) for label, text in logged.whole(miss)]
    if found := view.slow_dispatch(verdict):
        facts.append(Line("dispatch", (dispatch.said(view, found),)))
    when = datetime.fromtimestamp(miss.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    process = ", ".join(view.process(miss.run))
    facts.append(Line("when", (when, f"thread {clean(miss.thread)}", process)))
    facts.append(Line("id", (miss.id, view.label(miss))))
    out += ["", *rows(facts, width, paint), *key(verdict, width, whole=program)]
    out += _beyond(view, verdict, width, paint, program=program)
    return "\n".join(out) + "\n"


def _beyond(
    view: View, verdict: Verdict, width: int, paint: Paint, *, program: bool
) -> Iterator[str]:
    """What does not fit on one screen, or how to show it."""
    compared = verdict.program
    differs = compared is not None and compared.kind != "identical"
    sides = compared.listings() if compared is not None and differs else None
    if not program:
        what = "the whole key and what differs in the program" if sides else "the whole key"
        yield ""
        phrase = f"add --program to see {what}"
        yield from (paint(text, "dim") for text in wrapped(phrase, width, 2))
    elif sides is not None:
        yield from (
            "",
            "program",
            *difference.lines(view, *sides, width, paint, Operands.of(verdict.miss)),
        )

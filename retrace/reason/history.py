"""What only the whole history of a function shows, and no miss by itself.

A miss is judged as it comes, against the nearest earlier key. Whether a shorter axis was the
end of a data set or one size of many, and which static values share a program, is known when
all have been seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from retrace.causes import Cause
from retrace.model import Change, Component, Fix, Miss, Value, Verdict
from retrace.reason import rules
from retrace.reason.fixes import pad_shape

_MOST_SHOWN = 4
"""Values of one program that are written out."""


def revise(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with the advice that their function's whole history calls for.

    Args:
        verdicts: of one recording, in any order.

    Returns:
        As many, in the same order.
    """
    histories: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, verdict in enumerate(verdicts):
        histories[verdict.miss.run, verdict.miss.function.site].append(index)
    revised = list(verdicts)
    for history in histories.values():
        if len(history) < 2:
            continue
        own = [verdicts[index] for index in history]
        changed = {id(old): new for old, new in (*_steering(own), *_sizes(own))}
        for index in history:
            revised[index] = changed.get(id(verdicts[index]), verdicts[index])
    return revised


def is_partial_batch(verdict: Verdict) -> bool:
    """Whether the end of a data set is all that its advice is about."""
    return verdict.fix is not None and verdict.fix.code == "pad-batch"


def _sizes(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Takes back what was said of a last batch where more than two sizes came.

    Ragged data, finished requests and successive halving become shorter as well.
    """
    by_shape = [v for v in history if v.cause is Cause.SHAPE_CHANGED and v.miss.raised is None]
    told = [verdict for verdict in by_shape if is_partial_batch(verdict)]
    for verdict in told:
        line = _line(verdict.miss)
        sizes = {_turn(other) for other in by_shape if _line(other.miss) == line}
        if len(sizes) > 1:
            yield verdict, replace(verdict, fix=pad_shape(verdict.changes), avoidable="maybe")


def _turn(verdict: Verdict) -> frozenset[str]:
    """From which shapes to which: the end of each epoch, or each restart, is the same again."""
    own = [change for change in verdict.changes if change.component is Component.SHAPE]
    return frozenset(f"{change.path}: {change.old} {change.new}" for change in own)


def _line(miss: Miss) -> object:
    site = miss.call_site
    return None if site is None else (site.file, site.line)


def _steering(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Static values that steer: many values, few programs."""
    by_path: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in history:
        if verdict.cause is Cause.STATIC_ARGUMENT_CHANGED and (path := _only_path(verdict)):
            by_path[path].append(verdict)
    for path, found in by_path.items():
        programs = _programs(path, [v.miss for v in history])
        values = sum(map(len, programs.values()))
        if len(programs) < 2 or values - len(programs) < 2:
            continue
        told = " ".join(f"{{{_some(values)}}}" for values in programs.values())
        name = found[0].miss.function.name
        text = (
            f"`{path}` had {values} values and made {len(programs)} programs, {told}: pass what "
            f"`{name}` decides by it (a bool, say) as the static argument, not `{path}` itself."
        )
        first: set[str] = set()
        for verdict in history:
            program = verdict.miss.program
            seen = program is not None and program.hash in first
            if program is not None:
                first.add(program.hash)
            if verdict in found:
                worth = "yes" if seen else "no"
                yield verdict, replace(verdict, fix=Fix("pass-decision", text), avoidable=worth)


def _only_path(verdict: Verdict) -> str | None:
    """The one static argument that changed, a plain value, if nothing else of the key did."""
    own = rules.in_key(verdict.changes)
    if len(own) != 1 or own[0].component is not Component.STATIC or not _is_plain(own[0]):
        return None
    return own[0].path


def _is_plain(change: Change) -> bool:
    kinds = ("int", "str", "bool", "float")
    sides = (change.old, change.new)
    return all(
        isinstance(side, dict) and cast(dict[str, object], side).get("type") in kinds
        for side in sides
    )


def _programs(path: str, misses: Sequence[Miss]) -> dict[str, list[str]]:
    """The values of a static argument by the program that each made."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for miss in misses:
        value: Value | None = dict(miss.key.static).get(path)
        if value is not None and miss.program is not None and miss.derived is None:
            found[miss.program.hash][value.text] = None
    return {hash_: list(values) for hash_, values in found.items()}


def _some(values: list[str]) -> str:
    more = len(values) - _MOST_SHOWN
    said = ", ".join(value[:20] for value in values[:_MOST_SHOWN])
    return f"{said}, {more} more" if more > 0 else said

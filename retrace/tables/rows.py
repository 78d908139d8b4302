"""Makes the table rows of one process, values in the order of the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from retrace.model import JSON, Run, Stage, Verdict
from retrace.present import verdict_detail
from retrace.present.advice import advised
from retrace.present.changes import json_sides
from retrace.present.detail import detail
from retrace.present.report_json import encode
from retrace.present.sentences import explanation
from retrace.present.view import View

Row: TypeAlias = tuple[Any, ...]

_MAX_MICROSECONDS = 253_402_300_800_000_000
"""The year 10,000: a damaged recording may contain any number."""
_INTEGER_LIMIT = 1 << 63


def run_row(run: Run, misses: int) -> Row:
    """The row of a process."""
    return (
        run.id,
        run.host,
        whole(run.pid),
        whole(run.process_index),
        whole(run.process_count),
        run.job,
        whole(run.attempt),
        time(run.started),
        run.argv,
        run.python,
        run.jax,
        run.jaxlib,
        run.backend,
        run.device_kind,
        whole(run.local_devices),
        run.platform_version,
        run.commit,
        run.dirty,
        run.source,
        list(run.variables.items()),
        [(name, _json(value)) for name, value in run.settings.items()],
        run.complete,
        [(reason, whole(number)) for reason, number in run.losses.items()],
        run.redaction is not None,
        misses,
    )


def miss_rows(view: View, verdicts: Iterable[Verdict]) -> Iterator[Row]:
    """A row for each miss."""
    for verdict in verdicts:
        miss = verdict.miss
        function, site, program, fix = miss.function, miss.call_site, miss.program, verdict.fix
        yield (
            miss.run,
            miss.id,
            miss.number,
            view.label(miss),
            time(miss.time),
            miss.thread,
            function.name,
            function.qualname,
            function.jax_name,
            function.kind.value,
            function.file,
            whole(function.line),
            site and site.file,
            site and whole(site.line),
            site and site.function,
            site and site.in_library,
            miss.parent,
            miss.derived,
            whole(miss.inner),
            *(_seconds(miss.stages.get(stage)) for stage in Stage),
            _seconds(view.own[miss.id]),
            miss.in_flight and miss.in_flight.value,
            miss.raised,
            verdict.cause.value,
            verdict_detail.in_words(verdict.detail),
            verdict.pattern,
            verdict.avoidable,
            verdict.nearest and verdict.nearest.id,
            program and program.hash,
            program and whole(program.equations),
            verdict.program_change,
            explanation(view, verdict),
            fix and fix.code,
            fix and advised(fix),
        )


def change_rows(verdicts: Iterable[Verdict]) -> Iterator[Row]:
    """A row for each change in their keys."""
    for verdict in verdicts:
        miss = verdict.miss
        for position, change in enumerate(verdict.changes):
            yield (
                miss.run,
                miss.id,
                position,
                change.component.value,
                change.path,
                detail(change),
                *map(_json, json_sides(change)),
                change.exact,
            )


class _Program(NamedTuple):
    first: Verdict
    misses: int = 0
    compiles: int = 0
    seconds: float = 0.0


def program_rows(verdicts: Iterable[Verdict]) -> Iterator[Row]:
    """A row for each program."""
    found: dict[str, _Program] = {}
    for verdict in verdicts:
        miss = verdict.miss
        if miss.program is None:
            continue
        first, misses, compiles, spent = found.get(miss.program.hash, _Program(verdict))
        compiled = miss.stages.get(Stage.COMPILE)
        if compiled is not None:
            compiles, spent = compiles + 1, spent + compiled
        found[miss.program.hash] = _Program(first, misses + 1, compiles, spent)
    for first, misses, compiles, spent in found.values():
        miss = first.miss
        assert miss.program is not None
        yield (
            miss.run,
            miss.program.hash,
            miss.program.listing,
            whole(miss.program.equations),
            miss.function.name,
            miss.id,
            misses,
            compiles,
            _seconds(spent) if compiles else None,
        )


def cache_rows(verdicts: Iterable[Verdict]) -> Iterator[Row]:
    """A row for each compilation that used the on-disk cache."""
    for verdict in verdicts:
        miss, cache = verdict.miss, verdict.miss.persistent_cache
        if cache is not None:
            names = [name for name, _ in cache.ingredients]
            yield (
                miss.run,
                miss.id,
                cache.outcome,
                cache.key,
                cache.reason,
                _seconds(cache.saved),
                list(dict(zip(names, cache.own, strict=False)).items()),
            )


def portions(rows: Iterable[Row], size: int) -> Iterator[Sequence[Row]]:
    """Split rows into groups of `size`."""
    portion: list[Row] = []
    for row in rows:
        portion.append(row)
        if len(portion) == size:
            yield portion
            portion = []
    if portion:
        yield portion


def whole(number: int | None) -> int | None:
    """The number if it fits its column, else null (from a damaged recording)."""
    return None if number is None or not -_INTEGER_LIMIT <= number < _INTEGER_LIMIT else number


def time(seconds: float) -> int | None:
    """Microseconds since the epoch."""
    if not isfinite(seconds):
        return None
    micros = round(seconds * 1e6)
    return micros if abs(micros) < _MAX_MICROSECONDS else None


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None or not isfinite(seconds) else float(seconds)


def _json(value: JSON) -> str:
    return encode(value).rstrip()

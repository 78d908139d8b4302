"""The report as JSON: one object, `retrace-report/1`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeAlias, cast

from retrace.causes import Cause
from retrace.model import JSON, Leaf, Miss, Node, Run, Stage, Value, Verdict
from retrace.model.parts import by_kind
from retrace.present import again, dispatch, slow_json, stale, stored, verdict_detail
from retrace.present.advice import advised
from retrace.present.changes import change_fields
from retrace.present.program import evidence
from retrace.present.sentences import explanation
from retrace.present.tally import Rank, Sort, Tally
from retrace.present.view import View

Object: TypeAlias = dict[str, Any]

SCHEMA = "retrace-report/1"
"""The number grows when a field changes its meaning; new fields do not change it."""


def report(
    view: View, verdicts: Sequence[Verdict] | None = None, *, keys: bool = False
) -> Object:
    """The whole report.

    Args:
        view: the whole recording.
        verdicts: the misses to include; None for all.
        keys: whether to include the cache key of each miss.
    """
    included = view.verdicts if verdicts is None else verdicts
    # This comes first because it may meet an unreadable program, which its run then reports.
    misses = [miss_report(view, verdict, keys=keys) for verdict in included]
    return whole(view, Tally.of(view, included), misses)


def whole(view: View, tally: Tally, misses: Sequence[Object]) -> Object:
    """The report with the given miss objects and their totals."""
    fields: Object = {**_head(view, tally), "misses": misses}
    if len(misses) < tally.totals.misses:
        fields["left_off"] = tally.totals.misses - len(misses)
    return fields


def pieces(
    view: View, tally: Tally, verdicts: Iterable[Sequence[Verdict]], *, keys: bool = False
) -> Iterator[str]:
    """The report of a large recording as text, piece by piece.

    Args:
        view: the whole recording.
        tally: the misses to include, summed up.
        verdicts: the same misses, in any number of portions.
        keys: whether to include the cache key of each miss.
    """
    yield f'{{"schema": "{SCHEMA}", "misses": ['
    comma = ""
    for portion in verdicts:
        for verdict in portion:
            yield comma + encode(miss_report(view, verdict, keys=keys))[:-1]
            comma = ", "
    rest = encode(_head(view, tally))
    yield f"], {rest[rest.index(',') + 1 :].lstrip()}"


def first(
    view: View,
    tally: Tally,
    verdicts: Iterable[Sequence[Verdict]],
    sort: Sort,
    most: int,
    *,
    keys: bool = False,
) -> Object:
    """The report with a limited number of misses, first by `sort`; totals cover all.

    Args:
        view: the whole recording.
        tally: the misses to include, summed up.
        verdicts: the same misses, in any number of portions.
        sort: what comes first.
        most: the maximum number of misses.
        keys: whether to include the cache key of each miss.
    """
    found: list[tuple[Rank, Object]] = []
    for portion in verdicts:
        ranks = tally.ranks(portion, sort)
        best = sorted(zip(ranks, portion, strict=True), key=lambda pair: pair[0])[:most]
        # Converted at once, so that a large recording's portion is freed before the next.
        found += [(rank, miss_report(view, one, keys=keys)) for rank, one in best]
        found.sort(key=lambda pair: pair[0])
        del found[most:]
    return whole(view, tally, [fields for _, fields in found])


def _head(view: View, tally: Tally) -> Object:
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in view.recording.runs],
        "summary": _summary(view, tally),
        # Null if all processes did the same, or if there is only one.
        "divergence": None if view.hosts is None or view.hosts.found.equal else view.hosts.json(),
        "functions": [
            {
                "name": row.function.name,
                "file": row.function.file,
                "line": row.function.line,
                "kind": row.function.kind.value,
                "misses": row.misses,
                "first_traces": row.first_traces,
                "seconds": row.seconds,
                "causes": row.causes,
            }
            for row in sorted(tally.functions.values(), key=lambda row: -row.seconds)
        ],
        "stale": stale.data(view, view.audited),
        "compiled_again": again.data(tally.again.programs()),
        "differ_by_constants": again.alone(tally.again.families(view.recording.listings)),
        # The slowest misses, as in `retrace slow`.
        "slow": slow_json.slowest(view),
        # With `--slow`: programs that have three executables or more.
        "duplicates": slow_json.duplicates(view),
    }


def encode(fields: JSON | Object) -> str:
    """One line of JSON, in ASCII.

    Names may contain lone surrogates, which cannot be encoded and many readers refuse: they are
    replaced by U+FFFD.
    """
    try:
        text = json.dumps(fields, allow_nan=False)
    except ValueError:  # rare, and the walk costs as much as encoding
        text = json.dumps(_finite(fields), allow_nan=False)
    if "\\ud" in text:
        text = _ESCAPED.sub(_whole, text)
    # GitHub obeys `##[error]` anywhere in a log; in JSON it can only occur in a string.
    return text.replace("##[", "#\\u0023[") + "\n"


_ESCAPED = re.compile(r"\\ud[89ab]..\\ud[c-f]..|\\u....|\\.")


def _whole(escaped: re.Match[str]) -> str:
    text = escaped[0]
    return r"\ufffd" if len(text) == 6 and "d800" <= text[2:] <= "dfff" else text


def miss_report(view: View, verdict: Verdict, *, keys: bool = False) -> Object:
    """One miss, as in the report."""
    miss, nearest = verdict.miss, verdict.nearest
    function, site, cache, program = (
        miss.function,
        miss.call_site,
        miss.persistent_cache,
        miss.program,
    )
    fields: Object = {
        "id": miss.id,
        "label": view.label(miss),
        "run": miss.run,
        "time": moment(miss.time),
        "function": {
            "name": function.name,
            "jax_name": function.jax_name,
            "qualname": function.qualname,
            "file": function.file,
            "line": function.line,
            "kind": function.kind.value,
        },
        "call_site": site
        and {
            "file": site.file,
            "line": site.line,
            "function": site.function,
            "source": site.source,
            "library": site.in_library,
        },
        "parent": miss.parent,
        # Under an eager transform, a traced call runs its own program.
        "derived": None if _is_own(miss) else miss.derived,
        "inner": miss.inner,
        "calls": miss.calls,
        "thread": miss.thread,
        "stages": {stage.value: miss.stages.get(stage) for stage in Stage},
        "in_flight": miss.in_flight and miss.in_flight.value,
        "raised": miss.raised,
        "persistent_cache": cache
        and {"outcome": cache.outcome, "key": cache.key, "reason": cache.reason},
        "cause": verdict.cause.value,
        "detail": verdict_detail.in_words(verdict.detail),
        "said": [{"by": who, "text": text} for who, text in miss.said],
        "pattern": verdict.pattern,
        "nearest": nearest and nearest.id,
        "changes": list(map(change_fields, verdict.changes)),
        # What a function read is not part of the key.
        "reads": [
            {
                name: content
                for name, content in change_fields(change).items()
                if name != "component"
            }
            for change in verdict.reads
        ],
        "program": program
        and {
            "hash": program.hash,
            "equations": program.equations,
            "change": verdict.program_change,
            "evidence": evidence(view, verdict),
        },
        "avoidable": verdict.avoidable,
        "explanation": explanation(view, verdict),
        "fix": verdict.fix and {"code": verdict.fix.code, "text": advised(verdict.fix)},
        "findings": [
            {
                "code": "slow-dispatch",
                "primitive": found.primitive,
                "file": found.file,
                "line": found.line,
                "text": dispatch.said(view, [found]),
            }
            for found in view.slow_dispatch(verdict)
        ],
    }
    if program is None:
        fields["program"] = {
            "hash": None,
            "equations": None,
            "change": verdict.program_change,
            "evidence": [],
        }
    if keys:
        fields["key"] = _key(miss)
    return fields


def show(view: View, verdict: Verdict) -> Object:
    """One miss with its key, and the closest key to compare it with."""
    # The schema comes first: it identifies retrace's own files.
    fields: Object = {"schema": SCHEMA, **miss_report(view, verdict, keys=True)}
    fields["nearest_key"] = verdict.nearest and _key(verdict.nearest)
    nearest = verdict.nearest and view.by_id.get(verdict.nearest.id)
    fields["nearest_call_site"] = nearest and miss_report(view, nearest)["call_site"]
    return fields


def _is_own(miss: Miss) -> bool:
    return Stage.TRACE in miss.stages and miss.derived in ("forward", "jvp", "batched")


def moment(at: float) -> str:
    """Seconds since the epoch in ISO 8601."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00Z"  # a damaged recording may hold any number


def _run(run: Run) -> Object:
    return {
        "id": run.id,
        "host": run.host,
        "pid": run.pid,
        "process_index": run.process_index,
        "started": moment(run.started),
        "argv": run.argv,
        "python": run.python,
        "jax": run.jax,
        "jaxlib": run.jaxlib,
        "backend": run.backend,
        "job": run.job,
        "attempt": run.attempt,
        "process_count": run.process_count,
        "source": run.source,
        "complete": run.complete,
        "losses": run.losses,
    }


def _summary(view: View, tally: Tally) -> Object:
    total = tally.totals
    return {
        "misses": total.misses,
        "traces": total.ran[Stage.TRACE],
        "lowerings": total.ran[Stage.LOWER],
        "compiles": total.ran[Stage.COMPILE],
        "seconds": {stage.value: total.seconds[stage] for stage in Stage},
        "avoidable": {"misses": total.avoidable, "seconds": total.avoidable_seconds},
        "persistent_cache": {
            **stored.to_json(total.disk),
            "unserved": [] if view.hosts is None else view.hosts.json()["disk_cache"],
        },
        "by_cause": {
            cause.value: {"misses": row.misses, "seconds": row.seconds}
            for cause in Cause
            if (row := tally.causes.get(cause)) is not None
        },
    }


def _key(miss: Miss) -> Object:
    return {
        "function": {
            "object": miss.function.object,
            "site": miss.function.site,
            "code": miss.function.code,
            "closure": _values(miss.function.closure),
            "defaults": _values(miss.function.defaults),
            "bound": _values(miss.function.bound),
            "wrappers": list(miss.function.wrappers),
            "decorators": list(miss.function.decorators),
            "around": list(miss.function.around),
            "reads": _values(miss.function.reads),
        },
        **by_kind(
            miss.key,
            arrays=lambda leaves: list(map(_leaf, leaves)),
            containers=lambda tree: list(map(_node, tree)),
            values=lambda _, values: _values(values),
            words=dict,
        ),
    }


def _node(node: Node) -> Object:
    return {
        "path": node.path,
        "type": node.type,
        "children": list(node.children),
        "meta": _values(node.meta),
    }


def _leaf(leaf: Leaf) -> Object:
    return {
        "path": leaf.path,
        "shape": list(leaf.shape),
        "dtype": leaf.dtype,
        "weak_type": leaf.weak_type,
        "sharding": leaf.sharding,
        "committed": leaf.committed,
        "memory_kind": leaf.memory_kind,
        "layout": leaf.layout,
    }


def _values(values: Iterable[tuple[str, Value]]) -> Object:
    return {
        name: {
            "type": value.type,
            "text": value.text,
            "token": value.token,
            "exact": value.exact,
            "data": value.data,
        }
        for name, value in values
    }


def _finite(value: Any) -> Any:
    """The value without NaN and infinities, which JSON does not have."""
    if isinstance(value, float) and not isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in cast(Object, value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast(list[Any], value)]
    return value

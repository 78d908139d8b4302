"""Exports misses to OpenTelemetry as spans, counters and histograms."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Any

from retrace.following.callback import Following, on_miss
from retrace.inside.explained import ExplainedMiss
from retrace.metrics.labels import Labels, package, stages

_NAME = "retrace"
_MAX_SPANS = 1000
"""Maximum number of spans remembered as parents of later ones."""


def opentelemetry(*, tracer_provider: Any = None, meter_provider: Any = None) -> Following:
    """Report each miss from now on to OpenTelemetry.

    Each miss is a span with its cause and explanation, nested in the span of its enclosing
    miss; `retrace.misses` counts misses by function, cause and avoidability;
    `retrace.stage.duration` is a histogram of seconds by stage, function and cause.

    Args:
        tracer_provider: where spans go (default: the program's provider).
        meter_provider: where metrics go (default: the program's provider).

    Returns:
        The result of `on_miss`: `stop()` ends it.

    Raises:
        UsageError: OpenTelemetry is not installed.
    """
    return on_miss(_Exporter(tracer_provider, meter_provider))


class _Exporter:
    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        self._trace = package("opentelemetry.trace", "otel")
        metrics = package("opentelemetry.metrics", "otel")
        self._tracer = self._trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._misses = meter.create_counter(
            "retrace.misses", unit="{miss}", description="calls that JAX traced or compiled"
        )
        self._durations = meter.create_histogram(
            "retrace.stage.duration", unit="s", description="seconds of tracing and compiling"
        )
        self._labels = Labels()
        self._spans: OrderedDict[str, Any] = OrderedDict()

    def __call__(self, miss: ExplainedMiss) -> None:
        function = self._labels.function(miss)
        labels = {"function": function, "cause": miss["cause"]}
        self._misses.add(1, {**labels, "avoidable": miss["avoidable"]})
        for stage, spent in stages(miss).items():
            self._durations.record(spent, {**labels, "stage": stage})
        self._span(miss, function)

    def _span(self, miss: ExplainedMiss, function: str) -> None:
        begun = datetime.fromisoformat(miss["time"]).timestamp()
        spent = sum(seconds or 0.0 for seconds in miss["stages"].values())
        outer = self._spans.get(miss["parent"])
        context = None if outer is None else self._trace.set_span_in_context(outer)
        span = self._tracer.start_span(
            f"miss {function}",
            context=context,
            start_time=round(begun * 1e9),
            attributes=dict(_attributes(miss)),
        )
        if miss["raised"] is not None:
            span.set_status(self._trace.StatusCode.ERROR, miss["raised"])
        span.end(end_time=round((begun + spent) * 1e9))
        self._spans[miss["id"]] = span
        if len(self._spans) > _MAX_SPANS:
            self._spans.popitem(last=False)


def _attributes(miss: ExplainedMiss) -> Any:
    function, site = miss["function"], miss["call_site"]
    known: dict[str, Any] = {
        "retrace.miss": miss["id"],
        "retrace.cause": miss["cause"],
        "retrace.avoidable": miss["avoidable"],
        "retrace.explanation": miss["explanation"],
        "retrace.called_from": site and f"{site['file']}:{site['line']}",
        "code.function.name": function["qualname"],
        "code.file.path": function["file"],
        "code.line.number": function["line"],
        **{f"retrace.{stage}": spent for stage, spent in miss["stages"].items()},
    }
    for name, value in known.items():
        if isinstance(value, str):
            yield name, value.encode(errors="replace").decode()
        elif value is not None:
            yield name, value

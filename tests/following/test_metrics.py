"""The metrics of a program's misses in OpenTelemetry and Prometheus."""

from __future__ import annotations

import re
import sys
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

import jax as _jax
import numpy as np
import pytest

import retrace
from retrace.errors import UsageError
from retrace.metrics import labels

jax: Any = _jax
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def run_program() -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return x * 2

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x).sum()

    for size in (2, 3):
        outer(np.ones(size, np.float32))
    with pytest.raises(TypeError):
        outer("text")


def test_opentelemetry_gets_spans_and_metrics() -> None:
    trace: Any = import_module("opentelemetry.sdk.trace")
    exported: Any = import_module("opentelemetry.sdk.trace.export")
    kept: Any = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    measured: Any = import_module("opentelemetry.sdk.metrics")
    reading: Any = import_module("opentelemetry.sdk.metrics.export")
    spans, reader = kept.InMemorySpanExporter(), reading.InMemoryMetricReader()
    tracers = trace.TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(exported.SimpleSpanProcessor(spans))
    meters = measured.MeterProvider([reader], shutdown_on_exit=False)
    following = retrace.metrics.opentelemetry(tracer_provider=tracers, meter_provider=meters)
    with retrace.recording() as recorded, following:
        run_program()
    assert following.failed == 0
    found = {
        span.attributes["retrace.miss"].split("-")[1]: span for span in spans.get_finished_spans()
    }
    misses = {miss.id.split("-")[1]: miss for miss in recorded.misses}
    assert found.keys() == misses.keys() != set()
    for number, miss in misses.items():
        span = found[number]
        assert span.attributes["retrace.cause"] == miss.cause
        assert span.attributes["code.function.name"] == miss.function.qualname
        spent = sum(seconds or 0.0 for seconds in miss["stages"].values())
        assert span.end_time - span.start_time == pytest.approx(spent * 1e9, abs=2000)
        assert span.status.is_ok == (miss.raised is None)
        if miss.parent is None:
            assert span.parent is None
        else:
            assert span.parent.span_id == found[miss.parent.split("-")[1]].context.span_id
    data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    points = {metric.name: metric.data.data_points for metric in data}
    counted = {
        (point.attributes["function"], point.attributes["cause"]): point.value
        for point in points["retrace.misses"]
    }
    assert sum(counted.values()) == len(misses)
    assert counted["outer", "shape-changed"] == 1
    seconds = sum(point.sum for point in points["retrace.stage.duration"])
    outermost = [miss for miss in recorded.misses if miss.parent is None]
    # Each second counts once: those of `inner` are not added again.
    assert seconds == pytest.approx(
        sum(spent or 0.0 for miss in outermost for spent in miss["stages"].values())
    )


def test_prometheus_has_an_endpoint_and_a_file(tmp_path: Path) -> None:
    client: Any = import_module("prometheus_client")
    registry = client.CollectorRegistry()
    file = tmp_path / "retrace.prom"
    with retrace.metrics.prometheus(textfile=file, registry=registry) as following:
        run_program()
    assert following.failed == 0
    said = file.read_text()
    counted = re.findall(
        r'^retrace_misses_total\{.*cause="([^"]+)".*\} (.+)$', said, re.MULTILINE
    )
    assert sum(float(number) for _, number in counted) == following.handed > 3
    assert "retrace_stage_seconds_bucket{" in said
    assert not list(tmp_path.glob("*.prom.*"))
    with pytest.raises(UsageError, match="cannot write metrics"):
        retrace.metrics.prometheus(
            textfile=tmp_path / "no" / "x.prom", registry=client.CollectorRegistry()
        )


def test_the_number_of_series_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_MAX_FUNCTIONS", 2)
    known = labels.Labels()
    misses: list[Any] = [{"function": {"name": name}} for name in ("a", "b", "c", "a", "\ud800")]
    assert [known.function(miss) for miss in misses] == [
        "a",
        "b",
        labels.OTHER,
        "a",
        labels.OTHER,
    ]


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("opentelemetry", "opentelemetry.trace", "otel"),
        ("prometheus", "prometheus_client", "prometheus"),
    ],
)
def test_a_missing_package_is_named(
    name: str, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=re.escape(f"retrace-jax[{extra}]")):
        getattr(retrace.metrics, name)()


def test_the_endpoint_answers() -> None:
    client: Any = import_module("prometheus_client")
    registry = client.CollectorRegistry()
    server: Any
    server, thread = client.start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with retrace.metrics.prometheus(registry=registry):
            run_program()
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"retrace_misses_total{" in answer.read()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


PACKAGES = ("tensorboardX", "wandb", "mlflow", "keras")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
RECIPES = {package: text for package in PACKAGES for text in EXAMPLES if package in text}


def test_the_docs_have_recipes() -> None:
    assert tuple(RECIPES) == PACKAGES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", PACKAGES)
def test_the_recipes_run(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    exec(RECIPES[package], known)
    if package == "keras":
        callback = known["Misses"]()
        callback.on_train_begin()
        following = callback.following
    else:
        following = known["following"]
    run_program()
    assert following.stop(timeout=60)
    assert following.handed and not following.failed

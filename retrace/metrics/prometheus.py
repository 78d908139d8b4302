"""Exports misses to Prometheus, by an endpoint or a file for the textfile collector."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from retrace.errors import UsageError
from retrace.following.callback import Following, on_miss
from retrace.inside.explained import ExplainedMiss
from retrace.metrics.labels import Labels, package, stages

_INTERVAL = 1.0
"""Minimum number of seconds between writes of the file."""


def prometheus(
    *,
    port: int | None = None,
    textfile: str | os.PathLike[str] | None = None,
    registry: Any = None,
) -> Following:
    """Count each miss from now on for Prometheus.

    `retrace_misses_total` counts misses by function, cause and avoidability;
    `retrace_stage_seconds` is a histogram by stage, function and cause.

    Args:
        port: serve the metrics on this port, from a thread of `prometheus_client`.
        textfile: write them to this file, at most once a second and at the end.
        registry: where they are registered (default: the program's registry).

    Returns:
        The result of `on_miss`: `stop()` ends it.

    Raises:
        UsageError: `prometheus_client` is not installed, or the file cannot be written.
    """
    client = package("prometheus_client", "prometheus")
    exporter = _Exporter(client, client.REGISTRY if registry is None else registry, textfile)
    if port is not None:
        client.start_http_server(port, registry=exporter.registry)
    return on_miss(exporter, at_end=exporter.write)


class _Exporter:
    def __init__(
        self, client: Any, registry: Any, textfile: str | os.PathLike[str] | None
    ) -> None:
        self._client = client
        self.registry = registry
        self._path = None if textfile is None else Path(textfile).absolute()
        self._written = 0.0
        self._labels = Labels()
        self._misses = client.Counter(
            "retrace_misses",
            "Calls that JAX traced, lowered or compiled.",
            ["function", "cause", "avoidable"],
            registry=registry,
        )
        self._seconds = client.Histogram(
            "retrace_stage_seconds",
            "Seconds of tracing, lowering and compiling.",
            ["stage", "function", "cause"],
            buckets=(0.001, 0.01, 0.1, 1, 10, 60, 600, 3600),
            registry=registry,
        )
        try:
            self.write()
        except OSError as error:
            raise UsageError(
                f"cannot write metrics to {textfile}: {error.strerror}; name another file"
            ) from None

    def __call__(self, miss: ExplainedMiss) -> None:
        function, cause = self._labels.function(miss), miss["cause"]
        self._misses.labels(function, cause, miss["avoidable"]).inc()
        for stage, spent in stages(miss).items():
            self._seconds.labels(stage, function, cause).observe(spent)
        if time.monotonic() - self._written > _INTERVAL:
            self.write()

    def write(self) -> None:
        """Update the file, if there is one."""
        self._written = time.monotonic()
        if self._path is not None:
            self._client.write_to_textfile(str(self._path), self.registry)

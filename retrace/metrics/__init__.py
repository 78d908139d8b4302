"""Misses as metrics of a running program, for OpenTelemetry and Prometheus.

Both are callbacks of `retrace.on_miss`: they run on its thread and return its `Following`.
"""

from __future__ import annotations

from retrace.metrics.opentelemetry import opentelemetry
from retrace.metrics.prometheus import prometheus

__all__ = ["opentelemetry", "prometheus"]

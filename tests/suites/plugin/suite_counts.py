"""Writes what each test of a suite came to, and what JAX itself counted meanwhile.

A pytest plugin (`-p suite_counts`) that is loaded in both runs and knows nothing of
retrace. SUITE_COUNTS names the file: one line of JSON for each test, written as soon
as it is over.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Generator
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, cast

import jax
import pytest
import suite_arrays
from jax._src import util

_FOLDER = os.path.dirname(jax.__file__) + os.sep
_STAGES = {
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
_TRACES = ("trace_to_jaxpr", "create_pjit_jaxpr")
_TRACERS = ("trace_to_jaxpr_nocache", "trace_to_jaxpr", "_create_pjit_jaxpr")
_SOURCE = re.compile(r".* at (.+):(\d+)")
_VARYING = re.compile(
    r"0x[0-9a-f]+|\bid=\d+|\d{9,}|pytest-of-\S+|/tmp/\S+|\d+(\.\d+)?( ?[mun]?s\b| seconds)"
)


class _Counts:
    """What was seen since the last line."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.names: Counter[str] = Counter()
        self.outcomes: list[list[Any]] = []
        self.warnings: list[str] = []
        self.began = time.time()

    def line(self, test: str) -> str:
        return json.dumps(
            {
                "test": test,
                "began": self.began,
                "ended": time.time(),
                "events": self.events,
                "names": self.names,
                "outcomes": self.outcomes,
                "warnings": self.warnings,
                "arrays": suite_arrays.digests,
            }
        )


_now = _Counts()


def _write(test: str) -> None:
    global _now
    with open(os.environ["SUITE_COUNTS"], "a", encoding="utf-8") as file:
        file.write(f"{_now.line(test)}\n")
    _now = _Counts()
    suite_arrays.digests.clear()


def _count(kind: str, name: object) -> None:
    _now.events[kind] += 1
    _now.names[f"{kind}: {name}"] += 1


def _on_duration(event: str, duration_secs: float, **metadata: object) -> None:
    if (stage := _STAGES.get(event)) is not None:
        _count(stage, str(metadata.get("fun_name")).removeprefix("jit(").removesuffix(")"))


def _on_event(event: str, **metadata: object) -> None:
    if event.startswith("/jax/compilation_cache/"):
        _now.events[event.rpartition("/")[2]] += 1


_slot = cast(Callable[..., None] | None, cast(Any, util).test_event_listener)


def _on_test_event(name: str, *args: Any) -> None:
    if name in _TRACES:
        kind, function = _traced(inspect.currentframe())
        _count(kind, function)
    if _slot is not None:
        _slot(name, *args)


def _traced(frame: FrameType | None) -> tuple[str, str]:
    """What is traced, in JAX's own words, and whose it is."""
    while frame is not None and frame.f_code.co_name not in _TRACERS:
        frame = frame.f_back
    if frame is None:
        return "trace of nobody", "?"
    local = frame.f_locals
    function = local.get("fun")
    function = getattr(function, "f", function)
    info = local.get("debug_info") or getattr(local.get("fun"), "debug_info", None)
    name = str(getattr(info, "func_src_info", "?"))
    if getattr(info, "traced_for", None) != "jit":
        return "trace of a body", name
    code = _code(function)
    if code is None or not code.co_filename.startswith(_FOLDER):
        return "trace", name
    source = _SOURCE.fullmatch(name)
    if source is None or source[1] != code.co_filename or int(source[2]) != code.co_firstlineno:
        # JAX's own function, such as a transposition, under the name of what it was made from.
        return "trace of a derived program", name
    return "trace of JAX's", name


def _code(function: Any) -> CodeType | None:
    while function is not None:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(function, MethodType | FunctionType):
            return function.__code__
        else:
            kind: Any = cast(Any, type(function))
            function = getattr(kind, "__call__", None)  # noqa: B004 - what is called
    return None


jax.monitoring.register_event_duration_secs_listener(_on_duration)
jax.monitoring.register_event_listener(_on_event)
util.test_event_listener = _on_test_event


def _steady(text: str) -> str:
    return _VARYING.sub("...", text)


def _error(report: Any) -> list[str]:
    """The message of a failure and the frames of it that are neither JAX's nor hidden."""
    shown = report.longrepr
    crash = getattr(shown, "reprcrash", None)
    if crash is None:
        return [_steady(str(shown))]
    entries = getattr(getattr(shown, "reprtraceback", None), "reprentries", ())
    places = [getattr(entry, "reprfileloc", None) for entry in entries]
    return [_steady(crash.message)] + [
        f"{place.path}:{place.lineno}"
        for place in places
        if place is not None and "/jax/_src/" not in str(place.path)
    ]


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _now.outcomes.append(["collect", report.nodeid, *_error(report)])


def pytest_collection_finish(session: pytest.Session) -> None:
    suite_arrays.watch({str(item.path) for item in session.items})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    # What was counted before belongs to collection, or to fixtures taken down late.
    _write(f"before {item.nodeid}")
    try:
        return (yield)
    finally:
        _write(item.nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        error = _error(report) if report.longrepr else []
        _now.outcomes.append([report.when, report.outcome, *error])


def pytest_warning_recorded(warning_message: Any) -> None:
    kind = warning_message.category.__name__
    _now.warnings.append(f"{kind}: {_steady(str(warning_message.message))}")


def pytest_unconfigure() -> None:
    _write("after all")

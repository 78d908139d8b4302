"""Labels of metrics, with few enough values for any metrics database."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from retrace.errors import UsageError
from retrace.inside.explained import ExplainedMiss

OTHER = "(other)"
_MAX_FUNCTIONS = 200
"""Each name is a separate series; functions beyond this many share one."""


class Labels:
    """Function names, up to a limit."""

    def __init__(self) -> None:
        self._functions: set[str] = set()

    def function(self, miss: ExplainedMiss) -> str:
        """The label for a miss's function."""
        name: str = miss["function"]["name"].encode(errors="replace").decode()
        if name not in self._functions:
            if len(self._functions) >= _MAX_FUNCTIONS:
                return OTHER
            self._functions.add(name)
        return name


def stages(miss: ExplainedMiss) -> dict[str, float]:
    """Seconds of each stage; empty for a nested miss, so that each second is counted once."""
    if miss["parent"] is not None and miss["derived"] is None:
        return {}
    return {stage: spent for stage, spent in miss["stages"].items() if spent is not None}


def package(name: str, extra: str) -> Any:
    """Import an optional dependency.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed ({error}): run `pip install 'retrace-jax[{extra}]'`"
        ) from None

"""retrace explains why JAX traced and compiled a function again, what it cost, what to change.

    jit                 `jax.jit` that records the misses of its functions
    recording           record everything inside a `with` block or a decorated function
    install, uninstall  record everything in this process
    counts              how often JAX traced, lowered and compiled, for metrics
    misses, explain     the misses so far, as data or as text
    on_miss             pass each miss, explained, to your callback
    metrics             the same for OpenTelemetry and Prometheus
    slow                find the smallest part of a program that is slow to compile
    audit               find compiled programs that no longer match what they read when traced
    assert_max_traces, assert_no_retrace, freeze, policy    keep misses from coming back
    agree               report processes with different programs before XLA waits forever

Importing this package costs almost nothing: each name is loaded when first used.
PYTEST_DONT_REWRITE: under `retrace run -m pytest` this is imported before pytest, which would
warn that it is too late to rewrite a plugin's assertions.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrace.causes import Cause as Cause
    from retrace.errors import RetraceError as RetraceError
    from retrace.errors import RetraceWarning as RetraceWarning
    from retrace.following.callback import on_miss as on_miss
    from retrace.guards.agree import agree as agree
    from retrace.guards.assertions import assert_max_traces as assert_max_traces
    from retrace.guards.assertions import assert_no_retrace as assert_no_retrace
    from retrace.guards.freeze import freeze as freeze
    from retrace.guards.policy import policy as policy
    from retrace.inside.counts import counts as counts
    from retrace.inside.live import explain as explain
    from retrace.inside.live import install as install
    from retrace.inside.live import jit as jit
    from retrace.inside.live import misses as misses
    from retrace.inside.live import recording as recording
    from retrace.inside.live import uninstall as uninstall
    from retrace.inside.slow import slow as slow
    from retrace.inside.stale import audit as audit

__version__ = "0.1.0"

_HOMES = {
    "Cause": "retrace.causes",
    "RetraceError": "retrace.errors",
    "RetraceWarning": "retrace.errors",
    "agree": "retrace.guards.agree",
    "assert_max_traces": "retrace.guards.assertions",
    "assert_no_retrace": "retrace.guards.assertions",
    "audit": "retrace.inside.stale",
    "counts": "retrace.inside.counts",
    "explain": "retrace.inside.live",
    "freeze": "retrace.guards.freeze",
    "install": "retrace.inside.live",
    "jit": "retrace.inside.live",
    # Called by `%load_ext retrace`.
    "load_ipython_extension": "retrace.inside.notebook",
    "misses": "retrace.inside.live",
    "on_miss": "retrace.following.callback",
    "policy": "retrace.guards.policy",
    "recording": "retrace.inside.live",
    "slow": "retrace.inside.slow",
    "uninstall": "retrace.inside.live",
    "unload_ipython_extension": "retrace.inside.notebook",
}

__all__ = [
    "Cause",
    "RetraceError",
    "RetraceWarning",
    "agree",
    "assert_max_traces",
    "assert_no_retrace",
    "audit",
    "counts",
    "explain",
    "freeze",
    "install",
    "jit",
    "misses",
    "on_miss",
    "policy",
    "recording",
    "slow",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    if name == "metrics":
        return import_module("retrace.metrics")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'retrace' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _warn_about_foreign_modules() -> None:
    # `retrace-sdk` on the package index, for example, installs modules into a folder of this
    # name. The last one installed wins, file by file.
    try:
        foreign = sorted(
            name
            for name in os.listdir(os.path.dirname(__file__))
            if name.endswith(".py") and name not in _MODULES
        )
    except OSError:  # in a zip file
        return
    if foreign:
        from retrace.failure import say

        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        say(
            f"retrace: another package has put files into the folder of retrace ({shown}): "
            "`retrace doctor` shows which one"
        )


_MODULES = (
    "__init__.py",
    "__main__.py",
    "apart.py",
    "causes.py",
    "errors.py",
    "failure.py",
    "regex.py",
)
_warn_about_foreign_modules()

# Not if the launcher or its starter loads this: then they record.
if os.environ.get("RETRACE") == "1" and "retrace.command.within" not in sys.modules:
    import_module("retrace.inside.live").install_or_warn()

if os.environ.get("RETRACE_AGREE") and os.environ.get("RETRACE") != "0":
    import_module("retrace.guards.agree").start_from_environment()

if os.environ.get("RETRACE_POLICY") and os.environ.get("RETRACE") != "0":
    import_module("retrace.guards.policy").start_from_environment()

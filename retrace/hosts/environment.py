"""What of their environment is not the same for all processes of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from retrace.hosts.divergence import Setting
from retrace.model import JSON, Run

_MAKES_PROGRAMS = frozenset(("jax", "jaxlib", "backend", "processes", "device", "devices"))
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_OWN = re.compile(
    r"(JAX|TPU|MEGASCALE|NCCL|CLOUD_TPU)_\w*(PROCESS_ID|TASK_ID|WORKER_ID|HOST_BOUNDS|HOSTNAMES?|"
    r"SLICE_ID|PROCESS_(BOUNDS|ADDRESSES|PORT)|VISIBLE_\w+|LOCAL_DEVICE_IDS|BIND_ADDRESS|"
    r"COORDINATOR_\w+|SOCKET_IFNAME|LOG_DIR|LOGS?)"
)
"""Variables that tell a process which one it is."""
_WRITES = re.compile(
    r"--xla_dump\w*|--xla_\w*(log|dump|cache_dir|profile|per_fusion_autotune)\w*|--tpu_log\w*"
)
"""Flags that say where and how much is written."""
_QUIET = re.compile(
    r"jax_(compilation_cache|persistent_cache|dump|log|logging|explain|traceback|include_full|"
    r"raise_persistent|enable_compilation_cache|cpu_get|tpu_profil|profil|captured|"
    r"coordination|process|num_process|distributed|debug_log|hlo_source|bisect)\w*"
)
"""Settings of JAX's that make no other programs."""


def differing(runs: Mapping[int, Run]) -> tuple[Setting, ...]:
    """What is not the same for all, what may make other programs first."""
    found = [*_differing(runs)]
    return tuple(sorted(found, key=lambda one: (not one.matters, one.name)))


def _differing(runs: Mapping[int, Run]) -> Iterator[Setting]:
    told = {process: _told(run) for process, run in runs.items()}
    names = dict.fromkeys(name for own in told.values() for name in own)
    for name in names:
        values = {process: own.get(name) for process, own in told.items()}
        known = [value for value in values.values() if value is not None]
        if name in _ALWAYS_TOLD:
            # A process that stopped early has not said it: that is no difference.
            values = {process: value for process, value in values.items() if value is not None}
        if not known or len({repr(value) for value in values.values()}) < 2:
            continue
        yield Setting(name, values, _matters(name, values))


_ALWAYS_TOLD = frozenset(
    ("jax", "jaxlib", "python", "backend", "processes", "device", "devices", "platform", "commit")
)


def _told(run: Run) -> dict[str, JSON]:
    found: dict[str, JSON] = {
        "jax": run.jax or None,
        "jaxlib": run.jaxlib or None,
        "python": run.python or None,
        "backend": run.backend,
        "processes": run.process_count,
    }
    return found


def _matters(name: str, values: Mapping[int, JSON]) -> bool:
    if name in _FLAGS:
        return len({flags_of(cast(str | None, value)) for value in values.values()}) > 1
    if name.startswith("jax_"):
        return _QUIET.fullmatch(name) is None
    return name in _MAKES_PROGRAMS


def flags_of(text: str | None) -> frozenset[str]:
    """The flags that may make another program of the same code."""
    flags = (text or "").split()
    return frozenset(flag for flag in flags if not _WRITES.fullmatch(flag.partition("=")[0]))

"""Finds settings of the environment that differ between the processes of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from retrace.hosts.divergence import Setting
from retrace.model import JSON, Run

_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_MAKES_PROGRAMS = frozenset(
    ("jax", "jaxlib", "backend", "processes", "device", "platform", *_FLAGS)
)
_OF_PROCESS = re.compile(
    r"(JAX|TPU|MEGASCALE|NCCL|CLOUD_TPU)\w*_(PROCESS\w*|NUM_PROCESSES|TASK_ID|WORKER_\w+|"
    r"HOST\w*|SLICE_ID|VISIBLE_\w+|LOCAL_DEVICE_IDS|\w*ADDRESS(ES)?|PORT|SOCKET_IFNAME|"
    r"\w*LOGS?(_DIR)?|\w*DEBUG\w*)"
)
"""Variables with a process's own index, the addresses of the others, or logging options."""
_WRITES = re.compile(r"--(xla|tpu)_\w*(dump|log|cache_dir|profile|autotune_results)\w*")
"""Flags that only affect what is written, and where."""
_HARMLESS = re.compile(
    r"jax_(compilation_cache|persistent_cache|enable_compilation_cache|dump|log|explain|"
    r"traceback|include_full|raise_persistent|tpu_profil|profil|captured|coordination|"
    r"process|num_processes|distributed|debug_log|hlo_source|cuda_visible|rocm_visible|"
    r"local_device|platforms)\w*"
)
"""JAX settings that do not change programs."""
_HIDDEN = re.compile(r"<redacted [0-9a-f]+>")


def differing(runs: Mapping[int, Run], *, comparable: bool = True) -> tuple[Setting, ...]:
    """The settings that differ, those that may change programs first.

    Args:
        runs: the run of each process.
        comparable: whether hidden values were hidden with the same key.
    """
    sources = [
        ({process: _described(run) for process, run in runs.items()}, False),
        ({process: _variables(run) for process, run in runs.items()}, True),
        (_settings(runs), True),
    ]
    if not comparable:
        sources = [({p: _without_hashes(one) for p, one in by.items()}, a) for by, a in sources]
    found = [one for by, absent in sources for one in _differing(by, absent=absent)]
    return tuple(sorted(found, key=lambda one: (not one.matters, one.name)))


def _differing(sources: Mapping[int, Mapping[str, JSON]], *, absent: bool) -> Iterator[Setting]:
    """What differs; unless `absent`, a missing value is no difference."""
    for name in dict.fromkeys(name for own in sources.values() for name in own):
        values = {process: own.get(name) for process, own in sources.items()}
        if not absent:
            values = {process: value for process, value in values.items() if value is not None}
        if len({repr(value) for value in values.values()}) > 1:
            yield Setting(name, values, _matters(name, values))


def _without_hashes(sources: Mapping[str, JSON]) -> dict[str, JSON]:
    """The values without the hashes of hidden ones, which depend on the key."""
    return {
        name: _HIDDEN.sub("<redacted>", value) if isinstance(value, str) else value
        for name, value in sources.items()
    }


def _described(run: Run) -> dict[str, JSON]:
    commit = None if run.commit is None else run.commit + (" and changes" if run.dirty else "")
    return {
        "jax": run.jax or None,
        "jaxlib": run.jaxlib or None,
        "python": run.python or None,
        "backend": run.backend,
        "processes": run.process_count,
        "devices of its own": run.local_devices,
        "device": run.device_kind,
        "platform": run.platform_version,
        "commit": commit,
    }


def _variables(run: Run) -> dict[str, JSON]:
    return {
        name: value for name, value in run.variables.items() if not _OF_PROCESS.fullmatch(name)
    }


def _settings(runs: Mapping[int, Run]) -> dict[int, Mapping[str, JSON]]:
    # A process that compiled nothing has not recorded them.
    return {process: run.settings for process, run in runs.items() if run.settings}


def _matters(name: str, values: Mapping[int, JSON]) -> bool:
    """Whether it may change the program of the same code."""
    if name in _FLAGS:
        return len({flags_of(value) for value in values.values()}) > 1
    if name.startswith("jax_"):
        return _HARMLESS.fullmatch(name) is None
    return name in _MAKES_PROGRAMS


def flags_of(text: JSON) -> frozenset[str]:
    """The flags that may change the program of the same code."""
    flags = str(text or "").split()
    return frozenset(flag for flag in flags if not _WRITES.fullmatch(flag.partition("=")[0]))

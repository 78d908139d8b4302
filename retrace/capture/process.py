"""Describes this process for the first line of its recording."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrace.capture import on_import
from retrace.capture.commit import Checkout, checkout_of
from retrace.errors import UsageError
from retrace.model import Run
from retrace.store.attempts import Attempt, attempt_of
from retrace.store.place import new_run_id
from retrace.store.sinks import File
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction


FAILED = "the import of jax failed"


def describe(jax: str, jaxlib: str, attempt: Attempt) -> Run:
    """Return the header of a recording of this process. Touches no device.

    Args:
        jax: the version of JAX; empty if it was never imported.
        jaxlib: the version of jaxlib; empty if it was never imported.
        attempt: the attempt that the process belongs to.
    """
    forked = os.getpid() != on_import.PROCESS
    return Run(
        id=new_run_id(),
        host=socket.gethostname(),
        pid=os.getpid(),
        process_index=None,
        started=time.time(),
        argv=list(sys.argv),
        python=platform.python_version(),
        jax=jax,
        jaxlib=jaxlib,
        started_by=None if forked else os.getppid(),
        forked_by=os.getppid() if forked else None,
        daemon_of=_daemon_of(),
        job=attempt.job,
        attempt=attempt.number,
        process_count=attempt.processes,
        variables=_variables(),
        slow_from=slow_from(),
    )


def slow_from() -> float | None:
    """Seconds from which a miss counts as slow, from the environment; None if not asked for."""
    try:
        over = float(os.environ.get("RETRACE_SLOW", ""))
    except ValueError:
        return None
    return over if 0 < over < 1e9 else None


def _daemon_of() -> int | None:
    """The parent that ends this process when it exits, if this is a multiprocessing daemon."""
    module: Any = sys.modules.get("multiprocessing.process")
    if module is None or not module.current_process().daemon:
        return None
    parent = module.parent_process()
    return None if parent is None else parent.pid


_READ_BY_JAX = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "NCCL_")
_MAX_VALUE_LENGTH = 4096
"""Longer values of variables are cut, and a hash of the whole value is added."""


def _variables() -> dict[str, str]:
    """What JAX, XLA, libtpu and NCCL may read from the environment."""
    found: dict[str, str] = {}
    for name in sorted(os.environ):
        if name.startswith(_READ_BY_JAX):
            value = os.environ[name]
            if len(value) > _MAX_VALUE_LENGTH:
                whole = value.encode(errors="surrogateescape")
                digest = blake2b(whole, digest_size=8).hexdigest()
                value = f"{value[:_MAX_VALUE_LENGTH]}... {digest}"
            found[name] = value
    return found


def checkout() -> Checkout | None:
    """The git checkout that this program runs from; None if there is none."""
    try:
        return checkout_of(sys.argv[0] if sys.argv else "", os.getcwd())
    except (OSError, ValueError):  # the working directory no longer exists
        return None


def redaction(run: Run) -> Redaction | None:
    """Return what redacts confidential text, if the environment asks for it."""
    if os.environ.get("RETRACE_REDACT", "0") in ("", "0"):
        return None
    from retrace.store.redaction import Redaction, read_key
    from retrace.store.roots import roots_of

    key = None
    if path := os.environ.get("RETRACE_REDACT_KEY"):
        # Without the file, a fresh key hides as much, but results cannot be compared.
        with suppress(UsageError):
            key = read_key(Path(path))
    return Redaction(roots_of(run.argv), key)


def write_without_jax(directory: Path, *, failed: bool) -> None:
    """Record that this process ran to its end without JAX.

    Args:
        directory: the directory of the recording.
        failed: whether the program tried to import JAX.
    """
    run = describe("", "", attempt_of(directory))
    writer = Writer(File(directory / f"{run.id}.jsonl"), run, None, redaction(run))
    try:
        if failed:
            writer.loss(FAILED)
        writer.end()
    except OSError:
        pass  # readers find no recording, as if none had been requested


_OUTERMOST = ("__main__", "runpy")
_LAUNCHING = "retrace.command"


def uncaught() -> str | None:
    """Type of the uncaught exception that ends the program, from Python's `sys.last_type`.

    pytest and IPython also set it, for tests and cells; those tracebacks begin in their own code.
    """
    kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)
    if not isinstance(kind, type) or trace is None or hasattr(sys, "ps1"):
        return None
    began_in = str(trace.tb_frame.f_globals.get("__name__"))
    return kind.__name__ if began_in in _OUTERMOST or began_in.startswith(_LAUNCHING) else None

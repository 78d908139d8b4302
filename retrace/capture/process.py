"""This process, as the first line of its recording describes it."""

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
    """The header of a recording of this process. Touches no device.

    Args:
        jax: the release of JAX; empty where it was never imported.
        jaxlib: the same.
        attempt: of the recording that it belongs to.
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
    )


def _daemon_of() -> int | None:
    """The process that ends this one with itself: a daemon of multiprocessing."""
    told: Any = sys.modules.get("multiprocessing.process")
    if told is None or not told.current_process().daemon:
        return None
    parent = told.parent_process()
    return None if parent is None else parent.pid


_READ_BY_JAX = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "NCCL_")
_LONGEST = 4096
"""Characters of a variable's value; of a longer one the rest is told by its hash."""


def _variables() -> dict[str, str]:
    """What JAX, XLA, libtpu and NCCL may read from the environment."""
    found: dict[str, str] = {}
    for name in sorted(os.environ):
        if name.startswith(_READ_BY_JAX):
            value = os.environ[name]
            if len(value) > _LONGEST:
                rest = value.encode(errors="surrogateescape")
                value = f"{value[:_LONGEST]}... {blake2b(rest, digest_size=8).hexdigest()}"
            found[name] = value
    return found


def checkout() -> Checkout | None:
    """The checkout of git that this program runs from; None where there is none."""
    try:
        return checkout_of(sys.argv[0] if sys.argv else "", os.getcwd())
    except (OSError, ValueError):  # the folder that it was started in is gone
        return None


def redaction(run: Run) -> Redaction | None:
    """What hides what may not be given away, where the environment asks for it."""
    if os.environ.get("RETRACE_REDACT", "0") in ("", "0"):
        return None
    from retrace.store.redaction import Redaction, read_key
    from retrace.store.roots import roots_of

    key = None
    if path := os.environ.get("RETRACE_REDACT_KEY"):
        # Without the file a key of its own hides as much, and is comparable with nothing.
        with suppress(UsageError):
            key = read_key(Path(path))
    return Redaction(roots_of(run.argv), key)


def write_without_jax(directory: Path, *, failed: bool) -> None:
    """Leave word that this process ran to its end, and that JAX was never there.

    Args:
        directory: of the recording.
        failed: whether its import was tried.
    """
    run = describe("", "", attempt_of(directory))
    writer = Writer(File(directory / f"{run.id}.jsonl"), run, None, redaction(run))
    try:
        if failed:
            writer.loss(FAILED)
        writer.end()
    except OSError:
        pass  # whoever reads finds no recording there, as if nothing had been asked for


_OUTERMOST = ("__main__", "runpy")
_LAUNCHING = "retrace.command"


def uncaught() -> str | None:
    """Type of the exception that ends the program: Python keeps the last one that nobody caught.

    So do pytest and IPython with those of tests and cells, which begin in code of their own.
    """
    kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)
    if not isinstance(kind, type) or trace is None or hasattr(sys, "ps1"):
        return None
    began_in = str(trace.tb_frame.f_globals.get("__name__"))
    return kind.__name__ if began_in in _OUTERMOST or began_in.startswith(_LAUNCHING) else None

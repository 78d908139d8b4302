"""This process, as the first line of its recording describes it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from retrace.capture import arrival
from retrace.model import Run
from retrace.store.place import new_run_id
from retrace.store.sinks import File
from retrace.store.writer import Writer

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction


FAILED = "the import of jax failed"


def describe(jax: str, jaxlib: str) -> Run:
    """The header of a recording of this process. Touches no device.

    Args:
        jax: the release of JAX; empty where it was never imported.
        jaxlib: the same.
    """
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
        started_by=None if os.getpid() != arrival.PROCESS else os.getppid(),
    )


def redaction(run: Run) -> Redaction | None:
    """What hides what may not be given away, where the environment asks for it."""
    if os.environ.get("RETRACE_REDACT", "0") in ("", "0"):
        return None
    from retrace.store.redaction import Redaction
    from retrace.store.roots import roots_of

    return Redaction(roots_of(run.argv))


def write_without_jax(directory: Path) -> None:
    """Leave word that this process ran to its end, and that JAX was never there."""
    run = describe("", "")
    writer = Writer(File(directory / f"{run.id}.jsonl"), run, None, redaction(run))
    try:
        if arrival.has_failed():
            writer.loss(FAILED)
        writer.end()
    except OSError:
        pass  # whoever reads finds no recording there, as if nothing had been asked for

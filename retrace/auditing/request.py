"""Runs an audit of this process and writes it into its recordings."""

from __future__ import annotations

from functools import partial

from retrace.auditing.examination import Examination, Found, Limits
from retrace.capture.session import session
from retrace.failure import contain, send
from retrace.jax_internals.retracing import BusyError
from retrace.model import Audit
from retrace.store.audits import encode_audit

_MAX_KEPT = 1000
history: list[Audit] = []
"""The latest audits of this process."""


def audit(limits: Limits | None = None) -> Found | None:
    """Check every program that JAX keeps in this process, and record the result.

    This runs user functions, so callers must document that.

    Returns:
        The result; None if no audit was possible, for example because another thread is
        running one.
    """
    return contain(_failed, _audit, limits or Limits())


def _audit(limits: Limits) -> Found | None:
    recorder = session().recorder
    misses = getattr(recorder, "misses", None)
    if misses is None:  # this JAX only shows its public events
        return None
    number = history[-1].number + 1 if history else 1
    try:
        found = Examination(misses, limits, number).run("", misses.begun)
    except BusyError:
        return None
    history.append(found.audit)
    del history[:-_MAX_KEPT]
    encode = partial(encode_audit, found.audit, found.functions)
    recorder.journal.audit(encode, found.listings)
    return found


def _failed(error: Exception) -> None:
    send("the audit failed; the program continues", error)

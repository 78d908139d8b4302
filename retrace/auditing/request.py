"""An audit of this process, written into its recordings."""

from __future__ import annotations

from functools import partial

from retrace.auditing.examination import Examination, Found, Limits
from retrace.capture.session import session
from retrace.failure import contain, send
from retrace.jax_internals.anew import BusyError
from retrace.model import Audit
from retrace.store.audits import encode_audit

_MOST_KEPT = 1000
history: list[Audit] = []
"""The audits of this process, the latest ones."""


def audit(limits: Limits | None = None) -> Found | None:
    """Look at every program that JAX keeps of this process, and record what was found.

    It runs functions of the user's: whoever asks for it says so.

    Returns:
        What was found; None where no audit could be made, as while another thread is at one.
    """
    return contain(_failed, _audit, limits or Limits())


def _audit(limits: Limits) -> Found | None:
    recorder = session().recorder
    misses = getattr(recorder, "misses", None)
    if misses is None:  # on a JAX that shows nothing but its public events
        return None
    number = history[-1].number + 1 if history else 1
    try:
        found = Examination(misses, limits, number).run("", misses.begun)
    except BusyError:
        return None
    history.append(found.audit)
    del history[:-_MOST_KEPT]
    encode = partial(encode_audit, found.audit, found.functions)
    recorder.journal.audit(encode, found.listings)
    return found


def _failed(error: Exception) -> None:
    send("the audit failed; the program goes on", error)

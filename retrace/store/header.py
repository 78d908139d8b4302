"""The header of a recording's file: which process it is of, and what became known of it later."""

from __future__ import annotations

from typing import Any

from retrace.model import JSON, Run
from retrace.store.decoded import number as _number
from retrace.store.decoded import seconds as _seconds
from retrace.store.decoded import text as _text
from retrace.store.decoded import text_or_none as _text_or_none


def encode_run(run: Run) -> dict[str, JSON]:
    """The run in the first line of a file; the rest of it follows from later lines."""
    fields: dict[str, JSON] = {
        "id": run.id,
        "host": run.host,
        "pid": run.pid,
        "process_index": run.process_index,
        "started": run.started,
        "argv": run.argv,
        "python": run.python,
        "jax": run.jax,
        "jaxlib": run.jaxlib,
        "backend": run.backend,
        "started_by": run.started_by,
        "job": run.job,
        "attempt": run.attempt,
        "process_count": run.process_count,
        "forked_by": run.forked_by,
        "off_fast_path": run.off_fast_path,
        "redaction": run.redaction,
        "variables": run.variables,
        "commit": run.commit,
    }
    if run.source != "program":
        fields["source"] = run.source
    return fields


def decode_run(fields: Any) -> Run:
    """The run of a header."""
    index, starter = fields["process_index"], fields.get("started_by")
    processes = fields.get("process_count")
    parent = fields.get("forked_by")
    return Run(
        id=_text(fields["id"]),
        host=_text(fields["host"]),
        pid=_number(fields["pid"]),
        process_index=None if index is None else _number(index),
        started=_seconds(fields["started"]),
        argv=list(map(_text, fields["argv"])),
        python=_text(fields["python"]),
        jax=_text(fields["jax"]),
        jaxlib=_text(fields["jaxlib"]),
        backend=_text_or_none(fields["backend"]),
        started_by=None if starter is None else _number(starter),
        job=_text_or_none(fields.get("job")),
        attempt=_number(fields.get("attempt", 1)),
        process_count=None if processes is None else _number(processes),
        forked_by=None if parent is None else _number(parent),
        off_fast_path=tuple(map(_text, fields.get("off_fast_path", ()))),
        redaction=_text_or_none(fields.get("redaction")),
        variables={
            _text(name): _text(value) for name, value in fields.get("variables", {}).items()
        },
        commit=_text_or_none(fields.get("commit")),
        source="log" if fields.get("source") == "log" else "program",
    )


def amend_run(run: Run, fields: Any) -> None:
    """Put into a run what became known of it later; raises as `decode_run` does."""
    if (backend := fields.get("backend")) is not None:
        run.backend = _text(backend)
    if (index := fields.get("process_index")) is not None:
        run.process_index = _number(index)
    if (processes := fields.get("process_count")) is not None:
        run.process_count = _number(processes)
    if (devices := fields.get("local_devices")) is not None:
        run.local_devices = _number(devices)
    if (kind := fields.get("device_kind")) is not None:
        run.device_kind = _text(kind)
    if (version := fields.get("platform_version")) is not None:
        run.platform_version = _text(version)
    if (settings := fields.get("settings")) is not None:
        run.settings = {_text(name): _plain(value) for name, value in settings.items()}
    if (dirty := fields.get("dirty")) is not None:
        run.dirty = bool(dirty)


def _plain(value: Any) -> JSON:
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"plain data expected, not {type(value).__name__}")
    return value

"""The header of a recording's file: which process it is of, and what became known of it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrace.model import JSON, Run
from retrace.store.decoded import number, number_or_none, seconds, text, text_or_none, texts
from retrace.store.fields import Field, take


def _plain(told: Any) -> JSON:
    if told is not None and not isinstance(told, bool | int | float | str):
        raise TypeError(f"plain data expected, not {type(told).__name__}")
    return told


RUN: Mapping[str, Field[Run]] = {
    "id": Field("id", text),
    "host": Field("host", text, lambda _hide, _site, _held: "<redacted>"),
    "pid": Field("pid", number),
    "process_index": Field("process_index", number_or_none),
    "started": Field("started", seconds),
    "argv": Field(
        "argv", lambda rows: list(map(text, rows)), lambda hide, _, held: hide.argv(held)
    ),
    "python": Field("python", text),
    "jax": Field("jax", text),
    "jaxlib": Field("jaxlib", text),
    "backend": Field("backend", text_or_none),
    "started_by": Field("started_by", number),
    "job": Field("job", text),
    "attempt": Field("attempt", number),
    "process_count": Field("process_count", number),
    "forked_by": Field("forked_by", number),
    "daemon_of": Field("daemon_of", number),
    "off_fast_path": Field("off_fast_path", texts),
    "redaction": Field("redaction", text),
    "variables": Field(
        "variables",
        lambda rows: {text(name): text(told) for name, told in rows.items()},
        lambda hide, _, held: hide.variables(held),
    ),
    "commit": Field("commit", text),
    "source": Field("source", lambda told: "log" if told == "log" else "program"),
    "dirty": Field("dirty", bool),
    "local_devices": Field("local_devices", number),
    "device_kind": Field("device_kind", text),
    "platform_version": Field("platform_version", text),
    "raised": Field("raised", text),
    "settings": Field(
        "settings",
        lambda rows: {text(name): _plain(told) for name, told in rows.items()},
        lambda hide, _, held: hide.settings(held),
    ),
}

_REQUIRED = (
    *("id", "host", "pid", "process_index", "started", "argv"),
    *("python", "jax", "jaxlib", "backend"),
)
_LATER = ("dirty", "local_devices", "device_kind", "platform_version", "raised", "settings")
"""What stands in no header."""
_BECOMES_KNOWN = ("backend", "process_index", "process_count", *_LATER)


def encode_run(run: Run) -> dict[str, JSON]:
    """The run in the first line of a file; the rest of it follows from later lines."""
    fields: dict[str, JSON] = {name: getattr(run, name) for name in RUN if name not in _LATER}
    if run.source == "program":
        del fields["source"]
    if run.daemon_of is None:
        del fields["daemon_of"]
    return fields


def decode_run(fields: Any) -> Run:
    """The run of a header; raises one of `decoded.NONSENSE`."""
    told = {name: fields[name] for name in _REQUIRED}
    told |= {name: held for name in RUN if (held := fields.get(name)) is not None}
    return Run(
        **{name: RUN[name].read(held) for name, held in told.items() if name not in _LATER}
    )


def amend_run(run: Run, fields: Any) -> None:
    """Put into a run what became known of it later; raises as `decode_run` does."""
    take(run, fields, {name: RUN[name] for name in _BECOMES_KNOWN})

"""The header of a recording's file: its process, and what became known about it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrace.model import JSON, Run
from retrace.store.decoded import number, number_or_none, seconds, text, text_or_none, texts
from retrace.store.fields import Field, read_into


def _plain(value: Any) -> JSON:
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"plain data expected, not {type(value).__name__}")
    return value


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
        lambda rows: {text(name): text(value) for name, value in rows.items()},
        lambda hide, _, held: hide.variables(held),
    ),
    "slow_from": Field("slow_from", seconds),
    "commit": Field("commit", text),
    "source": Field("source", lambda name: "log" if name == "log" else "program"),
    "dirty": Field("dirty", bool),
    "local_devices": Field("local_devices", number),
    "device_kind": Field("device_kind", text),
    "platform_version": Field("platform_version", text),
    "raised": Field("raised", text),
    "settings": Field(
        "settings",
        lambda rows: {text(name): _plain(value) for name, value in rows.items()},
        lambda hide, _, held: hide.settings(held),
    ),
}

_REQUIRED = (
    *("id", "host", "pid", "process_index", "started", "argv"),
    *("python", "jax", "jaxlib", "backend"),
)
_NOT_IN_HEADER = (
    "dirty",
    "local_devices",
    "device_kind",
    "platform_version",
    "raised",
    "settings",
)
"""Fields that are only written in later lines."""
_BECOMES_KNOWN = ("backend", "process_index", "process_count", *_NOT_IN_HEADER)


def encode_run(run: Run) -> dict[str, JSON]:
    """Encode the run for the first line of a file; later lines complete it."""
    fields: dict[str, JSON] = {
        name: getattr(run, name) for name in RUN if name not in _NOT_IN_HEADER
    }
    if run.source == "program":
        del fields["source"]
    for name in ("daemon_of", "slow_from"):  # of few
        if fields[name] is None:
            del fields[name]
    return fields


def decode_run(fields: Any) -> Run:
    """Decode the run of a header; raises one of `decoded.NONSENSE`."""
    given = {name: fields[name] for name in _REQUIRED}
    given |= {name: value for name in RUN if (value := fields.get(name)) is not None}
    return Run(
        **{
            name: RUN[name].read(value)
            for name, value in given.items()
            if name not in _NOT_IN_HEADER
        }
    )


def amend_run(run: Run, fields: Any) -> None:
    """Add to a run what became known later; raises as `decode_run` does."""
    read_into(run, fields, {name: RUN[name] for name in _BECOMES_KNOWN})

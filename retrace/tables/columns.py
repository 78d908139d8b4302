"""The columns of each table: name, type, unit and meaning, in one place for code and docs."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

SCHEMA = "retrace-tables/1"
"""In the metadata of each file. Raised when a column changes its meaning or goes; columns may be
added under one number."""

Type: TypeAlias = Literal[
    "text", "texts", "texts by name", "counts by name", "integer", "seconds", "time", "bool"
]


class Column(NamedTuple):
    """One column."""

    name: str
    type: Type
    meaning: str


def _columns(*rows: tuple[str, Type, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


TABLES: dict[str, tuple[Column, ...]] = {
    "runs": _columns(
        ("run", "text", "id of the process that recorded; every other table has it"),
        ("host", "text", "its machine"),
        ("pid", "integer", "its process id there"),
        ("process_index", "integer", "its index in the job; null where nobody told"),
        ("process_count", "integer", "how many processes the job has; null where nobody told"),
        ("job", "text", "the job, as it was named or the scheduler told"),
        ("attempt", "integer", "which of the runs that its recording's folder holds"),
        ("started", "time", "when it began"),
        ("argv", "texts", "its command line"),
        ("python", "text", "version"),
        ("jax", "text", "version"),
        ("jaxlib", "text", "version"),
        ("backend", "text", "`cpu`, `gpu`, `tpu`; null where nothing was compiled"),
        ("device_kind", "text", "JAX's name for its devices"),
        ("local_devices", "integer", "how many devices it had to itself"),
        ("platform_version", "text", "what the backend says of itself"),
        ("commit", "text", "of git; null outside"),
        ("dirty", "bool", "whether tracked files differed from it"),
        ("source", "text", "`program`, or `log` where it was imported"),
        ("variables", "texts by name", "environment variables of JAX, XLA, libtpu, NCCL"),
        ("settings", "texts by name", "`jax.config`, each value as JSON"),
        ("complete", "bool", "whether the process closed its recording"),
        ("losses", "counts by name", "what could not be recorded: how often, by reason"),
        ("redacted", "bool", "whether values and paths were taken out"),
        ("misses", "integer", "how many rows of `misses` are its own"),
    ),
    "misses": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "id, as in every report"),
        ("number", "integer", "position in its process, from 0"),
        ("label", "text", "`train_step #3`"),
        ("time", "time", "when its first stage began"),
        ("thread", "text", "name of the thread"),
        ("function", "text", "name of the innermost function of the user's"),
        ("qualname", "text", "its qualified name"),
        ("jax_name", "text", "what this JAX calls it"),
        ("kind", "text", "def, lambda, partial, transform, method, callable, op"),
        ("file", "text", "where it was written"),
        ("line", "integer", "its first line there"),
        ("call_file", "text", "file of the line that called"),
        ("call_line", "integer", "that line"),
        ("call_function", "text", "the function that it is in"),
        ("call_library", "bool", "whether that is no code of the user's"),
        ("parent", "text", "the miss that it is nested in or derived from"),
        ("derived", "text", "how it was derived: `backward`, ..."),
        ("inner", "integer", "traces of JAX's own functions inside"),
        ("trace", "seconds", "of tracing, nested included; null where it did not run"),
        ("lower", "seconds", "of lowering; null where it did not run"),
        ("compile", "seconds", "of compiling; null where it did not run"),
        ("own", "seconds", "of all its stages without those of misses nested in it: to add up"),
        ("in_flight", "text", "the stage that had not ended when the recording stopped"),
        ("raised", "text", "type of the exception that it ended with"),
        ("cause", "text", "code of the cause"),
        ("detail", "text", "more of the cause"),
        ("pattern", "text", "the pattern that several misses make"),
        ("avoidable", "text", "yes, no, maybe"),
        ("nearest", "text", "the earlier miss that it was compared with"),
        ("program", "text", "hash of the program; equal for equal programs"),
        ("equations", "integer", "how many it has"),
        ("program_change", "text", "against the program of the nearest"),
        ("explanation", "text", "in words"),
        ("fix_code", "text", "code of the advice"),
        ("fix", "text", "the advice"),
    ),
    "changes": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "the miss whose key changed"),
        ("position", "integer", "among the changes of the miss, from 0"),
        ("component", "text", "shape, dtype, static, config, ..."),
        ("path", "text", "what changed, by the user's own names: `batch['x']`"),
        ("detail", "text", "more of the change"),
        ("old", "text", "as JSON"),
        ("new", "text", "as JSON"),
        ("exact", "bool", "whether old and new were recorded whole"),
    ),
    "programs": _columns(
        ("run", "text", "the process"),
        ("program", "text", "hash; equal for equal programs, also of several processes"),
        ("listing", "text", "id of its text in the recording"),
        ("equations", "integer", "how many it has"),
        ("function", "text", "name of the function that it was first made for"),
        ("first_miss", "text", "the miss that it was first made for"),
        ("misses", "integer", "how many misses of the process have it"),
        ("compiles", "integer", "how many of them compiled it"),
        ("compile", "seconds", "of these compilations together"),
    ),
    "cache": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "the miss that compiled"),
        ("outcome", "text", "of JAX's on-disk cache: hit, miss, not-stored, off"),
        ("key", "text", "the key in it"),
        ("reason", "text", "why it was not stored"),
        ("saved", "seconds", "of a hit: compiling had taken so much longer than reading"),
        ("ingredients", "texts by name", "what the key was made of: the hash of each"),
    ),
}


def documented() -> str:
    """The tables as Markdown, as they stand in the docs."""
    out: list[str] = []
    for table, columns in TABLES.items():
        out += [f"### `{table}`", "", "| column | type | |", "|---|---|---|"]
        out += [f"| `{each.name}` | {each.type} | {each.meaning} |" for each in columns]
        out.append("")
    return "\n".join(out)

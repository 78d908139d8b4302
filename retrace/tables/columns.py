"""The columns of each table, with type and meaning, for both code and docs."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

SCHEMA = "retrace-tables/1"
"""Stored in the metadata of each file. The number is raised when a column is removed or changes
its meaning, not when columns are added."""

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
        ("run", "text", "id of the recorded process; every other table has it"),
        ("host", "text", "its machine"),
        ("pid", "integer", "its process id there"),
        ("process_index", "integer", "its index in the job; null if unknown"),
        ("process_count", "integer", "number of processes of the job; null if unknown"),
        ("job", "text", "name of the job, given or from the scheduler"),
        ("attempt", "integer", "number of the attempt in the recording's folder"),
        ("started", "time", "when it began"),
        ("argv", "texts", "its command line"),
        ("python", "text", "version"),
        ("jax", "text", "version"),
        ("jaxlib", "text", "version"),
        ("backend", "text", "`cpu`, `gpu`, `tpu`; null if nothing was compiled"),
        ("device_kind", "text", "JAX's name for its devices"),
        ("local_devices", "integer", "number of its own devices"),
        ("platform_version", "text", "version of the backend"),
        ("commit", "text", "git commit; null outside a repository"),
        ("dirty", "bool", "whether tracked files differed from the commit"),
        ("source", "text", "`program`, or `log` if it was imported"),
        ("variables", "texts by name", "environment variables of JAX, XLA, libtpu, NCCL"),
        ("settings", "texts by name", "`jax.config`, each value as JSON"),
        ("complete", "bool", "whether the process closed its recording"),
        ("losses", "counts by name", "how often something could not be recorded, by reason"),
        ("redacted", "bool", "whether values and paths were removed"),
        ("misses", "integer", "number of its rows in `misses`"),
    ),
    "misses": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "id, as in every report"),
        ("number", "integer", "position in its process, from 0"),
        ("label", "text", "`train_step #3`"),
        ("time", "time", "when its first stage began"),
        ("thread", "text", "name of the thread"),
        ("function", "text", "name of the innermost user function"),
        ("qualname", "text", "its qualified name"),
        ("jax_name", "text", "JAX's name for it"),
        ("kind", "text", "def, lambda, partial, transform, method, callable, op"),
        ("file", "text", "file where it is defined"),
        ("line", "integer", "its first line"),
        ("call_file", "text", "file of the calling line"),
        ("call_line", "integer", "the calling line"),
        ("call_function", "text", "function that contains the calling line"),
        ("call_library", "bool", "whether the calling line is library code"),
        ("parent", "text", "the miss it is nested in or derived from"),
        ("derived", "text", "how it was derived: `backward`, ..."),
        ("inner", "integer", "number of JAX's own functions traced inside"),
        ("trace", "seconds", "tracing, nested traces included; null if it did not run"),
        ("lower", "seconds", "lowering; null if it did not run"),
        ("compile", "seconds", "compiling; null if it did not run"),
        ("own", "seconds", "all stages without nested misses: use this for sums"),
        ("in_flight", "text", "the stage that had not ended when the recording stopped"),
        ("raised", "text", "type of the exception that ended it"),
        ("cause", "text", "code of the cause"),
        ("detail", "text", "details of the cause"),
        ("pattern", "text", "pattern formed by several misses"),
        ("avoidable", "text", "yes, no, maybe"),
        ("nearest", "text", "the earlier miss it was compared with"),
        ("program", "text", "hash of the program; equal for equal programs"),
        ("equations", "integer", "number of its equations"),
        ("program_change", "text", "compared with the program of the nearest miss"),
        ("explanation", "text", "the explanation as text"),
        ("fix_code", "text", "code of the advice"),
        ("fix", "text", "the advice"),
    ),
    "changes": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "the miss whose key changed"),
        ("position", "integer", "position among the changes of the miss, from 0"),
        ("component", "text", "shape, dtype, static, config, ..."),
        ("path", "text", "what changed, by the user's names: `batch['x']`"),
        ("detail", "text", "details of the change"),
        ("old", "text", "as JSON"),
        ("new", "text", "as JSON"),
        ("exact", "bool", "whether old and new were recorded completely"),
    ),
    "programs": _columns(
        ("run", "text", "the process"),
        ("program", "text", "hash; equal for equal programs, also in other processes"),
        ("listing", "text", "id of its text in the recording"),
        ("equations", "integer", "number of its equations"),
        ("function", "text", "name of the function it was first made for"),
        ("first_miss", "text", "the miss it was first made for"),
        ("misses", "integer", "number of misses with it in the process"),
        ("compiles", "integer", "number of these that compiled it"),
        ("compile", "seconds", "total of these compilations"),
    ),
    "cache": _columns(
        ("run", "text", "the process"),
        ("miss", "text", "the miss that compiled"),
        ("outcome", "text", "result from JAX's on-disk cache: hit, miss, not-stored, off"),
        ("key", "text", "the key in the cache"),
        ("reason", "text", "why it was not stored"),
        ("saved", "seconds", "for a hit: how much longer compiling took than reading"),
        ("ingredients", "texts by name", "hash of each part of the key"),
    ),
}

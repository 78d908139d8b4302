"""Writes tables to disk: a folder for each table, with one file for each process.

A file is written completely under a temporary name and then renamed, `runs` last. So the tables
can be read at any moment, and a process listed in `runs` is complete in all tables. Exporting a
process again replaces its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from retrace.errors import UsageError
from retrace.store import files
from retrace.tables.columns import SCHEMA, TABLES, Type
from retrace.tables.rows import Row, portions

_KEY = b"retrace.schema"
_PORTION = 1 << 14
"""Rows held in memory and written as one group."""


def require() -> None:
    """Raise UsageError if pyarrow is not installed."""
    try:
        _arrow()
    except ImportError as error:
        raise UsageError(
            f"tables need pyarrow, which is not installed ({error}): "
            "install it with `pip install 'retrace-jax[tables]'`"
        ) from None


def check(target: Path) -> None:
    """Raise UsageError if our tables cannot be written to a folder, or it has other ones."""
    require()
    try:
        target.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            folder = target / table
            folder.mkdir(exist_ok=True)
            for path in sorted(folder.iterdir()):
                if path.suffix == ".parquet":
                    _check_file(path)
    except OSError as error:
        raise UsageError(
            f"cannot write tables to {target}: {files.reason(error)}; name another folder"
        ) from None


def _check_file(path: Path) -> None:
    arrow = _arrow()
    try:
        metadata: Mapping[bytes, bytes] | None = arrow.parquet.read_schema(path).metadata
    except arrow.ArrowInvalid:
        metadata = None
    found = (metadata or {}).get(_KEY)
    if found is None:
        raise UsageError(f"{path} is not a table of retrace: name another folder")
    if found.decode(errors="replace") != SCHEMA:
        raise UsageError(
            f"{path} was written as {found.decode(errors='replace')}, but this retrace writes "
            f"{SCHEMA}: name another folder"
        )


def write(target: Path, run: str, tables: Mapping[str, Iterable[Row]]) -> dict[str, int]:
    """Write the rows of one process; returns the number of rows in each table.

    Args:
        target: a folder that passed `check`.
        run: the id of the process.
        tables: the rows of each table.

    Raises:
        UsageError: they cannot be written.
    """
    made: dict[Path, Path] = {}
    counts: dict[str, int] = {}
    try:
        for table, rows in tables.items():
            final = target / table / f"{run}.parquet"
            draft = final.with_name(f".{run}.{os.getpid()}.draft")
            made[draft] = final
            counts[table] = _write_file(draft, table, rows)
        for draft, final in reversed(made.items()):  # `runs` last
            draft.replace(final)
    except OSError as error:
        raise UsageError(
            f"cannot write tables to {target}: {files.reason(error)}; name another folder"
        ) from None
    finally:
        for draft in made:
            draft.unlink(missing_ok=True)
    return counts


def _write_file(path: Path, table: str, rows: Iterable[Row]) -> int:
    arrow = _arrow()
    schema = _schema(table)
    written = 0
    with arrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for portion in portions(rows, _PORTION):
            arrays = [
                _array(list(values), field.type)
                for values, field in zip(zip(*portion, strict=True), schema, strict=True)
            ]
            writer.write_batch(arrow.RecordBatch.from_arrays(arrays, schema=schema))
            written += len(portion)
    return written


def _array(values: Sequence[Any], type_: Any) -> Any:
    arrow = _arrow()
    try:
        return arrow.array(values, type_)
    except UnicodeEncodeError:  # half a surrogate pair, allowed in JSON but not in a table
        return arrow.array(list(map(_encodable, values)), type_)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, tuple):
        return tuple(map(_encodable, cast(tuple[Any, ...], value)))
    if isinstance(value, list):
        return list(map(_encodable, cast(list[Any], value)))
    return value


def _schema(table: str) -> Any:
    arrow = _arrow()
    types: Mapping[Type, Any] = {
        "text": arrow.string(),
        "texts": arrow.list_(arrow.string()),
        "texts by name": arrow.map_(arrow.string(), arrow.string()),
        "counts by name": arrow.map_(arrow.string(), arrow.int64()),
        "integer": arrow.int64(),
        "seconds": arrow.float64(),
        "time": arrow.timestamp("us", tz="UTC"),
        "bool": arrow.bool_(),
    }
    fields = [
        arrow.field(
            column.name,
            types[column.type],
            metadata={
                "description": column.meaning,
                **({"unit": "s"} if column.type == "seconds" else {}),
            },
        )
        for column in TABLES[table]
    ]
    from retrace import __version__

    metadata = {_KEY: SCHEMA.encode(), b"retrace.table": table.encode()}
    return arrow.schema(fields, metadata={**metadata, b"retrace.version": __version__.encode()})


def _arrow() -> Any:
    # By name: it has no types to check and is optional.
    import_module("pyarrow.parquet")
    return import_module("pyarrow")

"""docs/schema/, generated from the schemas that the tests use for the JSON reports.

python -m tests.schema_files    rewrites the files
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from tests.reading.test_present_schema import REPORT, SLOW

FOLDER = Path(__file__).parents[1] / "docs" / "schema"
_FILES = {"retrace-report-1.json": REPORT, "retrace-slow-1.json": SLOW}


def written() -> dict[str, str]:
    """Return each file, by name, as it should be."""
    return {name: _text(name, schema) for name, schema in _FILES.items()}


def _text(name: str, schema: Any) -> str:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": Path(name).stem}
    return json.dumps({**head, **_open(schema)}, indent=1) + "\n"


def _open(schema: Any) -> Any:
    """A schema that allows later fields: they may be added without a new version number."""
    if isinstance(schema, list):
        return [_open(each) for each in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _open(each) for name, each in cast(dict[str, Any], schema).items()}
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    return kept


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in written().items():
        (FOLDER / name).write_text(text, encoding="utf-8")

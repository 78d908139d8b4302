"""Write the columns into docs/tables.md."""

from __future__ import annotations

from pathlib import Path

from retrace.tables.columns import TABLES

DOCS = Path(__file__).parents[2] / "docs" / "tables.md"
MARK = "<!-- made by `python -m tests.tables` -->\n"


def documented() -> str:
    """Return the tables as Markdown."""
    out: list[str] = []
    for table, columns in TABLES.items():
        out += [f"### `{table}`", "", "| column | type | |", "|---|---|---|"]
        out += [f"| `{each.name}` | {each.type} | {each.meaning} |" for each in columns]
        out.append("")
    return "\n".join(out)


def written() -> str:
    """Return docs/tables.md as it should be."""
    before, _, _ = DOCS.read_text().partition(MARK)
    return f"{before}{MARK}\n{documented()}"


if __name__ == "__main__":
    DOCS.write_text(written())

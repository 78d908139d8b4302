"""docs/commands.md, generated from the command line itself.

python tests/command_page.py    rewrites the page
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from retrace.command.cli import application

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = """\
# Commands

`retrace COMMAND --help` says the same. Exit codes: 0 done; 1 a check found what it was told to
find; 2 wrong usage or input that cannot be read, with one line on stderr. `retrace run` exits as
the program does.

<!-- made by `python tests/command_page.py` -->
"""


def written() -> str:
    """Return the page as it should be."""
    group: Any = typer.main.get_command(application())
    return _HEAD + "".join(
        _section(name, command) for name, command in group.commands.items() if not command.hidden
    )


def _section(name: str, command: Any) -> str:
    about, _, example = re.sub("Examples?:", "\0", command.help or "").partition("\0")
    section = f"\n## `retrace {name}`\n\n{_paragraphs(about)}\n"
    if example:
        section += (
            "\n```sh\n"
            + "\n".join(line.strip() for line in re.split(r"[;\n]\s", example.strip()))
            + "\n```\n"
        )
    given = [one for one in command.params if not getattr(one, "hidden", False)]
    rows = [f"| {_names(one)} | {_cell(one.help)} |" for one in given if one.name != "help"]
    return section + ("\n| | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else "")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def _names(one: Any) -> str:
    if one.param_type_name == "argument":
        name = str(one.metavar or one.name.upper())
        name = name.replace("|", "\\|")
        return f"`{name}{'...' if one.nargs == -1 and not name.endswith('...') else ''}`"
    value = "" if one.is_flag else f" {one.metavar or one.name.upper()}"
    value = value.replace("|", "\\|")
    return ", ".join(f"`{opt}{value}`" for opt in [*one.opts, *one.secondary_opts])


def _cell(text: str | None) -> str:
    return _paragraphs(text or "").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")

"""Turns the parser's usage errors into one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from retrace.command import console
from retrace.errors import UsageError
from retrace.present.words import nearest

_COMMANDS = (
    *("run", "report", "plan", "check", "show", "programs", "diff", "hosts", "watch", "slow"),
    *("audit", "import", "export", "mcp", "doctor", "clean"),
)


def usage(error: Any) -> str:
    """The line for a usage error from typer, with a guess at what was meant."""
    context = getattr(error, "ctx", None)
    # Some errors have no context, such as an option without its argument.
    asked = [one for one in sys.argv[1:2] if one in _COMMANDS]
    path = getattr(context, "command_path", " ".join(("retrace", *asked)))
    said = error.format_message().strip().rstrip(".").replace("\n", " ")
    if said.startswith("No such command") and "ean" not in said:
        named = said.split("'")[1:2] or [""]
        said += nearest(named[0], _COMMANDS)
    said = f"{said[:1].lower()}{said[1:]}"
    return f"{said}{'' if said.endswith('?') else ';'} see `{path} --help`"


def no_script(path: str) -> UsageError:
    """The error for a missing script, with a guess at what was meant."""
    if not path:
        return UsageError("no program to run: name a script, as in `retrace run train.py`")
    beside = Path(path).parent
    try:
        names = [one for one in os.listdir(beside) if one.endswith(".py")]
    except OSError:
        names = []
    guess = nearest(os.path.basename(path), names)
    return UsageError(f"no such script: {path}{guess or f' (in {console.here()})'}")

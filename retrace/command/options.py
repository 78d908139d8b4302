"""Options and exit codes shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DONE = 0
FOUND = 1
"""A check failed, or `--fail-on` matched."""
WRONG = 2
"""Wrong usage, or input that cannot be read."""

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of stdout."),
]
Force = Annotated[
    bool,
    typer.Option("--force", "-f", help="Overwrite FILE even if it is not a retrace report."),
]
Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Work on this Dask cluster."),
]

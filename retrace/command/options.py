"""What several commands share: options, and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DONE = 0
FOUND = 1
"""A check found what it was told to find."""
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
OfDask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Work on this cluster of Dask's."),
]

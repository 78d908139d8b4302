"""Runs the command line in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "retrace"]
HERE = Path(__file__).parents[1]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RETRACE")}
    return {**kept, "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "error", **more}


def retrace(
    *arguments: str | Path, cwd: Path = HERE, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

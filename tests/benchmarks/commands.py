"""What the commands cost, as whole processes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.benchmarks.measure import Ratio, compare, process_seconds

_EMPTY = """
import typer
app = typer.Typer()
@app.command()
def main(name: str = "x") -> None: ...
app()
"""

_RECORD = """
import sys
from pathlib import Path
from retrace.capture.session import start
start(Path(sys.argv[1]))
import jax
import numpy as np
leaves = int(sys.argv[3])
@jax.jit
def step(tree):
    return tree["x0"]
for size in range(int(sys.argv[2])):
    leaf = jax.ShapeDtypeStruct((size + 1,), np.float32)
    jax.eval_shape(step, {f"x{i}": leaf for i in range(leaves)})
"""


def environment() -> dict[str, str]:
    """The environment of every timed process."""
    here = {**os.environ, "JAX_PLATFORMS": "cpu", "NO_COLOR": "1"}
    # As after an installation with pip: imported modules are already compiled.
    here.pop("PYTHONDONTWRITEBYTECODE", None)
    return here | {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "retrace-pyc"))}


def importing(pairs: int) -> Ratio:
    """`import retrace` compared with `import jax`."""
    here = environment()
    return compare(
        "`import jax`, compared with retrace imported as well",
        lambda: process_seconds(["-c", "import jax"], here),
        lambda: process_seconds(["-c", "import jax, retrace"], here),
        pairs,
        1.04,
    )


def reporting(misses: int, leaves: int, pairs: int, bound: float) -> Ratio:
    """`retrace report` compared with an empty typer command."""
    here = environment()
    directory = Path(tempfile.mkdtemp())
    process_seconds(["-c", _RECORD, str(directory), str(misses), str(leaves)], here)
    return compare(
        f"`retrace report`, {misses:,} misses of {leaves} leaves, compared with an empty command",
        lambda: process_seconds(["-c", _EMPTY], here),
        lambda: process_seconds(["-m", "retrace", "report", str(directory)], here),
        pairs,
        bound,
    )


def planning(few: int, many: int, pairs: int) -> Ratio:
    """`retrace plan` for many misses compared with few: at most proportional."""
    here = environment()
    directories = [Path(tempfile.mkdtemp()) for _ in (few, many)]
    for directory, misses in zip(directories, (few, many), strict=True):
        process_seconds(["-c", _RECORD, str(directory), str(misses), "2"], here)
    return compare(
        f"`retrace plan`, {many:,} misses compared with {few:,}",
        lambda: process_seconds(["-m", "retrace", "plan", str(directories[0])], here),
        lambda: process_seconds(["-m", "retrace", "plan", str(directories[1])], here),
        pairs,
        many / few,
    )

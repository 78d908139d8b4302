"""What is too much for each run of CI: a sample of it, drawn by the commit that is tested.

Another commit draws another sample. The same commit draws the same one, here and in CI.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PART = "RETRACE_TEST_PART"
"""The number of this run in CI, which `tests/matrix.py` sets: 0 on the oldest JAX, 1 on the
newest. Not set, as for `pytest` alone, no test is left out."""


@cache
def commit() -> str:
    """The commit that is tested; nothing where this is no checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def number(name: str = "") -> int:
    """What the commit draws for a name."""
    return int(hashlib.sha256(f"{commit()} {name}".encode()).hexdigest(), 16)


def shuffled(names: Iterable[str]) -> list[str]:
    """These in the order that the commit draws: the first few are the sample."""
    return sorted(names, key=number)


def all_of(family: str) -> bool:
    """Whether all of a family is asked for, as by RETRACE_TEST_ALL_NAMES=1."""
    return os.environ.get(f"RETRACE_TEST_ALL_{family}", "0") not in ("", "0")


def is_drawn(test: str, of: int) -> bool:
    """Whether this run does the test: each test has one of the numbers below `of`."""
    part = os.environ.get(PART)
    return part is None or number(test) % of == int(part)

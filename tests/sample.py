"""Samples of tests that would take too long in every CI run, drawn by the tested commit.

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
newest; some tests have a number that neither has. If it is not set, as with plain `pytest`, no
test is left out."""


@cache
def commit() -> str:
    """The tested commit; empty outside a checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def number(name: str = "") -> int:
    """The number that the commit draws for a name."""
    return int(hashlib.sha256(f"{commit()} {name}".encode()).hexdigest(), 16)


def shuffled(names: Iterable[str]) -> list[str]:
    """The names in an order drawn by the commit; the first few are the sample."""
    return sorted(names, key=number)


def all_of(family: str) -> bool:
    """Whether a whole family is requested, for example by RETRACE_TEST_ALL_NAMES=1."""
    return os.environ.get(f"RETRACE_TEST_ALL_{family}", "0") not in ("", "0")


def is_drawn(test: str, of: int) -> bool:
    """Whether this run includes the test; each test has a number below `of`."""
    part = os.environ.get(PART)
    return part is None or number(test) % of == int(part)

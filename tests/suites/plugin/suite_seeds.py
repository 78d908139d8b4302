"""Seeds Python's and numpy's random numbers before each test, the same in every run.

A pytest plugin (`-p suite_seeds`), loaded in every run that is compared. Some tests draw their
shapes without a seed: two runs would compile other programs.
"""

from __future__ import annotations

import random

import numpy as np
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    random.seed(0)
    np.random.seed(0)

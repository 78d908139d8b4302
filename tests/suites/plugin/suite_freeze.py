"""The whole run under `retrace.freeze(warn=True)`."""

import retrace


def pytest_configure() -> None:
    retrace.freeze(warn=True)

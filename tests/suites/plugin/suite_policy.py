"""The whole run under `retrace.policy("warn")`."""

import retrace


def pytest_configure() -> None:
    retrace.policy("warn")

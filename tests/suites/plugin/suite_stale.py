"""Every test asks at its end whether a program that it traced is out of date.

What a test traced is kept alive until then; otherwise most of it is gone. What each audit
found is a line of JSON in the file that the environment variable `SUITE_STALE` names.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from retrace.auditing import request
from retrace.capture.kept import Kept
from retrace.guards import stale

_alive: list[Any] = []
_told: list[Any] = []


def pytest_configure() -> None:
    ended, told = Kept.end, stale.__dict__["out_of_date"]

    def end(self: Kept, number: int, trace: Any, jaxpr: Any) -> None:
        _alive.append((trace.given, jaxpr))
        ended(self, number, trace, jaxpr)

    def out_of_date(*given: Any) -> stale.OutOfDate:
        found = told(*given)
        _told.append((request.history[-1], found))
        return found

    Kept.end = end
    from retrace.pytest_plugin import testing

    testing.__dict__["out_of_date"] = out_of_date


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.retrace(stale="fail"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    for audit, found in _told:
        reasons = Counter(
            f"{one.reason}: {one.detail}" for one in audit.checked if one.reason is not None
        )
        row = {
            "test": item.nodeid,
            "programs": audit.programs,
            "gone": audit.gone,
            "seconds": round(audit.seconds, 3),
            "outcomes": Counter(one.outcome.value for one in audit.checked),
            "reasons": reasons,
            "heads": found.heads,
            "text": found.text,
            "disturbed": [one.disturbed for one in audit.checked if one.disturbed],
        }
        with open(os.environ["SUITE_STALE"], "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    _told.clear()
    _alive.clear()
    return result

"""The misses as data in the page: the JSON report, and where the page explains each miss.

JSON is repetitive, so it is compressed: a thousand misses take a tenth of the space.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from retrace.model import CallSite, Miss, Stage, Verdict
from retrace.plan.step import Plan
from retrace.present import report_json
from retrace.present.group import Group
from retrace.present.tally import Rank, Sort, Tally
from retrace.present.view import View
from retrace.present.words import clean

MAX_MISSES = 20_000
"""Maximum number of misses in the page, first by `sort`; the rest are counted."""


class Data:
    """The misses as the page's script reads them, in the order of the report.

    Args:
        groups: the number of each group on the page, by the object's id.
        functions: the number of each function on the page, by definition site.
        sort: decides which misses are kept if there are too many.
    """

    def __init__(
        self, groups: Mapping[int, int], functions: Mapping[str, int], sort: Sort
    ) -> None:
        self._groups, self._functions = groups, functions
        self._sort: Sort = sort
        self._places: dict[str, int] = {}
        self._found: list[tuple[Rank, report_json.Object, list[Any]]] = []

    def add(self, view: View, tally: Tally, portion: Sequence[Verdict], *, keys: bool) -> None:
        """Add misses that were not added yet."""
        if tally.totals.misses <= MAX_MISSES:
            ranked = [((0, 0.0), verdict) for verdict in portion]
        else:
            ranks = tally.ranks(portion, self._sort)
            ranked = sorted(zip(ranks, portion, strict=True), key=lambda pair: pair[0])[
                :MAX_MISSES
            ]
        for rank, verdict in ranked:
            fields = report_json.miss_report(view, verdict, keys=keys)
            self._found.append((rank, fields, self._row(view, tally, verdict)))
        if len(self._found) > MAX_MISSES:
            self._found.sort(key=lambda one: one[0])
            del self._found[MAX_MISSES:]

    def _row(self, view: View, tally: Tally, verdict: Verdict) -> list[Any]:
        miss = verdict.miss
        group: Group | None = tally.group_of(verdict)
        if group is None and (root := view.by_id.get(view.root(miss).id)) is not None:
            group = tally.group_of(root)
        site = miss.entry or miss.call_site
        return [
            -1 if group is None else self._groups.get(id(group), -1),
            self._functions.get(miss.function.site, -1),
            -1 if site is None else self._places.setdefault(place_of(site), len(self._places)),
            _begun(miss),
        ]

    def misses(self) -> list[report_json.Object]:
        """The misses of the report."""
        return [fields for _, fields, _ in self._found]

    def rows(self, anchors: Sequence[str], plan: Plan | None) -> dict[str, Any]:
        """Where the page explains each miss.

        Args:
            anchors: the anchors of the groups, in the order of their numbers.
            plan: the plan whose steps remove misses.
        """
        steps = [list(step.misses) for step in plan.steps] if plan is not None else []
        rows = [row for _, _, row in self._found]
        return {"anchors": anchors, "rows": rows, "steps": steps, "places": list(self._places)}


def place_of(site: CallSite) -> str:
    """A line, in the form that the page's script uses."""
    return f"{clean(site.file, None)}:{site.line}"


def _begun(miss: Miss) -> list[float | None] | None:
    """When each stage started, in seconds after the miss; None if not recorded."""
    if not miss.began:
        return None
    begun = [miss.began.get(stage) for stage in Stage]
    return [None if at is None else round(at - miss.time, 6) for at in begun]


def packed(fields: report_json.Object) -> str:
    """JSON, compressed: only letters, digits, `+`, `/` and `=`, whatever it contains."""
    return b64encode(zlib.compress(report_json.encode(fields).encode(), 9)).decode()

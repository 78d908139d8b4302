"""The misses as data in the page: the JSON report, and where the page tells of each miss.

JSON repeats itself, so it is compressed: a thousand misses take a tenth of what they would.
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

MOST = 20_000
"""So many misses lie in the page, those that `sort` puts first; the others are counted."""


class Data:
    """The misses as the page's script reads them, in the order of the report.

    Args:
        groups: the number of each group on the page, by the object's id.
        functions: the number of each function on the page, by definition site.
        sort: which misses are kept where there are too many.
    """

    def __init__(
        self, groups: Mapping[int, int], functions: Mapping[str, int], sort: Sort
    ) -> None:
        self._groups, self._functions = groups, functions
        self._sort: Sort = sort
        self._places: dict[str, int] = {}
        self._found: list[tuple[Rank, report_json.Object, list[Any]]] = []

    def add(self, view: View, tally: Tally, portion: Sequence[Verdict], *, keys: bool) -> None:
        """Take in misses that were not told yet."""
        if tally.totals.misses <= MOST:
            ranked = [((0, 0.0), verdict) for verdict in portion]
        else:
            ranks = tally.ranks(portion, self._sort)
            ranked = sorted(zip(ranks, portion, strict=True), key=lambda pair: pair[0])[:MOST]
        for rank, verdict in ranked:
            told = report_json.miss_report(view, verdict, keys=keys)
            self._found.append((rank, told, self._row(view, tally, verdict)))
        if len(self._found) > MOST:
            self._found.sort(key=lambda one: one[0])
            del self._found[MOST:]

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
        return [told for _, told, _ in self._found]

    def rows(self, anchors: Sequence[str], plan: Plan | None) -> dict[str, Any]:
        """Where the page tells of each miss.

        Args:
            anchors: of each group, in the order of their numbers.
            plan: whose steps take misses away.
        """
        steps = [list(step.misses) for step in plan.steps] if plan is not None else []
        rows = [row for _, _, row in self._found]
        return {"anchors": anchors, "rows": rows, "steps": steps, "places": list(self._places)}


def place_of(site: CallSite) -> str:
    """A line, as the page's script knows it."""
    return f"{clean(site.file, None)}:{site.line}"


def _begun(miss: Miss) -> list[float | None] | None:
    """When each stage began, in seconds after the miss; None where that was not recorded."""
    if not miss.began:
        return None
    begun = [miss.began.get(stage) for stage in Stage]
    return [None if at is None else round(at - miss.time, 6) for at in begun]


def packed(fields: report_json.Object) -> str:
    """JSON, compressed: letters, digits, `+`, `/` and `=` alone, whatever stands in it."""
    return b64encode(zlib.compress(report_json.encode(fields).encode(), 9)).decode()

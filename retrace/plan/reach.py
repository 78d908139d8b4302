"""What the changes of a step reach: columns, arguments and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrace.model import Function, Verdict
from retrace.plan.candidate import Candidate
from retrace.plan.history import Column, History


class Reach:
    """Looks up the columns, arguments and functions that a candidate affects."""

    def __init__(self, histories: list[History], verdicts: Mapping[str, Verdict]) -> None:
        self.histories = histories
        self.verdicts = verdicts

    def paths(self, candidate: Candidate) -> list[str]:
        """The arguments and options that the candidate changes."""
        found = [path for _, column in self.columns(candidate) for path in column.paths]
        return _outermost(list(dict.fromkeys(found)))

    def columns(self, candidate: Candidate) -> list[tuple[History, Column]]:
        """The columns that the candidate changes, each with its history.

        Without those of operations around: they have JAX's names for what the body takes.
        """
        at = [one for one in candidate.at if one not in candidate.around]
        return [(self.histories[index], self.histories[index].columns[n]) for index, n in at]

    def own(self, candidates: Sequence[Candidate], names: Sequence[str]) -> list[str]:
        """The misses that the candidates are about, without those of operations around them."""
        around = {
            row.miss.id
            for candidate in candidates
            for index, _ in candidate.around
            for row in self.histories[index].rows
        }
        # An earlier step may have taken the bodies away, and this one the operations.
        return [name for name in names if name not in around] or list(names)

    def functions(self, candidate: Candidate) -> list[Function]:
        """The functions that the candidate affects, without duplicates."""
        found = [history.function for history, _ in self.columns(candidate)]
        return list({function.site: function for function in found}.values())


def _outermost(paths: list[str]) -> list[str]:
    """Drop paths that lie inside another of the paths."""
    return [
        path
        for path in paths
        if not any(path.startswith((f"{other}[", f"{other}.")) for other in paths)
    ]

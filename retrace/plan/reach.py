"""What the changes of a step reach: columns, arguments and functions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from retrace.model import Dim, Function, Kind, Miss, Verdict
from retrace.plan.candidate import Candidate
from retrace.plan.history import Column, History

Array: TypeAlias = tuple[str, str, tuple[Dim, ...]]
"""A file that calls, with the dtype and the shape of an array."""


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

    @cached_property
    def sites(self) -> frozenset[str]:
        """The sites of all functions that are no operations."""
        functions = [verdict.miss.function for verdict in self.verdicts.values()]
        return frozenset(one.site for one in functions if one.kind is not Kind.OP)

    @cached_property
    def takers(self) -> Mapping[Array, Mapping[str, str]]:
        """The functions that each file calls with arrays of a dtype and shape: names by site."""
        found: dict[Array, dict[str, str]] = {}
        for verdict in self.verdicts.values():
            function = verdict.miss.function
            if function.kind is not Kind.OP and not verdict.miss.nested:
                for array in arrays_of(verdict.miss):
                    found.setdefault(array, {})[function.site] = function.name
        return found

    def functions(self, candidate: Candidate) -> list[Function]:
        """The functions that the candidate affects, without duplicates."""
        found = [history.function for history, _ in self.columns(candidate)]
        return list({function.site: function for function in found}.values())


def arrays_of(miss: Miss, paths: Container[str] | None = None) -> Iterator[Array]:
    """The arrays with axes that the user's own line passes, or those of them with these paths."""
    site = miss.call_site
    if site is None or site.in_library:
        return
    for leaf in miss.key.leaves:
        if leaf.shape and (paths is None or leaf.path in paths):
            yield site.file, leaf.dtype, leaf.shape


def _outermost(paths: list[str]) -> list[str]:
    """Drop paths that lie inside another of the paths."""
    return [
        path
        for path in paths
        if not any(path.startswith((f"{other}[", f"{other}.")) for other in paths)
    ]

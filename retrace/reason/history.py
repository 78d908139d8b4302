"""Conclusions that need the whole history of a function, not just one miss.

Each miss is judged as it arrives, against the closest earlier key. Whether a shorter axis was the
end of a dataset or one size of many, and which static values share a program, is known only once
all misses have been seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from retrace.causes import Cause
from retrace.compare.along import along, is_drawn_by_position
from retrace.model import Change, Dim, Miss, ShapeChange, Verdict
from retrace.model.advice import (
    BranchInProgram,
    FewSizes,
    FewValues,
    JitBlock,
    LoopInProgram,
    PadBatch,
    PadShape,
    PassDecision,
    Proof,
    SkipEmpty,
    ToArgument,
    TripsInProgram,
)
from retrace.model.change import together
from retrace.reason import rules
from retrace.reason.agreement import agree
from retrace.reason.around import one_for_each
from retrace.reason.arrays import pad_shape
from retrace.reason.cards.card import Avoidable
from retrace.reason.evidence import OF_VALUES, types_of, values_of
from retrace.reason.fields import field_changes
from retrace.reason.libraries import through_libraries
from retrace.reason.objects import Deciding
from retrace.reason.program import Comparison
from retrace.reason.read_elsewhere import leaf_elsewhere, read_elsewhere
from retrace.reason.sharing import shared
from retrace.reason.sized import grows_evenly, of_many_sizes, sized
from retrace.reason.traits import is_static_by_type

_PLAIN_TYPES = ("int", "str", "bool", "float", "numpy.bool", "numpy.bool_")
_CAUSES = (Cause.STATIC_ARGUMENT_CHANGED, Cause.TREE_STRUCTURE_CHANGED)
_MIN_BUCKETS = 3
"""Minimum number of sizes, each twice the previous one, that look intended."""


def revise(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, with advice revised according to each function's whole history.

    Args:
        verdicts: those of one recording, in any order.

    Returns:
        The revised verdicts, in the same order.
    """
    histories: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, verdict in enumerate(verdicts):
        histories[verdict.miss.run, verdict.miss.function.site].append(index)
    revised = list(verdicts)
    for history in histories.values():
        if len(history) < 2:
            continue
        own = [verdicts[index] for index in history]
        agree(own)
        for rule in (_steering, _deciding, _sizes, _buckets, _ordered, _begun_empty):
            changed = {id(old): new for old, new in rule(own)}
            own = [changed.get(id(verdict), verdict) for verdict in own]
        for index, verdict in zip(history, own, strict=True):
            revised[index] = verdict
    for rule in (_layers, read_elsewhere, leaf_elsewhere, one_for_each):
        for index, verdict in [*rule(revised)]:
            revised[index] = verdict
    return revised


def is_partial_batch(verdict: Verdict) -> bool:
    """Whether its advice is about the last batch of a dataset."""
    return isinstance(verdict.fix, PadBatch)


def _sizes(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Withdraw advice about a last batch if there were more than two sizes.

    Ragged data, finished requests and successive halving also get shorter.
    """
    by_shape = [v for v in history if v.cause is Cause.SHAPE_CHANGED and v.miss.raised is None]
    partial = [verdict for verdict in by_shape if is_partial_batch(verdict)]
    for verdict in partial:
        line = _line(verdict.miss)
        sizes = {_turn(other) for other in by_shape if _line(other.miss) == line}
        if len(sizes) > 1:
            by = "" if verdict.fix is None else verdict.fix.passed_by
            advised = pad_shape(verdict.miss, verdict.changes).changed(passed_by=by)
            yield verdict, replace(verdict, fix=advised, avoidable="maybe")


def _turn(verdict: Verdict) -> frozenset[str]:
    """The shapes it changed from and to; each epoch or restart ends with the same ones."""
    own = [change for change in verdict.changes if isinstance(change, ShapeChange)]
    return frozenset(f"{change.path}: {change.old} {change.new}" for change in own)


def _line(miss: Miss) -> object:
    site = miss.call_site
    return None if site is None else (site.file, site.line)


class _Padded(NamedTuple):
    verdict: Verdict
    advised: PadShape
    sizes: tuple[Dim, Dim]


def _buckets(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Ask if sizes look intended: programs for 32, 64 and 128 may be wanted."""
    by_path: dict[tuple[str, ...], list[_Padded]] = defaultdict(list)
    for verdict in history:
        if isinstance(verdict.fix, PadShape) and (pair := _one_axis(verdict)) is not None:
            by_path[verdict.fix.paths].append(_Padded(verdict, verdict.fix, pair))
    for found in by_path.values():
        sizes = {size for one in found for size in one.sizes if isinstance(size, int) and size}
        ordered = sorted(sizes)
        if len(ordered) < _MIN_BUCKETS or any(b != 2 * a for a, b in pairwise(ordered)):
            continue
        for verdict, advised, _ in found:
            chosen = advised.changed(sizes=tuple(ordered), proof=Proof.MEANING)
            yield verdict, replace(verdict, fix=chosen)


def _ordered(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Ask if the program depends on the position of rows, so that extra rows may count."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for verdict in history:
        advised = verdict.fix
        if not isinstance(advised, PadShape) or advised.proof is Proof.MEANING:
            continue
        if advised.paths not in known:  # programs of other sizes do the same as this one
            if verdict.program is None:
                continue
            known[advised.paths] = _through(verdict.miss, verdict.program)
        if through := known[advised.paths]:
            asked = advised.changed(ordered=through, proof=Proof.MEANING)
            yield verdict, replace(verdict, fix=asked)


def _begun_empty(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """What is advised on an array that grows holds from its first row on: it begins empty."""
    if not any(isinstance(verdict.fix, SkipEmpty) for verdict in history):
        return
    grown: dict[tuple[tuple[str, ...], Dim], Verdict] = {}
    for verdict in history:
        if isinstance(verdict.fix, PadShape) and (pair := _one_axis(verdict)) is not None:
            grown.setdefault((verdict.fix.paths, pair[0]), verdict)
    for verdict in history:
        if isinstance(verdict.fix, SkipEmpty) and (pair := _one_axis(verdict)) is not None:
            begun, after = pair
            following = grown.get((verdict.fix.paths, after))
            if begun == 0 and following is not None:
                yield verdict, replace(verdict, fix=following.fix)


def _through(miss: Miss, program: Comparison) -> tuple[str, ...]:
    listings = program.listings()
    if listings is None:
        return ()
    found = along(*listings, program.texts, stable=is_drawn_by_position(miss.key))
    return tuple(dict.fromkeys(step.primitive or "" for step in found.ordered))


def _layers(verdicts: Sequence[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """Correct advice about sizes by all that a line ran on, which may be several layers.

    All operations of the line count: one gradient of a network runs each of them for each layer.
    """
    lines: dict[object, list[int]] = defaultdict(list)
    for index, verdict in enumerate(verdicts):
        if verdict.cause is Cause.EAGER_OP:
            lines[verdict.miss.run, _line(verdict.miss)].append(index)
    for indices in lines.values():
        own = [verdicts[index] for index in indices]
        if not any(isinstance(verdict.fix, FewSizes) for verdict in own):
            continue
        several, few = not sized(own), not of_many_sizes(own)
        # A line that gets one length after another, or that is used again, has no growing array.
        varies = not grows_evenly(sized(own))
        for index in indices:
            advised = verdicts[index].fix
            # Jitted or not, a loop compiles for each length, and each number of joined arrays.
            kept = isinstance(advised, FewSizes) and (advised.loop or advised.joined)
            if isinstance(advised, FewSizes) and (several if kept else few):
                yield index, replace(verdicts[index], fix=JitBlock(proof=Proof.MEANING))
            elif isinstance(advised, FewSizes) and advised.grows and varies:
                yield index, replace(verdicts[index], fix=advised.changed(grows=False))


def _one_axis(verdict: Verdict) -> tuple[Dim, Dim] | None:
    """The old and new value of the only size that changed."""
    shapes = together(verdict.changes).sides
    found = {(a, b) for sides in shapes for a, b in zip(*sides, strict=False) if a != b}
    return next(iter(found)) if len(found) == 1 else None


def _steering(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Static values that decide the program: many values, few programs."""
    by_path: dict[str, dict[str, Change]] = defaultdict(dict)
    for verdict in history:
        if verdict.cause not in _CAUSES or verdict.miss.raised is not None:
            continue
        if verdict.fix is not None and verdict.fix.read_too:
            continue  # which may be what decides
        if (change := _only_change(verdict)) is not None and change.path is not None:
            by_path[change.path][verdict.miss.id] = change
    for path, changes in by_path.items():
        own = [verdict for verdict in history if verdict.miss.id in changes]
        sharing = _Sharing(own, changes)
        programs = sharing.values()
        if len(programs) < 2 or all(len(values) == 1 for values in programs):
            continue
        if not sharing.is_seen(programs) or sharing.is_partly_by_type(programs):
            continue  # something else differed between the programs
        advised = PassDecision(
            paths=(path,),
            name=own[0].miss.function.name,
            values=tuple(map(tuple, programs)),
            constant=sharing.constants,
            proof=Proof.CONSTANTS if sharing.constants else Proof.PROGRAM,
        )
        if sharing.is_by_type(programs) and not any(is_static_by_type(one.miss) for one in own):
            # 2 and 2.5: an argument has a program for each type, and nothing is decided.
            passed = ToArgument(paths=(path,), folded=sharing.folded, proof=Proof.CONSTANTS)
            advised = through_libraries(passed, *sharing.compared, *(one.program for one in own))
        for verdict in own:
            first = sharing.is_first(verdict.miss)
            worth: Avoidable = "maybe" if advised.proof is Proof.MEANING else "yes"
            yield verdict, replace(verdict, fix=advised, avoidable="no" if first else worth)


def _deciding(history: list[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """Name only what decides the program, not what another call saw change for nothing."""
    # Comparing the programs takes longest, and for most functions it is not needed.
    asked = [
        (verdict, verdict.fix)
        for verdict in history
        if isinstance(verdict.fix, _DECIDES) and len(verdict.fix.paths) > 1
    ]
    if not asked:
        return
    deciding = Deciding(history)
    for verdict, advised in asked:
        paths = deciding.of(advised.paths, verdict)
        if paths != advised.paths:
            yield verdict, replace(verdict, fix=advised.changed(paths=paths))


_DECIDES = (BranchInProgram, FewValues, LoopInProgram, TripsInProgram)


class _Sharing:
    """Which values of a static argument could share one program."""

    def __init__(self, verdicts: list[Verdict], changes: dict[str, Change]) -> None:
        self.constants = False
        """Whether numbers in the program follow the value."""
        self.folded = False
        """Whether a compiler may fold some of them with others."""
        self.compared: list[Comparison] = []
        """Programs of numbers of one type, found to differ in constants alone."""
        self._change_of = changes
        self._texts: dict[str, str] = {}
        self._types: dict[str, str] = {}
        """For each value, its type."""
        self._above: dict[str, str] = {}
        self._contexts: dict[str, str] = {}
        """For each miss, the closest one that differs only in this value."""
        self._order: list[str] = []
        by_hash: dict[str, str] = {}
        firsts: dict[str, Miss] = {}
        """The first miss with a number of each type."""
        for verdict in verdicts:
            change, near = changes[verdict.miss.id], verdict.nearest
            for miss, side in zip((near, verdict.miss), values_of(change), strict=True):
                if miss is None or miss.program is None or miss.id in self._texts:
                    continue
                self._texts[miss.id] = text = "" if side is None else side.text
                self._types[text] = type_ = "" if side is None else side.type
                self._join_by_type(firsts.setdefault(type_, miss), miss, verdict)
                self._order.append(miss.id)
                self._join(by_hash.setdefault(miss.program.hash, miss.id), miss.id)
            if near is not None:
                self._contexts[self._context(verdict.miss.id)] = self._context(near.id)
            program = verdict.program
            fixed = program is not None and program.fixed
            if near is not None and verdict.program_change == "constants-only" and not fixed:
                self.constants = True
                self._join(near.id, verdict.miss.id)

    def _join_by_type(self, first: Miss, miss: Miss, verdict: Verdict) -> None:
        """Join two numbers of one type, where each was compared with one of another type."""
        program = verdict.program
        types = {*types_of(self._change_of[verdict.miss.id])}
        if first is miss or program is None or types != {"int", "float"}:
            return
        seen = Comparison(first, miss, (), program.texts)
        if seen.kind == "constants-only" and not seen.fixed:
            self.constants = True
            self.folded = self.folded or seen.folds
            self.compared.append(seen)
            self._join(first.id, miss.id)

    def _top(self, name: str) -> str:
        while (above := self._above.get(name, name)) != name:
            name = above
        return name

    def _join(self, earlier: str, later: str) -> None:
        a, b = self._top(earlier), self._top(later)
        if a != b:
            self._above[b] = a

    def values(self) -> list[list[str]]:
        """The values by program, in order of appearance."""
        programs: dict[str, dict[Hashable, set[Hashable]]] = {}
        for name in self._order:
            own = programs.setdefault(self._texts[name], {})
            own.setdefault(self._context(name), set()).add(self._top(name))
        return shared(programs)

    def is_by_type(self, programs: list[list[str]]) -> bool:
        """Whether all numbers of one type share a program, and differ in its constants alone."""
        types = [{self._types[value] for value in own} for own in programs]
        each = [next(iter(own)) for own in types if len(own) == 1]
        return self.constants and len(set(each)) == len(types) and {*each} == {"int", "float"}

    def is_partly_by_type(self, programs: list[list[str]]) -> bool:
        """Whether numbers of two types have programs apart, and those of one type as well."""
        types = [{self._types[value] for value in own} for own in programs]
        found = set[str]().union(*types)
        return self.constants and found == {"int", "float"} and len(types) > len(found)

    def is_seen(self, programs: list[list[str]]) -> bool:
        """Whether calls that differ in nothing else had several of these programs."""
        contexts: dict[str, set[str]] = {}
        for name in self._order:
            contexts.setdefault(self._texts[name], set()).add(self._context(name))
        found = [set[str]().union(*(contexts[value] for value in own)) for own in programs]
        return len(set[str]().union(*found)) < sum(map(len, found))

    def _context(self, name: str) -> str:
        while (above := self._contexts.get(name, name)) != name:
            name = above
        return name

    def is_first(self, miss: Miss) -> bool:
        """Whether it is the first of the misses that share a program."""
        return self._top(miss.id) == miss.id


def _only_change(verdict: Verdict) -> Change | None:
    """The only changed plain static value or field, if nothing else changed."""
    own = rules.in_key(verdict.changes)
    if len(own) != 1 or own[0].component not in OF_VALUES:
        return None
    found = (own[0],) if _is_plain(own[0]) else field_changes(own[0])
    return found[0] if len(found) == 1 and _is_plain(found[0]) else None


def _is_plain(change: Change) -> bool:
    return all(type_ in _PLAIN_TYPES for type_ in types_of(change))

"""What a step asks for, with the place to do it. The words are `present`'s."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from retrace.causes import OF_FUNCTION, Cause
from retrace.model import Component, Function, Kind, Miss, Verdict
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    FewSizes,
    FewValues,
    JitBlock,
    LeaveOutArray,
    OneDtype,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.plan.candidate import VALUES, Candidate
from retrace.plan.eager import Root
from retrace.plan.history import ABSENT, Column, History
from retrace.plan.ledger import outermost
from retrace.plan.programs import value_at
from retrace.plan.step import Change, Proposal

_CODES = {
    "shape": "few-sizes",
    "rank": "one-rank",
    "code": "run-last-version",
    "again": "keep-entry",
}


CAUSES: dict[str, frozenset[Cause]] = {
    "function": OF_FUNCTION,
    "code": frozenset({Cause.SOURCE_CHANGED}),
    "options": frozenset({Cause.JIT_OPTIONS_CHANGED}),
    "config": frozenset({Cause.CONFIG_CHANGED}),
    "static": frozenset({Cause.STATIC_ARGUMENT_CHANGED}),
    "signature": frozenset({Cause.CALL_SIGNATURE_CHANGED}),
    "tree": frozenset({Cause.TREE_STRUCTURE_CHANGED}),
    "meta": frozenset({Cause.TREE_STRUCTURE_CHANGED}),
    "shape": frozenset({Cause.SHAPE_CHANGED}),
    "rank": frozenset({Cause.SHAPE_CHANGED}),
    "dtype": frozenset({Cause.DTYPE_CHANGED}),
    "weak_type": frozenset({Cause.WEAK_TYPE_CHANGED}),
    "sharding": frozenset({Cause.SHARDING_CHANGED}),
}
"""What each family of changes does away with. A miss may have another cause that stands higher,
where more than one thing differed from its nearest key."""

_PLAIN = {
    "function": "jit-once",
    "options": "jit-once",
    "config": "one-config",
    "static": "few-values",
    "meta": "reuse-object",
    "signature": "one-call-style",
    "tree": "one-structure",
    "dtype": "cast-argument",
    "weak_type": "cast-argument",
    "sharding": "one-sharding",
    "clear": "keep-caches",
    "bodies": "define-body-once",
}
"""What is asked for where the misses have advice on something else that changed as well."""


class Told:
    """What is said of candidates, from the misses that they take away."""

    def __init__(self, histories: list[History], verdicts: Mapping[str, Verdict]) -> None:
        self.histories = histories
        self.verdicts = verdicts

    def paths(self, candidate: Candidate) -> list[str]:
        """The arguments and options that a candidate is about."""
        found = [path for _, column in self.columns(candidate) for path in column.paths]
        return _outermost(list(dict.fromkeys(found)))

    def columns(self, candidate: Candidate) -> list[tuple[History, Column]]:
        """Where a candidate reaches."""
        at = [(self.histories[index], number) for index, number in candidate.at]
        return [(history, history.columns[number]) for history, number in at]

    def functions(self, candidate: Candidate) -> list[Function]:
        """The functions that it reaches, each once."""
        found = [history.function for history, _ in self.columns(candidate)]
        return list({function.site: function for function in found}.values())


def _outermost(paths: list[str]) -> list[str]:
    """Without those that lie in another one of them."""
    return [
        path
        for path in paths
        if not any(path.startswith((f"{other}[", f"{other}.")) for other in paths)
    ]


def proposal(members: Sequence[Candidate], names: Sequence[str], told: Told) -> Proposal:
    """What to do for one step."""
    verdicts = [told.verdicts[name] for name in names]
    own = outermost(verdicts)
    changes = tuple(_change(member, own, told) for member in members)
    about = frozenset[Cause]().union(*(CAUSES.get(m.family, frozenset()) for m in members))
    advised = _advised(members, [v for v in own if not about or v.cause in about], told)
    if isinstance(advised, OneDtype):
        advised = _of_all(advised, own, [c for member in members for c in told.columns(member)])
    if any(member.alike for member in members) and isinstance(advised, _SEPARATE):
        in_tree = members[0].family == "meta"
        advised = ReuseObject(paths=advised.paths, in_tree=in_tree, proof=Proof.MEANING)
    sizes = next((member.sizes for member in members if member.sizes is not None), None)
    pairs = next((member.pairs for member in members if member.pairs is not None), None)
    if all(isinstance(verdict.fix, LeaveOutArray) for verdict in own):
        sizes = pairs = None  # nothing to pad
    misses = [verdict.miss for verdict in own]
    written = _written(members, misses, told)
    file, line = written or _place(misses)
    made = written is not None
    family = members[0].family
    if advised is None and len(members) == 1:
        advised = _constant(members[0], told)
    if family in _CODES and not isinstance(advised, LeaveOutArray):
        return Proposal(_CODES[family], changes, None, file, line, sizes, pairs, made)
    code = _PLAIN.get(family, family) if advised is None else advised.code
    also = _also(members[0], names, told) if len(members) == 1 else ()
    return Proposal(code, changes, advised, file, line, sizes, pairs, made, also)


_STARTS = ("dtype", "weak_type", "sharding")


def _also(member: Candidate, names: Sequence[str], told: Told) -> tuple[tuple[str, int], ...]:
    """Where else the same is to be changed, for misses that need another change besides."""
    if member.family not in _STARTS:
        return ()
    gone = {*names}
    own = {
        (site.file, site.line)
        for history, _ in told.columns(member)
        for row in history.rows
        if row.miss.id in gone and (site := row.miss.call_site) is not None
    }
    found = {
        (site.file, site.line)
        for history, column in told.columns(member)
        for row in history.rows
        if row.miss.id not in gone
        and (site := row.miss.call_site) is not None
        and not site.in_library
        and any(
            change.component.value == member.family and change.path in column.paths
            for change in row.changes
        )
    }
    return tuple(sorted(found - own))


def _advised(members: Sequence[Candidate], own: Sequence[Verdict], told: Told) -> Advice | None:
    """What its misses, else others of its functions, were told of this and nothing else.

    What concerns it of an advice on more, where there is none such.
    """
    found = [verdict.fix for verdict in own if verdict.fix is not None]
    paths = [path for member in members for path in told.paths(member) if path]
    about = frozenset[Cause]().union(*(CAUSES.get(m.family, frozenset()) for m in members))
    others = (
        row.fix
        for member in members
        for history, _ in told.columns(member)
        for row in history.rows
        if row.fix is not None and row.fix.paths and not row.fix.others and row.cause in about
    )
    for one in (*found, *others):
        if all(is_in(path, paths) for path in one.paths):
            return one
    for one in found:
        if rest := tuple(path for path in one.paths if is_in(path, paths)):
            return replace(one, paths=rest)
    return next((one for one in found if _holds(one.paths, paths)), None)


_SEPARATE = (FewValues, BranchInProgram)
"""What is advised where the nearest key had another value, and not the same in another object."""


def _holds(outer: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether an advice is about what some paths lie in, or a change has no paths."""
    return not paths or any(is_in(path, outer) for path in paths)


def is_in(path: str, outer: Sequence[str]) -> bool:
    """Whether a path is one of some, or lies in one of them."""
    return path in outer or path.startswith(tuple(f"{one}{end}" for one in outer for end in "[."))


def _constant(candidate: Candidate, told: Told) -> Advice | None:
    """What to do about values that are but constants, where no miss was told of them alone."""
    one_program = candidate.sure != "ask" and candidate.programs is None
    if not one_program or not candidate.constants:
        return None
    paths = tuple(path for path in told.paths(candidate) if path)
    if candidate.family == "static":
        return ToArgument(paths=paths, proof=Proof.CONSTANTS)
    return ToArray(paths=paths, in_tree=True) if candidate.family == "meta" else None


def _of_all(
    advised: OneDtype, own: Sequence[Verdict], columns: Sequence[tuple[History, Column]]
) -> OneDtype:
    """With the dtypes of all calls, of which each verdict tells two."""
    found = [v.fix for v in own if isinstance(v.fix, OneDtype) and v.fix.paths == advised.paths]
    known = (
        history.value(row, part)
        for history, column in columns
        for part in column.parts
        if part.family == "dtype" and part.path in advised.paths
        for row in range(len(history.rows))
    )
    every = tuple(str(one) for one in dict.fromkeys(known) if one != ABSENT)
    told = tuple(dict.fromkeys(dtype for one in found for dtype in one.dtypes))
    asks = any(one.proof is Proof.MEANING for one in found)
    proof = Proof.MEANING if asks else advised.proof
    return replace(advised, dtypes=(every or told) if told else (), proof=proof)


def _change(candidate: Candidate, own: Sequence[Verdict], told: Told) -> Change:
    held = dict.fromkeys(
        str(change.path)
        for verdict in own
        for change in verdict.changes
        if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
    )
    columns = told.columns(candidate)
    values, programs = candidate.programs or (0, 0)
    return Change(
        candidate.family,
        tuple(path for path in told.paths(candidate) if path),
        tuple(dict.fromkeys(function.name for function in told.functions(candidate))),
        tuple(held) if candidate.constants else (),
        values or max((max(column.values) + 1 for _, column in columns), default=0),
        programs,
        candidate.sure == "ask" and not candidate.alike,
    )


def eager_proposal(root: Root) -> Proposal:
    """What to do about eager operations of one cause."""
    number = len({v.miss.function.jax_name for v in root.verdicts})
    functions = () if root.function is None else (root.function.rpartition(".")[2],)
    change = Change(root.family, functions=functions, seen=number, lines=root.lines)
    plain = FewSizes.code if root.family == "eager-sizes" else JitBlock.code
    code = plain if root.advice is None else root.advice.code
    return Proposal(code, (change,), root.advice, root.site.file, root.site.line)


_FUNCTION = re.compile(r"<function .+ at ([^:]+):(\d+)>")
"""What a function looks like among static values and fields, with where it is written."""


def _written(
    members: Sequence[Candidate], misses: Sequence[Miss], told: Told
) -> tuple[str, int] | None:
    """Where the user wrote the function that is made again; None where that is not known.

    Of an object that a library makes for the user, as optax does, nothing tells which line asked
    for it.
    """
    family = members[0].family
    if family == "function" and all(
        miss.function.kind in (Kind.DEF, Kind.LAMBDA) and not miss.function.in_library
        for miss in misses
    ):
        found = {(miss.function.file, miss.function.line) for miss in misses}
        ((file, line), *others) = found
        return None if others or file is None or line is None else (file, line)
    if len(members) > 1 or family not in VALUES:
        return None
    columns = told.columns(members[0])
    texts = {
        str(value.text)
        for history, column in columns
        for row in history.rows
        for part in column.parts
        if (value := value_at(row.miss, part)) is not None
    }
    matches = [_FUNCTION.fullmatch(text) for text in texts]
    files = {
        PurePath(site.file).name: site.file
        for miss in misses
        for site in (miss.call_site, *miss.callers)
        if site is not None and not site.in_library
    }
    places = {(files.get(one[1]), int(one[2])) for one in matches if one is not None}
    if None in matches or len(places) != 1:
        return None
    ((file, line),) = places
    return None if file is None else (file, line)


def _place(misses: Sequence[Miss]) -> tuple[str | None, int | None]:
    """The line of the user's that asked most often, else where the function was written."""
    sites = [m.call_site for m in misses if m.call_site is not None]
    users = [site for site in sites if not site.in_library] or sites
    if users:
        (place, _), *_ = Counter((site.file, site.line) for site in users).most_common(1)
        return place
    function = misses[0].function
    return function.file, function.line

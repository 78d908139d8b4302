"""What each step asks the user to do, and where. `present` words it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from retrace.causes import OF_FUNCTION, Cause
from retrace.model import Component, Kind, Miss, Verdict
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    FewSizes,
    FewValues,
    JitBlock,
    LeaveOutArray,
    LeaveOutValue,
    OneDtype,
    OneKeyType,
    OneRank,
    OneStructure,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.model.parts import OF_ARGUMENTS, OF_CONTEXT, OF_OPTIONS
from retrace.plan.besides import besides, optional_arguments
from retrace.plan.candidate import Candidate, omitted
from retrace.plan.defaults import ABSENT
from retrace.plan.edits import VALUES
from retrace.plan.history import Column, History
from retrace.plan.ledger import outermost
from retrace.plan.programs import value_at
from retrace.plan.reach import Reach
from retrace.plan.root import Root
from retrace.plan.step import Change, Proposal, Sizes
from retrace.plan.takers import other_takers, takers_of_integers
from retrace.reason.arrays import array_for_number
from retrace.reason.cards import card
from retrace.reason.evidence import is_numeric
from retrace.reason.fields import with_fields
from retrace.reason.held import is_in
from retrace.reason.libraries import through_libraries
from retrace.reason.traits import is_static_by_type, passing_library
from retrace.regex import regex

_CODES = {
    "shape": "few-sizes",
    "rank": "one-rank",
    "code": "run-last-version",
    "again": "keep-entry",
}


CAUSES: dict[str, frozenset[Cause]] = {
    **{part: frozenset({cause}) for cause in Cause for part in card(cause).components},
    "function": OF_FUNCTION,
    "code": frozenset({Cause.SOURCE_CHANGED}),
    "meta": frozenset({Cause.TREE_STRUCTURE_CHANGED}),
    "rank": frozenset({Cause.SHAPE_CHANGED}),
}
"""The causes that a change of each family removes. A miss may report another cause of higher
precedence if several things differed from its closest earlier key."""

_PLAIN = {
    **dict.fromkeys(OF_ARGUMENTS, "few-values"),
    **dict.fromkeys(OF_OPTIONS, "jit-once"),
    **dict.fromkeys(OF_CONTEXT, "one-config"),
    "function": "jit-once",
    "meta": "reuse-object",
    "signature": "one-call-style",
    "tree": "one-structure",
    "dtype": "cast-argument",
    "weak_type": "cast-argument",
    "sharding": "one-sharding",
    "clear": "keep-caches",
    "bodies": "define-body-once",
}
"""The code used when the advice on the misses covers something else that changed too."""


def proposal(members: Sequence[Candidate], names: Sequence[str], reach: Reach) -> Proposal:
    """What to do for one step."""
    verdicts = [reach.verdicts[name] for name in names]
    own = outermost(verdicts)
    changes = tuple(_change(member, own, reach) for member in members)
    about = frozenset[Cause]().union(*(CAUSES.get(m.family, frozenset()) for m in members))
    # A typed key has one axis fewer than a raw one, which comes first as a cause.
    told = [v for v in own if not about or v.cause in about or isinstance(v.fix, OneKeyType)]
    advised = _advised(members, told, reach)
    if isinstance(advised, OneDtype):
        advised = _with_all_dtypes(
            advised, own, [c for member in members for c in reach.columns(member)]
        )
    if any(member.alike for member in members) and isinstance(advised, _FOR_VALUES):
        in_tree = members[0].family == "meta"
        advised = ReuseObject(paths=advised.paths, in_tree=in_tree, proof=Proof.MEANING)
    sizes = next((member.sizes for member in members if member.sizes is not None), None)
    pairs = next((member.pairs for member in members if member.pairs is not None), None)
    if all(isinstance(verdict.fix, LeaveOutArray) for verdict in own):
        sizes = pairs = None  # nothing to pad
    misses = [verdict.miss for verdict in own]
    written = _written_at(members, misses, reach)
    padded = [] if sizes is None else list(_padded(members, sizes, reach))
    file, line = written or _called_from(padded or misses)
    made = written is not None
    passing = {passing_library(v.cause, v.miss) for v in own if v.cause in about}
    by = passing.pop() if len(passing) == 1 else ""
    family = members[0].family
    if advised is None and len(members) == 1:
        advised = _constant(members[0], reach) or _omitted(members[0], reach)
    if advised is None and family == "rank":
        advised = _from_the_start(members[0], reach)
    if advised is not None and (sizes is not None or pairs is not None):
        rest = tuple(one for one in advised.others if one[1] != Component.SHAPE)
        advised = advised.changed(others=rest)  # the sizes are told anyway
    if family in _CODES and not isinstance(advised, LeaveOutArray):
        told = advised if len(members) > 1 or family == "rank" else None
        read = () if advised is None or told is not None else advised.read_too
        proposal = Proposal(_CODES[family], changes, told, file, line, sizes, pairs, made, by)
        sized = sizes or pairs
        alone = sized is not None and sized.along.separate
        takers = other_takers(members, padded or misses, reach) if alone else ()
        return proposal._replace(read_too=read, takers=takers)
    code = _PLAIN.get(family, family) if advised is None else advised.code
    also = tuple(sorted(_other_lines(members, names, reach)))
    proposal = Proposal(code, changes, advised, file, line, sizes, pairs, made, by, also)
    takers = takers_of_integers(members, advised, reach)
    told_too = () if advised is None else besides(members, told, advised, reach)
    optional = optional_arguments(members, reach)
    return proposal._replace(optional=optional, takers=takers, besides=told_too)


_CASTS = ("dtype", "weak_type", "sharding")


def _other_lines(
    members: Sequence[Candidate], names: Sequence[str], reach: Reach
) -> set[tuple[str, int]]:
    """Other lines that need the same change, for misses that also need a second change."""
    if any(member.family not in _CASTS for member in members):
        return set()
    gone = {*names}
    columns = [found for member in members for found in reach.columns(member)]
    own = {
        (site.file, site.line)
        for history, _ in columns
        for row in history.rows
        if row.miss.id in gone and (site := row.miss.call_site) is not None
    }
    found = {
        (site.file, site.line)
        for history, column in columns
        for row in history.rows
        if row.miss.id not in gone
        and (site := row.miss.call_site) is not None
        and not site.in_library
        and any(
            change.component.value == column.family and change.path in column.paths
            for change in row.changes
        )
    }
    return found - own


def _advised(members: Sequence[Candidate], own: Sequence[Verdict], reach: Reach) -> Advice | None:
    """The advice given on exactly this change, by its own misses or by others of its functions.

    Failing that, the relevant part of a broader advice.
    """
    found = [verdict.fix for verdict in own if verdict.fix is not None]
    # What one function could leave out, another one that reads it says how to pass.
    found.sort(key=lambda one: isinstance(one, LeaveOutValue) and bool(one.read_by))
    paths = [path for member in members for path in reach.paths(member) if path]
    about = frozenset[Cause]().union(*(CAUSES.get(m.family, frozenset()) for m in members))
    others = (
        row.fix
        for member in members
        for history, _ in reach.columns(member)
        for row in history.rows
        if row.fix is not None and row.fix.paths and not row.fix.others and row.cause in about
    )
    for one in (*found, *others):
        if all(is_in(path, paths) for path in one.paths):
            return one
    for one in found:
        if rest := tuple(path for path in one.paths if is_in(path, paths)):
            return one.changed(paths=rest)
    return next((one for one in found if _covers(one.paths, paths)), None)


_FOR_VALUES = (FewValues, BranchInProgram)
"""Advice given when the closest earlier key had a different value, not an equal object."""


def _covers(outer: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether the advice covers something that contains the paths, or the change has no paths."""
    return not paths or any(is_in(path, outer) for path in paths)


def _constant(candidate: Candidate, reach: Reach) -> Advice | None:
    """Advice for values that are only constants, if no miss has advice on them alone."""
    one_program = candidate.sure != "ask" and candidate.programs is None
    if not one_program or not candidate.constants:
        return None
    paths = tuple(path for path in reach.paths(candidate) if path)
    changed = [
        part
        for history, _ in reach.columns(candidate)
        for row in history.rows
        for change in row.changes
        for part in with_fields(change)
        if part.path in paths
    ]
    numeric = all(map(is_numeric, changed))
    if candidate.family in OF_ARGUMENTS:
        if not numeric:
            return None
        rows = [row for history, _ in reach.columns(candidate) for row in history.rows]
        passed = through_libraries(
            ToArgument(paths=paths, proof=Proof.CONSTANTS), *(row.program for row in rows)
        )
        by_type = any(is_static_by_type(row.miss) for row in rows)
        return passed.changed(by_type=True, proof=Proof.MEANING) if by_type else passed
    if candidate.family != "meta":
        return None
    if numeric:
        return ToArray(paths=paths, in_tree=True)
    return OneStructure(paths=paths, way="program", proof=Proof.MEANING)


def _omitted(candidate: Candidate, reach: Reach) -> Advice | None:
    """Advice for an argument that some calls omit, if no miss has advice on that alone."""
    if candidate.family != "signature":
        return None
    found = [omitted(history, column) for history, column in reach.columns(candidate)]
    paths = tuple(dict.fromkeys(path for names in found for path in names))
    static = {
        name
        for history, _ in reach.columns(candidate)
        for row in history.rows
        for name, _ in row.miss.key.static
    }
    if static & {*paths}:  # no array can stand for None there
        return FewValues(paths=paths, why="separate", proof=Proof.MEANING)
    return OneStructure(paths=paths, way="omitted", proof=Proof.MEANING) if paths else None


def _from_the_start(candidate: Candidate, reach: Reach) -> OneRank:
    """An array in place of the number of the first call, if no miss has advice on that alone."""
    paths = tuple(path for path in reach.paths(candidate) if path)
    rows = [row.miss for history, _ in reach.columns(candidate) for row in history.rows]
    starts = {array_for_number(rows[0], row, paths) for row in rows} - {""}
    start = starts.pop() if len(starts) == 1 else ""
    return OneRank(paths=paths, start=start, proof=Proof.MEANING)


def _with_all_dtypes(
    advised: OneDtype, own: Sequence[Verdict], columns: Sequence[tuple[History, Column]]
) -> OneDtype:
    """The same advice, naming the dtypes of all calls; each verdict names only two."""
    found = [v.fix for v in own if isinstance(v.fix, OneDtype) and v.fix.paths == advised.paths]
    known = (
        history.value(row, part)
        for history, column in columns
        for part in column.parts
        if part.family == "dtype" and part.path in advised.paths
        for row in range(len(history.rows))
    )
    every = tuple(str(one) for one in dict.fromkeys(known) if one != ABSENT)
    named = tuple(dict.fromkeys(dtype for one in found for dtype in one.dtypes))
    asks = any(one.proof is Proof.MEANING for one in found)
    proof = Proof.MEANING if asks else advised.proof
    return advised.changed(dtypes=(every or named) if named else (), proof=proof)


def _change(candidate: Candidate, own: Sequence[Verdict], reach: Reach) -> Change:
    held = dict.fromkeys(
        str(change.path)
        for verdict in (own if candidate.constants else ())
        for change in verdict.changes
        if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
    )
    if candidate.family == "function":
        held |= dict.fromkeys(name for one in own if one.fix for name in one.fix.holding)
    columns = reach.columns(candidate)
    values, programs = candidate.programs or (0, 0)
    return Change(
        candidate.family,
        tuple(path for path in reach.paths(candidate) if path),
        tuple(dict.fromkeys(function.name for function in reach.functions(candidate))),
        tuple(held),
        values or max((max(column.values) + 1 for _, column in columns), default=0),
        programs,
        candidate.sure == "ask" and not candidate.alike,
    )


def eager_proposal(root: Root) -> Proposal:
    """What to do about eager operations with one cause."""
    operations = [one.miss for one in root.verdicts if one.cause is Cause.EAGER_OP]
    number = len({miss.function.jax_name for miss in operations})
    functions = () if root.function is None else (root.function.rpartition(".")[2],)
    change = Change(
        root.family,
        functions=functions,
        seen=number,
        lines=root.lines,
        loops=root.loops,
        traced=root.traced or root.only_jax,
    )
    plain = FewSizes.code if root.family == "eager-sizes" else JitBlock.code
    code = plain if root.advice is None else root.advice.code
    return Proposal(code, (change,), root.advice, root.site.file, root.site.line)


_FUNCTION = regex(r"<function .+ at ([^:]+):(\d+)(?::\d+)?>")
"""How a static value or field that is a function is printed, with its place in the source."""


def _written_at(
    members: Sequence[Candidate], misses: Sequence[Miss], reach: Reach
) -> tuple[str, int] | None:
    """Where the user wrote the function that is created again, or None if unknown.

    If a library creates the object for the user, as optax does, the line that asked is unknown.
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
    columns = reach.columns(members[0])
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


def _padded(members: Sequence[Candidate], sizes: Sizes, reach: Reach) -> Iterator[Miss]:
    """The calls whose arrays are to be padded, of which the first may not have missed again."""
    for history, column in (one for member in members for one in reach.columns(member)):
        for part in column.parts:
            own = history.sizes(part) if part.axis >= 0 else ()
            if {*own} and {*own} <= {*sizes.seen}:
                rows = zip(history.rows, own, strict=True)
                called = [(row.miss, size) for row, size in rows if not row.miss.nested]
                yield from (miss for miss, size in called if size not in sizes.chosen.sizes)
                break


def _called_from(misses: Sequence[Miss]) -> tuple[str | None, int | None]:
    """The user's line that called most often, or where the function is defined."""
    sites = [m.call_site for m in misses if m.call_site is not None]
    users = [site for site in sites if not site.in_library] or sites
    if users:
        (place, _), *_ = Counter((site.file, site.line) for site in users).most_common(1)
        return place
    function = misses[0].function
    return function.file, function.line

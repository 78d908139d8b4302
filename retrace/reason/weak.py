"""Advice if only the weak type of an argument changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from retrace.compare.equality import identity
from retrace.compare.outputs import Output, arithmetic, outputs
from retrace.compare.source_lines import Listings
from retrace.compare.weak_inputs import computes_the_same
from retrace.model import Frame, Function, Leaf, Miss, Verdict, WeakTypeChange
from retrace.model.advice import Advice, CastCarry, CastNumber, CastResult, OneDtype, Proof
from retrace.reason.asked import replace_advice
from retrace.reason.evidence import Evidence, package_of
from retrace.reason.program import Comparison
from retrace.reason.rules import root


def weak_type(evidence: Evidence) -> Advice | None:
    """What to do if an argument is weakly typed in one call but not in another.

    The advice names the dtype of the strong side, which the program has already seen. Any other
    dtype would add a key and might change results.
    """
    own = [change for change in evidence.changes if isinstance(change, WeakTypeChange)]
    leaves = {leaf.path: leaf for leaf in evidence.miss.key.leaves}
    found = [leaves[change.path] for change in own if change.path in leaves]
    if not found:
        return None
    paths = tuple(leaf.path for leaf in found)
    name = evidence.miss.function.name
    proof = Proof.PROGRAM if keeps_types(evidence.program) else Proof.MEANING
    all_became_weak = not any(change.old for change in own)
    if all_became_weak and (made := _made_weak(evidence, found)) is not None:
        function = evidence.miss.function
        return CastResult(
            paths=paths,
            name=name,
            dtype=found[0].dtype,
            line=_line(made.place, function),
            package=_package(function),
            proof=proof,
        )
    each = tuple([(leaf.path, leaf.dtype, bool(leaf.shape)) for leaf in found])
    types = tuple(dict.fromkeys((dtype, has_axes) for _, dtype, has_axes in each))
    starts_weak = any(change.old for change in own)
    kind = CastCarry if starts_weak and proof is not Proof.MEANING else CastNumber
    became = {change.path for change in own if not change.old} if starts_weak else set[str]()
    later = [leaf for leaf in found if leaf.path in became]
    return kind(
        paths=paths,
        types=types,
        each=each if len(types) > 1 else (),
        name=name,
        later=tuple([leaf.path for leaf in later]),
        returned=_is_returned(evidence, later),
        package=_package(evidence.miss.function),
        proof=proof,
    )


def _package(function: Function) -> str:
    return package_of(function.file) if function.in_library else ""


def proved_for_all(history: list[Verdict]) -> None:
    """A number that could start as an array between two calls, but not as other calls pass it.

    Those two computed with the same dtypes. Others, with another type beside it, may not, unless
    their program shows that the number meets no other dtype.
    """
    for index, verdict in enumerate(history):
        fix = verdict.fix
        if not isinstance(fix, CastCarry) or fix.proof is Proof.MEANING:
            continue
        weak = [one.miss for one in history if _is_weak_at(one.miss, fix.paths)]
        if len({(_others(miss.key.leaves, fix.paths), _static(miss)) for miss in weak}) < 2:
            continue
        texts = None if verdict.program is None else verdict.program.texts
        if texts is None or not all(_could_be_strong(miss, fix.paths, texts) for miss in weak):
            asked = CastNumber(
                paths=fix.paths, types=fix.types, name=fix.name, proof=Proof.MEANING
            )
            replace_advice(history, index, asked)


def as_arrays(history: list[Verdict]) -> None:
    """Numbers of two dtypes that other calls pass as arrays: one dtype, of an array's type."""
    fixes = (one.fix for one in history)
    weak = {p for one in fixes if isinstance(one, CastCarry | CastNumber) for p in one.paths}
    for index, verdict in enumerate(history if weak else ()):
        own = verdict.fix
        if isinstance(own, OneDtype) and own.python and not weak.isdisjoint(own.paths):
            replace_advice(history, index, own.changed(python=False))


def _could_be_strong(miss: Miss, paths: tuple[str, ...], listings: Listings) -> bool:
    """Whether a program computes the same with arrays in place of these numbers."""
    listing = None if miss.program is None else listings.get(miss.program.listing or "")
    if listing is None:
        return False
    first = len(listing.inputs) - len(miss.key.leaves)
    return first == len(listing.constants) and all(
        computes_the_same(listing, first + at, listings)
        for at, leaf in enumerate(miss.key.leaves)
        if leaf.path in paths and leaf.weak_type
    )


def _is_weak_at(miss: Miss, paths: tuple[str, ...]) -> bool:
    return any(leaf.weak_type for leaf in miss.key.leaves if leaf.path in paths)


def _others(leaves: Iterable[Leaf], paths: tuple[str, ...]) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (leaf.path, leaf.dtype, leaf.weak_type) for leaf in leaves if leaf.path not in paths
    )


def _static(miss: Miss) -> tuple[tuple[str, Hashable], ...]:
    return tuple((name, identity(value)) for name, value in miss.key.static)


def is_returned_by_library(evidence: Evidence) -> bool:
    """Whether a function of an installed package got back what it had returned weakly typed."""
    if not evidence.miss.function.in_library:
        return False
    own = [change for change in evidence.changes if isinstance(change, WeakTypeChange)]
    became = {change.path for change in own if not change.old}
    found = [leaf for leaf in evidence.miss.key.leaves if leaf.path in became]
    return _made_weak(evidence, found) is not None


def _line(made: Frame | None, function: Function) -> int | None:
    """The line of the user's function that created a result; None if it is in another file."""
    if made is None or made.in_library or made.file != function.file:
        return None
    return made.line


def keeps_types(program: Comparison | None) -> bool:
    """Whether both programs compute with the same dtypes, as far as known.

    A byte plus a Python number is a byte; a byte plus an `int32` is not.
    """
    listings = None if program is None else program.listings()
    if program is None or listings is None:
        return True
    old, new = ([result.type.lstrip("~") for result in outputs(one)] for one in listings)
    if old != new:
        return False
    before, after = (arithmetic(one, program.texts) for one in listings)
    return before is not None and before == after


def only_scalars_differ(program: Comparison | None) -> bool:
    """Whether all that one program computes and the other does not are numbers without axes."""
    listings = None if program is None else program.listings()
    if program is None or listings is None:
        return False
    before, after = (arithmetic(one, program.texts) for one in listings)
    if before is None or after is None:
        return False
    return all(result.endswith("[]") for _, result, *_ in (before - after) + (after - before))


def _made_weak(evidence: Evidence, found: list[Leaf]) -> Output | None:
    """The weakly typed result of the earlier program that was passed back in, if any."""
    listings = None if evidence.program is None else evidence.program.listings()
    if listings is None:
        return None
    old, new = (listing.inputs for listing in listings)
    # What is weakly typed in both calls has nothing to do with it.
    inputs = {b for a, b in zip(old, new, strict=len(old) == len(new)) if b == f"~{a}"}
    results = outputs(listings[0])
    leaves = evidence.miss.key.leaves
    if len(leaves) == len(new) and found:
        taken = [root(leaf.path) == root(found[0].path) for leaf in leaves]
        own = [type_.lstrip("~") for type_, one in zip(new, taken, strict=True) if one]
        position = [leaf for leaf, one in zip(leaves, taken, strict=True) if one].index(found[0])
        if len(own) > 1 and (starts := _starts([one.type.lstrip("~") for one in results], own)):
            # A state that is returned and passed again has its results in the same order.
            back = [results[start + position] for start in starts]
            return next((result for result in back if result.is_weak), None)
    made = [result for result in results if result.is_weak]
    # A scalar result of the same type may be unrelated; the line then still tells where.
    return next((result for result in made if result.type in inputs and found), None)


def _is_returned(evidence: Evidence, found: list[Leaf]) -> bool:
    """Whether the earlier program surely returned these: it takes nothing else of their type."""
    made, program = _made_weak(evidence, found), evidence.program
    listings = None if program is None else program.listings()
    if made is None or listings is None:
        return False
    type_ = made.type.lstrip("~")
    alike = [one for one in outputs(listings[0]) if one.type.lstrip("~") == type_]
    return len(alike) >= [one.lstrip("~") for one in listings[0].inputs].count(type_)


def _starts(types: list[str], own: list[str]) -> list[int]:
    """Where these types are found among those of all results."""
    last = len(types) - len(own)
    return [start for start in range(last + 1) if types[start : start + len(own)] == own]

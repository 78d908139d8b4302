"""Advice for a body of an eager loop or branch that was defined again."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.compare.keys import read_changes
from retrace.model import Function, Kind
from retrace.model.advice import Advice, DefineBodyOnce, KeepMethod, Library, Proof
from retrace.reason import rules
from retrace.reason.evidence import Evidence, package_of
from retrace.reason.functions import is_traced, may_change
from retrace.reason.held import Held, is_below
from retrace.reason.program import proof_of
from retrace.reason.traits import made_in_call
from retrace.reason.values import is_no_argument


def defined_again(evidence: Evidence) -> Advice:
    """What to do about the body of an eager loop that was defined again."""
    bodies = evidence.miss.bodies
    bound = [body.name for body in bodies if body.kind is Kind.METHOD]
    if bodies and all(body.in_library for body in bodies):
        package = package_of(bodies[0].file)
        return Library(
            name=bodies[0].name,
            package=package,
            maker=made_in_call(evidence.miss),
            is_body=True,
            proof=Proof.MEANING,
        )
    proof = proof_of(evidence.program)
    unknown = _reads_unknown(evidence)
    differing = (*rules.held_otherwise(evidence.changes), *_reads_otherwise(evidence))
    holds = tuple(dict.fromkeys((*differing, *unknown)))
    if proof is Proof.KEY and holds:
        proof = Proof.MEANING
    if bound and not holds:
        return KeepMethod(name=bound[0], reads=may_change(bodies), proof=proof)
    before = () if evidence.nearest is None else evidence.nearest.bodies
    kept = {body.object for body in before if body.object}
    again = [body for body in bodies if body.object not in kept] or bodies
    each = tuple(name for name in holds if is_no_argument(name, evidence.changes))
    held = Held(evidence.changes)
    inject = held.optimizers if is_traced(evidence.program) else ()
    made = () if inject or not is_traced(evidence.program) else held.made_of_numbers(each)
    return DefineBodyOnce(
        bodies=tuple(dict.fromkeys(body.name for body in again)),
        partial=any(body.kind is Kind.PARTIAL for body in bodies),
        package=next(
            (package_of(body.file) for body in bodies if body.in_library),
            _wraps_kept(evidence),
        ),
        holds=holds,
        unknown=unknown,
        each=tuple(name for name in each if name not in made),
        made=made,
        numbers=tuple(name for name in held.numbers if is_below(name, made)),
        inject=tuple(name for name in each if name in inject),
        integers=_integers(bodies, holds),
        flags=_flags(bodies, holds),
        untraceable=evidence.miss.call_site is not None and evidence.miss.call_site.untraceable,
        proof=Proof.MEANING if holds else proof,  # the function around it may take functions
    )


def _reads_otherwise(evidence: Evidence) -> tuple[str, ...]:
    """What the bodies read besides what they close over, and what differs.

    Arrays among it are operands of the loop, so the programs do not show them.
    """
    if evidence.nearest is None:
        return ()
    pairs = zip(evidence.nearest.bodies, evidence.miss.bodies, strict=False)
    return _named(
        (change.path for old, new in pairs for change in read_changes(old, new)), evidence
    )


def _reads_unknown(evidence: Evidence) -> tuple[str, ...]:
    """What the bodies read that is too large to be compared, and perhaps changed in place."""
    if evidence.nearest is None:
        return ()
    reads = (read for body in evidence.miss.bodies for read in body.reads)
    is_large = (
        path for path, value in reads if value.type == "numpy.ndarray" and value.data is None
    )
    return _named(is_large, evidence)


def _named(paths: Iterable[str | None], evidence: Evidence) -> tuple[str, ...]:
    """Those that no change is about."""
    held = {change.path for change in evidence.changes}
    return tuple(dict.fromkeys(path for path in paths if path and path not in held))


def _integers(bodies: tuple[Function, ...], differing: tuple[str, ...]) -> tuple[str, ...]:
    found = [(name, value) for body in bodies for name, value in body.closure]
    integers = [name for name, value in found if value.type == "int" and name not in differing]
    return tuple(dict.fromkeys(integers))


def _flags(bodies: tuple[Function, ...], differing: tuple[str, ...]) -> tuple[str, ...]:
    found = [(name, value.type) for body in bodies for name, value in body.closure]
    flags = [name for name, type_ in found if type_ in ("bool", "str") and name in differing]
    return tuple(dict.fromkeys(flags))


def _wraps_kept(evidence: Evidence) -> str | None:
    """The library whose loop wraps a function of the user's that stayed the same object."""
    miss, nearest = evidence.miss, evidence.nearest
    if miss.through is None or nearest is None:
        return None
    pairs = zip(nearest.bodies, miss.bodies, strict=False)
    kept = any(new.wrappers and new.base and new.base == old.base for old, new in pairs)
    return miss.through.partition(":")[0] if kept else None

"""What to do about a miss, using the user's own names.

Advice is given only if it was seen to remove the miss. Creating a new partial each time, or
`jax.jit(self.method)` in a loop, misses again on every release, so it is never suggested. Advice
that depends on what the program means is phrased as a question.
"""

from __future__ import annotations

from retrace.causes import Cause
from retrace.compare.keys import read_changes
from retrace.model import Change, Component, Function, Kind, Miss
from retrace.model.advice import (
    REUSED,
    Advice,
    BranchInProgram,
    FewMapped,
    FewValues,
    JitAndPass,
    JitForEach,
    KeepBound,
    Library,
    LibraryPasses,
    LoopInProgram,
    OfFunction,
    OneKeyType,
    PassDecision,
    PrintOutside,
    Proof,
    ToArgument,
    ToArray,
    TripsInProgram,
)
from retrace.reason.cards import card
from retrace.reason.evidence import (
    OF_VALUES,
    Evidence,
    is_function,
    is_of_other_code,
    package_of,
    paths,
)
from retrace.reason.held import Held, is_in
from retrace.reason.libraries import through_libraries
from retrace.reason.precedence import others
from retrace.reason.schedules import injects, scheduled
from retrace.reason.traits import (
    calling_library,
    is_mapped,
    is_new_as_well,
    is_of_another_model,
    is_static_by_type,
    jitted_by_library,
    looks_equal,
    made_by_library,
    made_in_call,
    made_of_it,
    of_library,
    passing_library,
    wrapped_by,
)


def advice(cause: Cause, evidence: Evidence, found: tuple[Change, ...]) -> Advice | None:
    """The advice for a miss, or None if nothing is needed or known to work.

    Args:
        cause: why it missed.
        evidence: what is known about it, including what the function reads from outside.
        found: the changes of its key and its function.
    """
    miss = evidence.miss
    if miss.nested and miss.function.in_library:
        return None  # this belongs to the library; the enclosing miss has the advice
    advised = card(cause).proved(evidence) or _fix(cause, evidence)
    if advised is None or cause is Cause.EAGER_OP:
        return advised
    if by := passing_library(cause, miss):
        advised = advised.changed(passed_by=by)
    elif isinstance(advised, ToArgument | ToArray) and is_static_by_type(miss):
        in_tree = any("." in path or "[" in path for path in advised.paths)
        told = {} if isinstance(advised, ToArgument) else {"in_tree": in_tree}
        # As an array it gets gradients, if the tree that it is in does; a number took the dtype
        # of what it is computed with, and an array decides it.
        dtype = "" if evidence.program is None else evidence.program.dtype
        asked = {"proof": Proof.MEANING} if in_tree or not dtype else {}
        advised = advised.changed(by_type=True, dtype=dtype, **told, **asked)
    elif isinstance(advised, _NOT_STATIC) and jitted_by_library(miss):
        package = package_of(miss.function.file)
        advised = advised.changed(jitted_by=package, proof=Proof.MEANING)
    if isinstance(advised, JitAndPass | JitForEach) and is_static_by_type(miss):
        dtype = "" if evidence.program is None else evidence.program.dtype
        numbers = isinstance(advised, JitForEach) or advised.numbers
        asked = {"proof": Proof.MEANING} if numbers and not dtype else {}
        advised = advised.changed(by_type=True, dtype=dtype, **asked)
    if isinstance(advised, ToArgument | JitAndPass | JitForEach) and not injects(advised):
        advised = through_libraries(advised, evidence.program)
    if isinstance(advised, OfFunction):
        passes = isinstance(advised, JitAndPass)
        if maker := made_of_it(evidence.nearest, miss, passes=passes):
            # What else the library was given is not known.
            advised = advised.changed(maker=maker, proof=Proof.MEANING)
    if injects(advised):
        numbers, counts = scheduled(evidence.changes)
        advised = advised.changed(scheduled=numbers, counted=counts)
        if evidence.program is not None and evidence.program.has_short_constants:
            advised = advised.changed(promotes=True, proof=Proof.MEANING)
    if isinstance(advised, _MAPPED) and is_mapped(miss):
        advised = advised.changed(mapped=True)
    return _with_others(advised, others(found, cause))


_MAPPED = (OfFunction, KeepBound, ToArgument, ToArray)
"""Advice that is worded otherwise for a function given to `jax.pmap`."""
_NOT_STATIC = (
    BranchInProgram,
    LoopInProgram,
    PassDecision,
    PrintOutside,
    ToArgument,
    ToArray,
    TripsInProgram,
)
"""Advice that needs a function that is jitted, or written, in another way."""


def _fix(cause: Cause, evidence: Evidence) -> Advice | None:
    miss = evidence.miss
    is_new = is_new_as_well(cause, evidence)
    if is_of_another_model(cause, evidence):
        return None
    if of_library(cause, miss) or (is_new and made_by_library(miss)):
        return _library_advice(cause, miss, evidence.nearest)
    if cause is Cause.CALL_SIGNATURE_CHANGED and (caller := calling_library(miss)):
        package, _, by = caller.partition(":")
        return LibraryPasses(
            name=miss.function.name,
            by=by,
            package=package,
            paths=tuple(paths(evidence.changes, Component.SIGNATURE)),
            proof=Proof.MEANING,
        )
    if (package := wrapped_by(cause, evidence)) is not None:
        return Library(
            name=miss.function.name,
            package=package,
            wraps=True,
            maker=made_in_call(miss),
            proof=Proof.MEANING,
        )
    advise = card(cause).advice
    advised = None if advise is None else advise(evidence)
    if advised is None or not is_new:
        return advised
    held = Held(evidence.changes)
    other = [name for name in held.names if name not in held.alike]
    functions = [name for name in other if is_function(held.parts[name])]
    # Another function is kept apart: what one of other code holds is not all that differs.
    kept = tuple(name for name in functions if is_of_other_code(held.parts[name]))
    calling = tuple(name for name in functions if name not in kept)
    holding = tuple(name for name in other if name not in functions)
    found = advised.changed(remade=miss.function.name, holding=holding, calling=calling)
    if evidence.nearest is None:
        return found
    if of := _of_another(evidence.nearest.function, miss.function):
        return found.changed(another=of, proof=Proof.MEANING)
    read = read_changes(evidence.nearest.function, miss.function)
    reads = [str(one.path) for one in read]
    reading = (*kept, *(path for path in reads if not is_in(path, held.names)))
    return found.changed(reading=reading, proof=Proof.MEANING) if reading else found


def _of_another(old: Function, new: Function) -> str:
    """The library's class of whose objects it is a method, each time of another one."""
    before, after = old.receiver, new.receiver
    if before is None or after is None or not new.in_library or before.object == after.object:
        return ""
    return after.type.rpartition(".")[2]


def _library_advice(cause: Cause, miss: Miss, nearest: Miss | None) -> Advice:
    function = miss.function
    package = package_of(function.file)
    receiver = function.receiver if cause is Cause.METHOD_REBOUND else None
    before = None if nearest is None else nearest.function.receiver
    known = None if receiver is None or before is None else receiver.object
    is_same = known is not None and before is not None and known == before.object
    holder = "" if receiver is None or is_same else receiver.type.rpartition(".")[2]
    if function.kind is Kind.CALLABLE:
        holder = function.name  # whoever created it, it is an object and no function
    return Library(
        name=function.name,
        package=package,
        holder=holder,
        maker=made_in_call(miss),
        rejits=is_same,
        proof=Proof.MEANING,
    )


def _with_others(advised: Advice, others: list[Change]) -> Advice:
    """Add the other changes that must also be fixed before the call can be served."""
    rest = [
        (change.path, REUSED if looks_equal(change) else change.component.value)
        for change in others
        if change.path is not None
        and not (isinstance(advised, _FOR_BOTH) and change.path in advised.paths)
        and (
            change.component not in OF_VALUES
            or not {change.path, _argument(change)} & {*advised.paths}
        )
    ]
    return advised.changed(others=(*advised.others, *rest)) if rest else advised


_FOR_BOTH = (BranchInProgram, FewMapped, FewValues, OneKeyType)
"""Advice that says all there is to say, also of how what it is about is passed."""


def _argument(change: Change) -> str:
    return (change.path or "").partition("[")[0].partition(".")[0]

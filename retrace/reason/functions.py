"""Advice for a new function object, or for what it holds and reads."""

from __future__ import annotations

from retrace.compare.equality import type_name
from retrace.model import (
    Function,
    Kind,
    Miss,
    Stage,
    Value,
)
from retrace.model.advice import (
    Advice,
    JitAndPass,
    JitForEach,
    JitOnce,
    KeepBound,
    KeepTraced,
    OneReceiver,
    OwnCell,
    PassState,
    PassTraced,
    Proof,
    What,
)
from retrace.reason import rules, values
from retrace.reason.evidence import (
    Evidence,
    holds_arrays,
    is_bools,
    package_of,
    values_of,
)
from retrace.reason.fields import is_complete
from retrace.reason.held import SELF, Held, is_below
from retrace.reason.program import Comparison
from retrace.reason.traits import looks_the_same
from retrace.reason.values import is_plain_type


def made_again(evidence: Evidence) -> Advice:
    """What to do about a function that was created again."""
    miss, nearest = evidence.miss, evidence.nearest
    changes, program = evidence.changes, evidence.program
    function = miss.function
    held = Held(changes)
    name, what = function.name, _how_created(miss, nearest)
    if miss.ahead and Stage.COMPILE not in miss.stages and nearest is not None and nearest.ahead:
        if held.found or _may_differ(program):
            return PassTraced(name=name, what=what, paths=held.names, proof=Proof.MEANING)
        return KeepTraced(name=name, what=what, proof=Proof.PROGRAM)
    if held.objects:
        unexplained = _is_unexplained(held, program)
        same = {*held.objects, *held.functions} <= {*held.alike} and not unexplained
        passed = _passing(function, what, held, program)
        alike = all(looks_the_same(held.parts[name]) for name in held.objects)
        if alike and not same and not unexplained and _captures_more(held, program):
            # A new one each time, over other arrays, is nothing to keep a function by.
            return _passing_captured(function, what, held, program).changed(proof=Proof.MEANING)
        proof = Proof.PROGRAM if same and not _may_differ(program) else Proof.KEY
        return JitForEach(
            name=name,
            what=what,
            paths=(*held.objects, *held.functions),
            same=same,
            unexplained=unexplained,
            traced=passed.traced,
            static=passed.static,
            computed=passed.computed,
            proof=Proof.MEANING if unexplained else proof,
        )
    if function.kind is Kind.PARTIAL:
        return _passing_partial(function, held, program)
    # Nothing in an equal program depends on the values that differ.
    is_read = bool(held.functions) or program is None or program.kind != "identical"
    if held.found and not held.arrays and _only_calls_back(program):
        return JitOnce(name=name, what=what, calls_back=True, proof=Proof.MEANING)
    if _captures_more(held, program) or (held.found and is_read):
        if function.in_library and held.found:
            return _kept_for_each(function, what, held, program)
        return _passing_captured(function, what, held, program)
    if _ran_again(function.file, None if nearest is None else nearest.function.file):
        return OwnCell(name=name, what=what)
    # The program differs although the function holds the same: it reads something else.
    differs = _may_differ(program)
    return JitOnce(
        name=name,
        what=what,
        renames=program is not None and program.returns_others,
        calls_back=_only_calls_back(program),
        unread=tuple(name for name in held.names if name not in held.alike),
        reads=may_change((function,)),
        unknown=_read_in_part(function) if differs else (),
        proof=Proof.MEANING if differs else Proof.PROGRAM,
    )


def _kept_for_each(
    function: Function, what: What, held: Held, program: Comparison | None
) -> JitForEach:
    """Keep a library's function for each of what it holds: it has no parameters for that."""
    optax = package_of(function.file) == "optax" and function.name in ("update", "update_fn")
    injects = optax and bool(held.numbers) and not held.plain and is_traced(program)
    return JitForEach(
        name=function.name,
        what=what,
        paths=held.names,
        same=False,
        by_value=not injects,
        injects=injects,
        proof=Proof.MEANING if _captures_more(held, program) else Proof.KEY,
    )


def _passing_captured(
    function: Function, what: What, held: Held, program: Comparison | None
) -> JitAndPass:
    """Pass what it captures or reads: captured at the first call, it would stay as it was."""
    if not _captures_more(held, program):
        return _passing(function, what, held, program)
    unexplained = _has_other_numbers(held, program)
    return JitAndPass(
        name=function.name,
        what=what,
        traced=(*held.arrays, *held.numbers),
        static=tuple(held.plain),
        reads=True,
        functions=tuple(held.functions),
        resized=_is_resized(held, program),
        unexplained=unexplained,
        proof=Proof.MEANING if unexplained else Proof.KEY,
    )


def _how_created(miss: Miss, nearest: Miss | None) -> What:
    function = miss.function
    is_plain_function = function.kind in (Kind.DEF, Kind.LAMBDA)
    if is_plain_function and nearest and rules.wrapped_again(nearest.function, function):
        return What.WRAPPED
    return _OF_KIND.get(function.kind, What.FUNCTION)


_OF_KIND = {
    Kind.LAMBDA: What.LAMBDA,
    Kind.PARTIAL: What.PARTIAL,
    Kind.TRANSFORM: What.TRANSFORMED,
}


def _passing(
    function: Function, what: What, held: Held, program: Comparison | None
) -> JitAndPass:
    """Pass what it captures as arguments, traced only if the programs show that this works."""
    traced = is_traced(program)
    inject = tuple(held.optimizers if traced else ())
    numbers = [name for name in held.numbers if not is_below(name, inject)]
    proof = Proof.CONSTANTS if traced and held.parts and not held.plain else Proof.KEY
    computed = traced and bool(numbers) and _computes(held, program)
    in_part = held.partly_known or _read_in_part(function)
    unexplained = _is_unexplained(held, program) or (computed and bool(in_part))
    return JitAndPass(
        name=function.name,
        what=what,
        traced=(*held.arrays, *(numbers if traced else ())),
        picks=tuple(name for name in held.arrays if is_bools(held.parts[name])),
        static=(*held.plain, *(() if traced else numbers)),
        computed=computed,
        numbers=traced and bool(numbers),
        folded=traced and bool(numbers) and program is not None and program.folds,
        resized=bool(held.arrays) and _is_resized(held, program),
        inject=inject,
        functions=tuple(held.functions),
        unexplained=unexplained,
        proof=Proof.MEANING if unexplained else proof,
    )


def _is_unexplained(held: Held, program: Comparison | None) -> bool:
    """Whether the program is another one, and nothing that was recorded of what it holds is."""
    if program is None or program.kind not in ("constants-only", "different"):
        return False
    return program.hashes_differ and all(map(looks_the_same, held.parts.values()))


def _has_other_numbers(held: Held, program: Comparison | None) -> bool:
    """Whether the program holds other numbers, and nothing but arrays is known to differ."""
    if program is None or program.kind != "constants-only" or not program.hashes_differ:
        return False
    return not held.numbers and not held.plain


def _captures_more(held: Held, program: Comparison | None) -> bool:
    """Whether the program captured arrays that have no name here, as a held function does."""
    if program is None or not program.captures_others or (held.arrays and not held.functions):
        return False
    sides = (side for name in held.arrays for side in values_of(held.parts[name]))
    return program.captures_besides({side.token for side in sides if side is not None})


def _passing_partial(
    function: Function, held: Held, program: Comparison | None
) -> JitAndPass | JitForEach:
    """Pass what it binds as arguments, but keep it for an object, which JAX does not trace.

    Whether unchanged values affect the program is unknown. They become static, which always
    works.
    """
    if held.found:
        advised = _passing(function, What.PARTIAL, held, program)
        traced, static = list(advised.traced), list(advised.static)
    else:
        advised = JitAndPass(name=function.name, what=What.PARTIAL, proof=Proof.PROGRAM)
        traced, static = [], []
    objects: list[str] = []
    if function.receiver is not None:
        # Of a bound method: jitted by itself, it would take the object as an argument.
        objects.append(SELF)
        traced = [name for name in traced if not is_below(name, (SELF,))]
        static = [name for name in static if not is_below(name, (SELF,))]
    for name, value in function.bound:
        if any(one == name or is_below(one, (name,)) for one in held.names):
            if _is_object(value) and name not in held.names:
                objects.append(name)
        elif _is_static(value):
            static.append(name)
        elif holds_arrays(value):
            traced.append(name)
        elif _is_object(value):
            objects.append(name)
    if objects:
        reads = _captures_more(held, program)
        return JitForEach(
            name=function.name,
            what=What.PARTIAL,
            paths=(*objects, *advised.inject),
            same=False,
            traced=tuple(traced),
            static=tuple(static),
            reads=reads,
            unexplained=advised.unexplained,
            proof=Proof.MEANING if reads else advised.proof,
        )
    return JitAndPass(
        name=function.name,
        what=What.PARTIAL,
        traced=tuple(traced),
        static=tuple(static),
        computed=advised.computed,
        numbers=advised.numbers,
        resized=advised.resized,
        inject=advised.inject,
        bound=True,
        jitted="jit" in function.wrappers,
        proof=advised.proof,
    )


def _is_static(value: Value) -> bool:
    return is_plain_type(value.type) or value.type.rpartition(".")[2] in ("function", "type")


def _is_object(value: Value) -> bool:
    """Whether it is an object of a class of the user's or a library's, and no arrays."""
    module, _, name = value.type.rpartition(".")
    return (
        bool(module)
        and not name.endswith("function")
        and name not in ("method", "partial", "type")
        and not holds_arrays(value)
    )


def _only_calls_back(program: Comparison | None) -> bool:
    """Whether what differs can only be in functions that the program calls back."""
    return program is not None and not program.hashes_differ and program.calls_back


def _may_differ(program: Comparison | None) -> bool:
    """Whether the program is different, or may well be."""
    return program is not None and not program.is_wasted


def _computes(held: Held, program: Comparison | None) -> bool:
    """Whether the constants of the program are computed from the numbers."""
    numbers = [held.parts[name] for name in held.numbers]
    known = program is not None and program.kind == "constants-only"
    return known and program is not None and not values.are_constants(numbers, program)


def is_traced(program: Comparison | None) -> bool:
    # A value that decides a shape, an `if`, a `for` or the bounds of a slice cannot be traced.
    if program is None:
        return True
    # One that names a result, such as a key of a dict, cannot either.
    fixed = program.fixed or program.names_results
    return program.kind in (None, "constants-only") and not fixed


def _is_resized(held: Held, program: Comparison | None) -> bool:
    """Whether the captured arrays have other sizes: no number that is captured explains them."""
    return program is not None and program.kind == "shapes-only" and not held.numbers


def _ran_again(file: str | None, before: str | None) -> bool:
    """Whether a notebook cell ran again; each run has its own number."""
    cells = [one for one in (file, before) if one is not None and one.startswith("In [")]
    return len(cells) == 2 and file != before


def rebound(evidence: Evidence) -> Advice:
    """What to do about a bound method or callable instance that is new."""
    miss, nearest = evidence.miss, evidence.nearest
    name = miss.function.name
    before = None if nearest is None else nearest.function.receiver
    after = miss.function.receiver
    is_method = miss.function.kind is Kind.METHOD
    if before is not None and after is not None:
        other = after.object is None or before.object != after.object
        if other and (is_method or _differs(evidence)):
            proof = Proof.MEANING if _differs(evidence) else Proof.PROGRAM
            type_ = type_name(after.type)
            return OneReceiver(name=name, type=type_, is_method=is_method, proof=proof)
    program, held = evidence.program, Held(evidence.changes)
    if is_method and (_captures_more(held, program) or held.found):
        return _passing_captured(miss.function, What.METHOD, held, program)
    proof = Proof.MEANING if _may_differ(program) else Proof.PROGRAM
    return KeepBound(
        name=name,
        is_method=miss.function.kind is not Kind.CALLABLE,
        reads=may_change((miss.function,)),
        proof=proof,
    )


def _differs(evidence: Evidence) -> bool:
    """Whether another receiver gives another program or reads other values."""
    program = evidence.program
    return Held(evidence.changes).found or (program is not None and program.kind != "identical")


def hidden(evidence: Evidence) -> Advice:
    """What to do about a function that reads something other than its arguments."""
    return PassState(name=evidence.miss.function.name)


def may_change(functions: tuple[Function, ...]) -> tuple[str, ...]:
    """Attributes and items that they read: not functions, and not plain globals."""
    found = [
        path
        for function in functions
        for path, value in function.reads
        if ("." in path or "[" in path) and not _is_static_object(value)
    ]
    return tuple(dict.fromkeys(found))


def _read_in_part(function: Function) -> tuple[str, ...]:
    """What it reads and may hold more than was recorded, as the functions of an optimizer do."""
    found = [
        name
        for name, value in function.reads
        if not is_complete(value) and not _is_static_object(value)
    ]
    return tuple(dict.fromkeys(found))


def _is_static_object(value: Value) -> bool:
    """Whether it is a function, a class or a module, which few programs replace."""
    return value.type.rpartition(".")[2] in (
        *("function", "method", "type", "module", "partial", "PjitFunction"),
        *("builtin_function_or_method", "custom_jvp", "custom_vjp"),
    )

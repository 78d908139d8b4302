"""What to do about a miss: one sentence, with the user's own names.

Only advice that was seen to remove the miss is given. A partial made afresh, or
`jax.jit(self.method)` in a loop, misses again on every release: nobody is sent there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from retrace.causes import Cause
from retrace.compare.detail import same_but_scope, type_name
from retrace.model import Change, Component, Fix, Kind, Miss, Stage
from retrace.reason import rules
from retrace.reason.avoidable import (
    is_another_model,
    is_new_as_well,
    of_library,
    partial_batch,
    stands_for_none,
    unused,
)
from retrace.reason.eager import eager
from retrace.reason.evidence import (
    Evidence,
    grown,
    innermost,
    is_another_function,
    is_arrays,
    is_function,
    listed,
    package_of,
    part,
    paths,
    resized,
)
from retrace.reason.fields import field_changes
from retrace.reason.program import Comparison
from retrace.reason.statics import static_argument, tree_structure
from retrace.reason.values import is_amount, is_plain
from retrace.reason.weak import weak_type

_MESH = re.compile(r"mesh\{[^}]*\}")


def fix(cause: Cause, evidence: Evidence) -> Fix | None:
    """The advice for a miss; None where there is nothing to do or nothing known to work."""
    miss = evidence.miss
    is_new = is_new_as_well(cause, miss, evidence.changes)
    if of_library(cause, miss) or (is_new and miss.function.in_library):
        return _of_library(miss)
    advise = _ADVICE.get(cause)
    advised = None if advise is None else advise(evidence)
    if advised is None or not is_new:
        return advised
    also = f"; `{miss.function.name}` is a new function object as well: jit it once."
    return Fix(advised.code, f"{advised.text.removesuffix('.')}{also}")


def _of_library(miss: Miss) -> Fix:
    where = package_of(miss.function.file)
    text = (
        f"`{miss.function.name}` is {where}'s, which made it anew: make the object that it "
        f"comes from once, and jit that once; where {where} makes it at each call, report it "
        "there."
    )
    return Fix("library", text)


def _again(evidence: Evidence) -> Fix:
    miss, nearest, changes, program = evidence
    function = miss.function
    if miss.ahead and Stage.COMPILE not in miss.stages and nearest is not None and nearest.ahead:
        what = "the lambda" if function.kind is Kind.LAMBDA else f"`{function.name}`"
        text = f"keep {what} in a variable and pass that object each time: a new one is traced."
        return Fix("reuse-object", text)
    what = {
        Kind.LAMBDA: "the lambda",
        Kind.PARTIAL: f"`{function.name}` itself",
        Kind.TRANSFORM: f"the transformed `{function.name}`",
    }.get(function.kind, f"`{function.name}`")
    is_plain_function = function.kind in (Kind.DEF, Kind.LAMBDA)
    if is_plain_function and nearest and rules.wrapped_again(nearest.function, function):
        what = f"the wrapped `{function.name}`"
    held = _Held(changes)
    if held.objects:
        text = f"keep one jitted `{function.name}` for each {listed(held.objects)}, and call that"
        if held.alike == held.objects:
            text = f"make {listed(held.objects)} once, jit one `{function.name}` over that, and"
            text = f"{text} call it"
        if held.arrays:
            text += f"; pass {listed(held.arrays)} as {_arguments(held.arrays)}"
        return Fix("jit-once", f"{text}.")
    if function.kind is Kind.PARTIAL:
        names = [name for name, _ in (*function.bound, *function.closure)]
        names = listed(names) or "what the partial binds"
        text = f"jit {what} once, at module level, and pass {names} at each call."
        if not _is_traced(program) or held.plain:
            text = f"{text[:-1]}, static: each value has a program of its own."
        return Fix("jit-once-pass-arguments", text)
    if program is not None and program.captures_others and not held.arrays:
        # What it captured of the first call would stay in the program for ever.
        also = f"{listed(held.numbers)} and " if held.numbers else ""
        text = f"jit {what} once, outside the loop, and pass {also}the arrays that it reads"
        return Fix("jit-once-pass-arguments", f"{text} as arguments.")
    if held.arrays or held.plain or held.numbers:
        traced = _is_traced(program)
        passed = [*held.arrays, *(held.numbers if traced else ())]
        static = [*held.plain, *(() if traced else held.numbers)]
        ways = [f"pass {listed(passed)} as {_arguments(passed)}"] if passed else []
        if static:
            own = "each value has a program of its own"
            ways.append(f"pass {listed(static)} as {_arguments(static, 'static')}: {own}")
        text = f"jit {what} once, outside the loop, and {', and '.join(ways)}."
        return Fix("jit-once-pass-arguments", text)
    if _ran_again(function.file, None if nearest is None else nearest.function.file):
        text = f"keep {what} in a cell of its own, and run that again only after an edit."
        return Fix("own-cell", text)
    text = f"jit {what} once, outside the loop or at module level, and call the result."
    return Fix("jit-once", text)


class _Held:
    """What a function made again holds or reads that changed, by how it can be passed."""

    def __init__(self, changes: tuple[Change, ...]) -> None:
        told = paths(changes, Component.CLOSURE)
        parts = [
            part
            for change in changes
            if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
            # What of it the code reads is told by itself.
            if not any(
                str(other).startswith((f"{change.path}.", f"{change.path}[")) for other in told
            )
            for part in (field_changes(change) or (change,))
        ]
        names = innermost(list(dict.fromkeys(str(part.path) for part in parts)))
        kept = {str(part.path): part for part in parts if part.path in names}
        self.arrays = [name for name, part in kept.items() if is_arrays(part)]
        self.numbers = [name for name, part in kept.items() if is_amount(part)]
        self.plain = [
            name
            for name, part in kept.items()
            if is_plain(part) and name not in (*self.arrays, *self.numbers)
        ]
        self.found = bool(kept)
        known = {*self.arrays, *self.numbers, *self.plain}
        self.alike = [name for name, part in kept.items() if "looks the same" in part.detail]
        # A function that looks the same is made again by what makes this one again.
        self.objects = [
            name
            for name, part in kept.items()
            if name not in known and (not is_function(part) or is_another_function(part))
        ]


def _arguments(names: list[str], kind: str = "") -> str:
    if len(names) > 1:
        return f"{kind} arguments".strip()
    return f"a {kind} argument" if kind else "an argument"


def _is_traced(program: Comparison | None) -> bool:
    # What steers a shape, an `if` or a `for` cannot be traced.
    return program is None or program.kind in (None, "identical", "constants-only")


def _ran_again(file: str | None, before: str | None) -> bool:
    """Whether a notebook cell ran again: each run has a number of its own."""
    cells = [one for one in (file, before) if one is not None and one.startswith("In [")]
    return len(cells) == 2 and file != before


def _rebound(evidence: Evidence) -> Fix:
    miss, nearest = evidence.miss, evidence.nearest
    name = miss.function.name
    before = None if nearest is None else nearest.function.receiver
    after = miss.function.receiver
    if before is not None and after is not None:
        other = after.object is None or before.object != after.object
        type_ = type_name(after.type)
        if other and miss.function.kind is Kind.METHOD:
            text = (
                f"keep one `{type_}` object, or pass to `{name}` as arguments what differs "
                "between them: JAX has a program for each object."
            )
            return Fix("one-receiver", text)
        if other and _differs(evidence):
            text = (
                f"give `{type_}` as arguments what differs between its instances, and keep one "
                "of them: JAX has a program for each."
            )
            return Fix("one-receiver", text)
    if miss.function.kind is Kind.CALLABLE:
        text = f"keep one `{name}` instance and one jitted function made of it, and call that."
        return Fix("jit-once", text)
    return Fix(
        "jit-once", f"keep `jax.jit(...{name})` in a variable or attribute, and call that."
    )


def _differs(evidence: Evidence) -> bool:
    """Whether another receiver makes another program, or reads other values."""
    program = evidence.program
    return _Held(evidence.changes).found or (program is not None and program.kind != "identical")


def _options(evidence: Evidence) -> Fix:
    names = listed(paths(evidence.changes, Component.OPTIONS)) or "its options"
    text = (
        f"`{evidence.miss.function.name}` was jitted with two settings of {names}, and each has "
        "a program: if one will do for both, jit it once; if both are meant, leave them."
    )
    return Fix("jit-once", text)


def _config(evidence: Evidence) -> Fix:
    names = listed(paths(evidence.changes, Component.CONFIG))
    if evidence.nearest is not None and evidence.nearest.thread != evidence.miss.thread:
        text = (
            f"{names} was set by a context manager in another thread, and holds there alone: "
            "enter the context in this thread as well, or set it by `jax.config.update`."
        )
        return Fix("one-config", text)
    text = f"set {names} once, before the first call, or make every call in the same context."
    return Fix("one-config", text)


def _signature(evidence: Evidence) -> Fix:
    names = listed(paths(evidence.changes, Component.SIGNATURE))
    if optional := stands_for_none(evidence.miss, evidence.changes):
        text = f"give {listed(optional)} an array at every call: left out, it stands for None."
        return Fix("one-structure", text)
    many = [path.partition("[")[0] for path in paths(evidence.changes, Component.SIGNATURE)]
    if any("[" in path for path in paths(evidence.changes, Component.SIGNATURE)):
        text = f"give {listed(list(dict.fromkeys(many)))} the same arguments at every call."
        return Fix("one-call-style", text)
    return Fix("one-call-style", f"pass {names} the same way at every call.")


def _shape(evidence: Evidence) -> Fix | None:
    changes = evidence.changes
    shape, dtype = Component.SHAPE, Component.DTYPE
    own: list[Any] = [change for change in changes if change.component is shape]
    name = listed([change.path for change in own])
    if [change for change in changes if change.component is dtype and "key<" in change.detail]:
        text = f"make {name} in one way at every call, best by `jax.random.key`."
        return Fix("one-key-type", text)
    if sizes := [pair for change in own for pair in resized(change) or ()]:
        if any(same_but_scope(*pair) for pair in sizes):
            text = (
                f"make the symbolic dimensions of {name} once, and give the same ones each time: "
                "JAX takes those of another scope for other sizes."
            )
            return Fix("one-scope", text)
        if any(grown(*pair) is None for pair in sizes):
            return None  # a symbolic size and a number: nobody can pad one to the other
    unread = unused(evidence.miss, evidence.program)
    if own and all(change.path in unread for change in own):
        them = "it" if len(own) == 1 else "them"
        text = f"`{evidence.miss.function.name}` never uses {name}: do not pass {them}."
        return Fix("leave-out", text)
    if is_another_model(evidence.miss, changes):
        text = (
            f"{name} have other sizes: this is another model, which needs a program of its own."
        )
        return Fix("nothing", text)
    if partial_batch(evidence.miss, evidence.nearest, changes):
        text = (
            "if these rows are what is left at the end of a dataset, drop or pad that last batch "
            "(`drop_remainder=True`, or a mask); else round axis 0 up to a few sizes."
        )
        return Fix("pad-batch", text)
    if {len(change.old) - len(change.new) for change in own} - {0}:
        return Fix("one-rank", f"give {name} the same number of axes at every call.")
    return pad_shape(changes)


def pad_shape(changes: tuple[Change, ...]) -> Fix:
    """What to do about arrays of many sizes."""
    name = listed([change.path for change in changes if change.component is Component.SHAPE])
    text = (
        f"pad {name} with NumPy (`jnp.pad` compiles for each shape) to one shape, or to a few, "
        "and mask what was added."
    )
    return Fix("pad-shape", text)


def _dtype(evidence: Evidence) -> Fix | None:
    own = [change for change in evidence.changes if change.component is Component.DTYPE]
    if not own:
        return None
    name = listed([change.path for change in own])
    if len({(change.old, change.new) for change in own}) > 1:
        return Fix("cast-argument", f"give each of {name} one dtype at every call.")
    both = f"{own[0].old} or {own[0].new}"
    return Fix("cast-argument", f"give {name} one dtype at every call: {both}, not both.")


def _sharding(evidence: Evidence) -> Fix:
    own = [change for change in evidence.changes if change.component is Component.SHARDING]
    name = listed([change.path for change in own])
    it = "it" if len(own) == 1 else "them"
    they = "it" if len(own) == 1 else "they"
    if evidence.nearest is not None and evidence.nearest.ahead and not evidence.miss.ahead:
        text = (
            f"lower it ahead of time with {name} placed as the call has {it}: "
            "`jax.ShapeDtypeStruct(shape, dtype, sharding=...)`."
        )
        return Fix("lower-with-sharding", text)
    sides = [part(side, "sharding") for change in own for side in (change.old, change.new)]
    meshes = [_MESH.search(str(side)) for side in sides]
    if all(meshes) and len({found[0] for found in meshes if found}) > 1:
        text = f"make one mesh and place {name} on it at every call: another mesh misses."
        return Fix("one-mesh", text)
    if own and all(str(side).startswith("SingleDevice(") for side in sides):
        text = (
            f"keep {name} on one device, or shard {it} over all by one `NamedSharding`: "
            "JAX compiles a program for each device."
        )
        return Fix("one-sharding", text)
    return Fix(
        "place-first",
        f"put {name} where {they} will live before the first call as well (`jax.device_put`).",
    )


def _cleared(_: Evidence) -> Fix:
    return Fix("keep-caches", "do not clear the caches between calls of one function.")


def _hidden(evidence: Evidence) -> Fix:
    name = evidence.miss.function.name
    return Fix("pass-state", f"pass to `{name}` as an argument what it reads from outside.")


def _body(evidence: Evidence) -> Fix:
    names = list(dict.fromkeys(body.name for body in evidence.miss.bodies))
    bound = [body.name for body in evidence.miss.bodies if body.kind is Kind.METHOD]
    if bound:
        text = (
            f"keep the bound method `{bound[0]}` in a variable and pass that (each access to "
            f"`.{bound[0]}` makes a new object), or jit the function around it once."
        )
        return Fix("keep-method", text)
    what = "what this line defines" if names == ["<lambda>"] else listed(names)
    is_made = "are made" if len(names) > 1 else "is made"
    text = (
        f"jit the function around it once, and call that; a `scan`, `while_loop` or `cond` is "
        f"also served where {what} {is_made} once, at module level."
    )
    return Fix("define-body-once", text)


_ADVICE: dict[Cause, Callable[[Evidence], Fix | None]] = {
    Cause.FUNCTION_REDEFINED: _again,
    Cause.LAMBDA_RECREATED: _again,
    Cause.PARTIAL_RECREATED: _again,
    Cause.TRANSFORM_RECREATED: _again,
    Cause.METHOD_REBOUND: _rebound,
    Cause.JIT_OPTIONS_CHANGED: _options,
    Cause.CONFIG_CHANGED: _config,
    Cause.STATIC_ARGUMENT_CHANGED: static_argument,
    Cause.CALL_SIGNATURE_CHANGED: _signature,
    Cause.TREE_STRUCTURE_CHANGED: tree_structure,
    Cause.SHAPE_CHANGED: _shape,
    Cause.DTYPE_CHANGED: _dtype,
    Cause.WEAK_TYPE_CHANGED: weak_type,
    Cause.SHARDING_CHANGED: _sharding,
    Cause.CACHE_CLEARED: _cleared,
    Cause.JAXPR_CHANGED: _hidden,
    Cause.EAGER_OP: eager,
    Cause.CONTROL_FLOW_RECREATED: _body,
}

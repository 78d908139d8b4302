"""Advice for operations that run outside all jitted functions."""

from __future__ import annotations

from collections.abc import Iterable

from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Change, Component, Miss, ShapeChange, Stage, Verdict
from retrace.model.advice import (
    Advice,
    AtImport,
    EnableJit,
    FewSizes,
    InCallback,
    InTrace,
    JitBlock,
    JitInit,
    LeaveEager,
    LibraryCall,
    Proof,
)
from retrace.model.parts import OF_ARGUMENTS, OF_OPTIONS
from retrace.reason.evidence import Evidence, grown

LENGTH = "length"
"""The number of steps a `scan` takes."""
_DISABLE_JIT = "jax_disable_jit"
_SHAPE_PARAMETERS = frozenset(
    (
        *("shape", "new_sizes", "padding_config", "slice_sizes", "start_indices"),
        *("limit_indices", LENGTH),
    )
)
_OF_PLACE = OF_OPTIONS | {Component.SIGNATURE}
_INIT = {
    "flax": ("init", "init_with_output", "lazy_init"),
    "haiku": ("init_fn",),
    "optax": ("init_fn",),
}
"""Methods that create parameters or their state and may be called inside `jax.jit`, according to
their library. A method of this name elsewhere may leak tracers, as numpyro's `SVI.init` does."""
_LAYERS = {
    "equinox": ("__call__",),
    "flax": ("__call__", "apply"),
    "haiku": ("__call__", "apply_fn"),
}
"""Methods that apply a layer or a whole model, according to their library."""
_JOINING = ("concatenate", "stack")
"""Operations that take any number of arrays; since jax 0.10 `jnp.stack` is one of its own."""
_COMPILING = ("Jit", "Pmap")
"""Parts of the names of classes whose objects are jitted functions themselves."""
PURE = ("optax",)
"""Libraries of which every function works in a jitted function."""
_MODULES = ("equinox", "flax")
"""Libraries whose modules are trees of arrays, so that jitted functions can return them."""
OF_MODULES = ("equinox", "flax", "haiku", "keras", "numpyro")
"""Libraries that call methods of the user's modules, or models that hand values to the library
inside (`numpyro.sample`), which are not functions of arrays alone."""


def eager(evidence: Evidence) -> Advice | None:
    """What to do about an eager operation, depending on who runs it and why."""
    miss = evidence.miss
    if (advised := of_caller(miss)) is not None:
        return advised
    if evidence.nearest is None:
        return None
    if miss.lines is not None and evidence.nearest.lines != miss.lines:
        return JitBlock(proof=Proof.MEANING)  # called elsewhere: the shapes are unrelated
    if miss.bodies and same_work(evidence.nearest, miss) and by_size(evidence.changes):
        return FewSizes(
            loop=True,
            captured=keeps_length(miss, evidence.changes),
            body=new_body(miss, evidence.nearest),
            proof=Proof.MEANING,
        )
    program = evidence.program
    if program is not None and program.draws and by_size(evidence.changes):
        return FewSizes(draws=True, proof=Proof.MEANING)
    # Under jit, shapes that change every round would miss every round, and an operation
    # that depends on data, such as a boolean mask, cannot be jitted at all.
    if same_work(evidence.nearest, miss) and any(map(grows, evidence.changes)):
        return FewSizes(grows=True, proof=Proof.MEANING)
    if same_work(evidence.nearest, miss) and by_size(evidence.changes):
        return FewSizes(joined=joins(evidence.nearest, miss), proof=Proof.MEANING)
    return JitBlock(proof=Proof.MEANING)


def of_caller(miss: Miss) -> Advice | None:
    """Advice that depends only on who runs the operation, or None for the user's own lines."""
    site = miss.call_site
    if miss.disabled:
        return EnableJit(at=dict(miss.settings).get(_DISABLE_JIT))
    if miss.within == "callback":
        return InCallback()
    if is_in_trace(miss):
        of_library = miss.through is not None or (site is not None and site.in_library)
        return LeaveEager(who="library", in_trace=True) if of_library else InTrace()
    if miss.within == "import":
        # The module may be a library's, which one of its functions imports when it is called.
        if site is None or site.in_library or miss.via is not None or _imports(site.source):
            return LeaveEager(who="import")
        return AtImport()
    if miss.through is not None:
        return _through(miss.through, _called_back(miss))
    if site is not None and site.in_library:
        return LeaveEager(who="library")
    return None


def is_in_trace(miss: Miss) -> bool:
    """Whether JAX computed it while it traced a function, as `jax.ensure_compile_time_eval` asks.

    An operation that JAX derives from another one, for a gradient, also belongs to that one.
    """
    return miss.parent is not None and miss.derived is None and Stage.COMPILE in miss.stages


def same_work(old: Miss, new: Miss) -> bool:
    """Whether one place ran the same operation twice, with the same body if it is a loop."""
    if new.within == "tree":
        return False  # leaves of one tree are not sizes of one thing
    bodies = [[(body.site, body.code) for body in miss.bodies] for miss in (old, new)]
    return old.lines == new.lines and bodies[0] == bodies[1]


def joins(old: Miss, new: Miss) -> bool:
    """Whether an operation that joins arrays was given a different number of them."""
    return new.function.jax_name in _JOINING and len(old.key.leaves) != len(new.key.leaves)


def keeps_length(miss: Miss, changes: Iterable[Change]) -> bool:
    """Whether a loop takes as many steps as before: then arrays that its body reads changed."""
    has_length = any(name == LENGTH for name, _ in miss.key.static)
    return has_length and not any(
        change.component in OF_ARGUMENTS and change.path == LENGTH for change in changes
    )


def new_body(miss: Miss, nearest: Miss | None) -> str | None:
    """The body of a loop whose function object differs from that of the closest key."""
    before = () if nearest is None else nearest.bodies
    return next(
        (
            new.name
            for old, new in zip(before, miss.bodies, strict=False)
            if old.object != new.object
        ),
        None,
    )


def by_size(changes: Iterable[Change]) -> bool:
    """Whether the operation differs only in sizes."""
    shapes = (Component.SHAPE, Component.TREE, Component.SIGNATURE)
    own = [change for change in changes if change.component not in NOT_IN_KEY]
    return bool(own) and all(change.component in shapes or _is_shape(change) for change in own)


def _called_back(miss: Miss) -> str | None:
    """The user's function that a library called and that ran the operation itself, if any."""
    site, entry = miss.call_site, miss.entry
    if site is None or entry is None or site.in_library or miss.via is not None:
        return None
    own = (site.file, site.function)
    name = site.function.rpartition(".")[2]
    # What the line's own function calls through a decorator is not handed to the library.
    return None if own == (entry.file, entry.function) or name.startswith(("<", "__")) else name


def _through(through: str, called_back: str | None = None) -> Advice:
    package, _, name = through.partition(":")
    owner, _, method = name.rpartition(".")
    if method in _INIT.get(package, ()):
        return JitInit(name=method.removesuffix("_fn"), package=package)
    if method == "__call__" and owner.endswith("Meta") and package in _MODULES:
        # It may hold only arrays, or a module that is also held elsewhere.
        return JitInit(package=package, proof=Proof.MEANING)
    pure = package in PURE or (
        method in _LAYERS.get(package, ()) and not any(one in owner for one in _COMPILING)
    )
    if method.endswith("_fn"):  # `chain.update_fn` is the `update` that users call
        name = method.removesuffix("_fn")
    of = None if package in OF_MODULES else called_back
    return LibraryCall(name=name, package=package, of=of, pure=pure, proof=Proof.MEANING)


def _imports(source: str | None) -> bool:
    return (source or "").startswith(("import ", "from "))


def grows(change: Change) -> bool:
    """Whether one axis of the array grew while the rest of its shape stayed the same."""
    axes = change.resized if isinstance(change, ShapeChange) else None
    return axes is not None and len(axes) == 1 and (grown(*axes[0][1:]) or 0) > 0


def _is_shape(change: Change) -> bool:
    """Whether the changed parameter of an operation is a shape, a size or a padding."""
    return change.component in OF_ARGUMENTS and (change.path or "") in _SHAPE_PARAMETERS


def is_elsewhere(verdict: Verdict) -> bool:
    """Whether the operation it is compared with ran elsewhere, so that its shape proves nothing.

    It ran from other lines, or from another place in JAX's own code. At one place, the signature
    and the options are always the same.
    """
    nearest, lines = verdict.nearest, verdict.miss.lines
    return (nearest is not None and lines is not None and nearest.lines != lines) or any(
        change.component in _OF_PLACE for change in verdict.changes
    )

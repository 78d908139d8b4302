"""What to do about operations that run outside all jitted functions."""

from __future__ import annotations

from retrace.model import Change, Component
from retrace.model.advice import (
    Advice,
    AtImport,
    FewSizes,
    InCallback,
    JitBlock,
    JitInit,
    LeaveEager,
    LibraryCall,
    Proof,
)
from retrace.reason.evidence import Evidence, grown, resized

_SHAPES = frozenset(
    ("shape", "new_sizes", "padding_config", "slice_sizes", "start_indices", "limit_indices")
)
_INITIALISERS = frozenset(
    ("init", "init_with_output", "lazy_init", "__init__", "__new__", "build")
)


def eager(evidence: Evidence) -> Advice | None:
    """What to do about an eager operation: it depends on who runs it, and for what."""
    miss = evidence.miss
    site = miss.call_site
    if miss.within == "callback":
        return InCallback()
    if miss.within == "import":
        if site is None or site.in_library or _imports(site.source):
            return LeaveEager(who="import")
        return AtImport()
    if miss.through is not None:
        return _through(miss.through)
    if site is not None and site.in_library:
        return LeaveEager(who="library")
    if evidence.nearest is None:
        return None
    if miss.lines is not None and evidence.nearest.lines != miss.lines:
        return JitBlock(proof=Proof.MEANING)  # from elsewhere: the shapes are unrelated
    # Jitted, what has another shape in each round would miss in each round, and what depends
    # on data, as a boolean mask does, cannot be jitted at all.
    if any(map(grows, evidence.changes)):
        return FewSizes(grows=True, proof=Proof.MEANING)
    shapes = (Component.SHAPE, Component.TREE, Component.SIGNATURE)
    if any(change.component in shapes or _is_shape(change) for change in evidence.changes):
        return FewSizes(proof=Proof.MEANING)
    return JitBlock(proof=Proof.MEANING)


def _through(through: str) -> Advice:
    package, _, name = through.partition(":")
    owner, _, method = name.rpartition(".")
    # Flax, haiku and their like make parameters one by one; equinox in a constructor.
    is_made = method == "__call__" and owner.endswith("Meta")
    if is_made or method in _INITIALISERS or method.startswith("initial"):
        return JitInit(name=name, package=package)
    return LibraryCall(name=name, package=package, proof=Proof.MEANING)


def _imports(source: str | None) -> bool:
    return (source or "").startswith(("import ", "from "))


def grows(change: Change) -> bool:
    """Whether one axis of an array became longer, and nothing else of its shape changed."""
    if change.component is not Component.SHAPE:
        return False
    differing = resized(change)
    return differing is not None and len(differing) == 1 and (grown(*differing[0]) or 0) > 0


def _is_shape(change: Change) -> bool:
    """Whether a parameter of an operation that changed is a shape, a size or a padding."""
    return change.component is Component.STATIC and (change.path or "") in _SHAPES

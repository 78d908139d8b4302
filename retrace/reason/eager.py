"""What to do about operations that run outside all jitted functions."""

from __future__ import annotations

from retrace.model import Change, Component, Fix
from retrace.reason.evidence import Evidence, grown, resized

_SHAPES = frozenset(
    ("shape", "new_sizes", "padding_config", "slice_sizes", "start_indices", "limit_indices")
)
_INITIALISERS = frozenset(
    ("init", "init_with_output", "lazy_init", "__init__", "__new__", "build")
)


def eager(evidence: Evidence) -> Fix | None:
    """What to do about an eager operation: it depends on who runs it, and for what."""
    miss = evidence.miss
    site = miss.call_site
    if miss.within == "callback":
        text = (
            "this runs in a host callback: turn its arguments into NumPy arrays on entry "
            "(`np.asarray`) and compute with NumPy; each JAX operation compiles its own program."
        )
        return Fix("callback-numpy", text)
    if miss.within == "import":
        if site is None or site.in_library or _imports(site.source):
            return Fix("nothing", "an import runs these operations: nothing to change here.")
        return Fix(
            "numpy-constants", "this runs as its module is imported: make it with NumPy there."
        )
    if miss.through is not None:
        return _through(miss.through)
    if site is not None and site.in_library:
        return Fix("nothing", "a library runs these operations: nothing to change here.")
    if evidence.nearest is None:
        return None
    text = "put the operations of this line into one jitted function"
    if miss.lines is not None and evidence.nearest.lines != miss.lines:
        return Fix("jit-block", f"{text}.")  # it ran from elsewhere: their shapes are unrelated
    # Jitted, what has another shape in each round would miss in each round.
    if any(map(grows, evidence.changes)):
        return Fix("jit-block", f"{text}, and pad what grows to one size, with NumPy.")
    shapes = (Component.SHAPE, Component.TREE, Component.SIGNATURE)
    if any(change.component in shapes or _is_shape(change) for change in evidence.changes):
        text += "; pad what changes its shape to one size, or build it with NumPy"
    return Fix("jit-block", f"{text}.")


def _through(through: str) -> Fix:
    package, _, name = through.partition(":")
    owner, _, method = name.rpartition(".")
    # Flax, haiku and their like make parameters one by one; equinox in a constructor.
    is_made = method == "__call__" and owner.endswith("Meta")
    if is_made or method in _INITIALISERS or method.startswith("initial"):
        text = (
            f"`{name}` of {package} makes parameters one operation at a time: call it inside one "
            "jitted function (`jax.jit(model.init)(...)`; `nnx.jit` or `eqx.filter_jit` where "
            "it returns a module)."
        )
        return Fix("jit-init", text)
    text = (
        f"`{name}` of {package} runs these operations: nothing to change here, unless this call "
        "can be part of a jitted function."
    )
    return Fix("library-call", text)


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

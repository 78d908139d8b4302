"""Assign a JAX frame to a part of JAX, by file and function.

If JAX moves a file, nothing is lost: its frames then count as tracing.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Protocol

from retrace.jax_internals import names_slow, names_values
from retrace.model.slow import Part

_FILES = {
    "tree_util.py": Part.PYTREES,
    "tree.py": Part.PYTREES,
    "flattree.py": Part.PYTREES,
    "flatten_util.py": Part.PYTREES,
    "api_util.py": Part.PYTREES,
    "interpreters/ad.py": Part.DIFFERENTIATION,
    "interpreters/remat.py": Part.DIFFERENTIATION,
    "ad_checkpoint.py": Part.DIFFERENTIATION,
    "custom_derivatives.py": Part.DIFFERENTIATION,
    "interpreters/batching.py": Part.BATCHING,
    "custom_batching.py": Part.BATCHING,
    "interpreters/mlir.py": Part.LOWERING,
    "dtypes.py": Part.SHAPES,
    "lax/utils.py": Part.SHAPES,
    "lru_cache.py": Part.CACHES,
}
_CONTROL_FLOW = "lax/control_flow/"
_BOUNDARY = frozenset(("trace_to_jaxpr_dynamic", "trace_to_jaxpr"))
"""Where the trace of a program begins."""
_BACKWARD = frozenset(("backward_pass", "backward_pass2", "backward_pass3"))
_TRANSPOSES = _BACKWARD | {
    *("linear_transpose", "linear_transpose2", "bilinear_transpose", "call_transpose"),
    *("call_transpose_fancy", "map_transpose", "accum", "freeze", "ct_check"),
}
"""Those, and what only they call."""
_FLATTENING = (
    *("tree_flatten", "tree_unflatten", "tree_leaves", "tree_structure", "treedef_"),
    *("flatten", "unflatten", "default_registry_flatten", "_generate_key_paths"),
)
_PRIVATE = "/_src/"
_EVALUATES = _BACKWARD | {"eval_jaxpr"}
"""Functions that process the equations of a program one by one."""


class Traceback(Protocol):
    """Where an equation was traced, as JAX keeps it."""

    def raw_frames(self) -> tuple[Sequence[CodeType], Sequence[int]]:
        """The code of each frame, innermost first, and the position in it."""
        ...

    @staticmethod
    def code_addr2line(code: CodeType, position: int, /) -> int:
        """The line number of a position."""
        ...


def handles_equations(code: CodeType) -> bool:
    """Whether a JAX frame processes the equations of a program one by one."""
    return code.co_name in _EVALUATES


EQUATION_NAME = names_slow.EQUATION.name
"""The local variable of such a frame that is the equation."""


def source_of(equation: object) -> Traceback | None:
    """Where an equation was traced."""
    source = names_values.OF_EQUATION["source_info"].of(equation)
    return names_values.TRACEBACK.of(source)


def is_boundary(code: CodeType) -> bool:
    """Whether a JAX frame is the one inside which a program is traced."""
    return code.co_name in _BOUNDARY and code.co_filename.endswith("partial_eval.py")


def takes_apart(code: CodeType) -> bool:
    """Whether the purpose of a JAX frame is to flatten or unflatten pytrees."""
    name = code.co_name
    # Until jax 0.8 the traced function itself runs below these.
    if not name.startswith(_FLATTENING) or name.startswith("flatten_fun"):
        return False
    return part_of(code) is Part.PYTREES


def part_of(code: CodeType) -> Part | None:
    """The part of JAX that the code of a JAX frame belongs to; None for tracing itself."""
    name = code.co_name
    if name.endswith(("_shape_rule", "_dtype_rule", "_abstract_eval")) or name == "abstract_eval":
        return Part.SHAPES
    file = code.co_filename.replace("\\", "/")
    within = file[file.rfind(_PRIVATE) + len(_PRIVATE) :]
    if within.startswith(_CONTROL_FLOW):
        return Part.CONTROL_FLOW
    found = _FILES.get(within)
    if found is Part.DIFFERENTIATION and name in _TRANSPOSES:
        return Part.TRANSPOSITION
    return found

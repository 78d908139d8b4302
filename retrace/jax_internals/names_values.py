"""What JAX's objects hold: the options of `jit`, types of arrays, programs, configuration."""

from __future__ import annotations

from retrace.jax_internals import losses
from retrace.jax_internals.row import Row, attribute, field

_CORE = "jax._src.core"
_CONFIG = "jax._src.config"
_INFO = "jax._src.pjit.PjitInfo"


def _fields(where: str, names: tuple[str, ...], loss: losses.Loss | None) -> dict[str, Row]:
    return {name: field(where, name, loss) for name in names}


OPTIONS = {
    **_fields(
        _INFO,
        (
            "static_argnums",
            "static_argnames",
            "donate_argnums",
            "donate_argnames",
            "in_shardings_leaves",
            "out_shardings_leaves",
            "in_layouts_leaves",
            "out_layouts_leaves",
            "device",
            "backend",
            "keep_unused",
            "inline",
            "compiler_options_kvs",
        ),
        losses.OPTIONS,
    ),
    "abstracted_axes": field(_INFO, "abstracted_axes", losses.OPTIONS, until="0.8"),
}
"""What `jit` was given, by the names that JAX has for it."""
SIGNATURE = field(
    _INFO, "fun_signature", None, said="Names of parameters are read off the function instead."
)
SOURCE = field(_INFO, "fun_sourceinfo", losses.DERIVED)
UNSPECIFIED = attribute("jax._src.named_sharding", "UnspecifiedValue", losses.OPTIONS)

# Arguments.
TRACER = attribute(_CORE, "Tracer", losses.ARGUMENTS)
ABSTRACT = attribute(_CORE, "AbstractValue", losses.ARGUMENTS)
ABSTRACTIFY = attribute(_CORE, "shaped_abstractify", losses.ARGUMENTS)
WEAK_TYPE = field(f"{_CORE}.ShapedArray", "weak_type", losses.ARGUMENTS)
COMMITTED = field("jax._src.array.ArrayImpl", "_committed", losses.PLACEMENT)
EXPLICIT = field("jax._src.mesh.AbstractMesh", "_any_axis_explicit", losses.PLACEMENT)
LOGICAL = field("jax._src.named_sharding.NamedSharding", "_logical_device_ids", losses.PLACEMENT)
ASSIGNED = field("jax._src.sharding.Sharding", "_device_assignment", losses.PLACEMENT)
REGISTRY = attribute("jax.tree_util", "default_registry", losses.TREES)
FLATTEN = field("jax.tree_util.default_registry", "flatten_one_level", losses.TREES)
LABELS = field(
    "jax.tree_util.default_registry",
    "flatten_one_level_with_keys",
    None,
    said="Children of registered classes are named by their attributes.",
)

# What is under way.
CLEAN = attribute(_CORE, "trace_state_clean", losses.DERIVED)
CONTEXT = attribute(_CORE, "trace_ctx", losses.TRACES)
STAGING = attribute("jax._src.interpreters.partial_eval", "DynamicJaxprTrace", losses.TRACES)

# Programs.
JAXPR = attribute(_CORE, "Jaxpr", losses.PROGRAMS)
CLOSED = attribute(_CORE, "ClosedJaxpr", losses.PROGRAMS, until="0.12")
LITERAL = attribute(_CORE, "Literal", losses.PROGRAMS)
INNER = attribute(_CORE, "subjaxprs", losses.PROGRAMS)
OF_JAXPR = _fields(
    f"{_CORE}.Jaxpr", ("eqns", "constvars", "invars", "outvars", "debug_info"), losses.PROGRAMS
)
OF_EQUATION = _fields(
    f"{_CORE}.JaxprEqn",
    ("primitive", "params", "invars", "outvars", "source_info"),
    losses.PROGRAMS,
)
TRACEBACK = field("jax._src.source_info_util.SourceInfo", "traceback", losses.PROGRAMS)
TYPE_TEXT = field(f"{_CORE}.AbstractValue", "str_short", losses.PROGRAMS)
SOURCE_OF_PROGRAM = field(f"{_CORE}.DebugInfo", "func_src_info", losses.DERIVED)
ARGUMENTS_OF_PROGRAM = field(
    f"{_CORE}.DebugInfo",
    "arg_names",
    None,
    said="What a derived program is given is told by its position.",
)

# Configuration.
TRACE_CONTEXT = attribute(_CONFIG, "trace_context", losses.CONFIG)
CONTEXT_NAMES = attribute(_CONFIG, "trace_context_names", losses.CONFIG, since="0.10")
STATES = attribute(_CONFIG, "config_states", losses.CONFIG)
HOLDERS = attribute(_CONFIG, "config_ext", losses.CONFIG)
HOLDER = attribute(f"{_CONFIG}.config_ext", "Config", losses.CONFIG)
HELD = field(f"{_CONFIG}.config_ext.Config", "value", losses.CONFIG)
SWAP = field(f"{_CONFIG}.config_ext.Config", "swap_local", losses.CONFIG, until="0.10")
SET = field(f"{_CONFIG}.config_ext.Config", "set_local", losses.CONFIG, until="0.10")

# The on-disk cache.
IS_ENABLED = attribute("jax._src.compilation_cache", "is_persistent_cache_enabled", losses.DISK)
WRITE = attribute("jax._src.compiler", "_cache_write", losses.DISK)
GLOBAL_STATE = attribute("jax._src.distributed", "global_state", losses.DISK)
PROCESS = field("jax._src.distributed.global_state", "process_id", losses.DISK)
SUFFIX = attribute("jax._src.lru_cache", "_CACHE_SUFFIX", losses.DISK)
EVICTION = field("jax._src.lru_cache.LRUCache", "eviction_enabled", losses.DISK)

BACKEND_RUNS = attribute(
    "jax._src.xla_bridge",
    "backends_are_initialized",
    None,
    said="The backend's name is not told.",
)

"""Attributes of JAX's objects: options of `jit`, array types, programs, configuration."""

from __future__ import annotations

from retrace.jax_internals import losses
from retrace.jax_internals.row import Row, attribute, field, frame, later, slot, text

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
"""The options given to `jit`, by JAX's internal names."""
OPTION_NAMES = {
    "in_shardings_leaves": "in_shardings",
    "out_shardings_leaves": "out_shardings",
    "in_layouts_leaves": "in_layouts",
    "out_layouts_leaves": "out_layouts",
    "compiler_options_kvs": "compiler_options",
}
"""The public names of options whose internal names differ."""
SIGNATURE = field(
    _INFO, "fun_signature", None, said="Parameter names are read from the function instead."
)
SOURCE = field(_INFO, "fun_sourceinfo", losses.DERIVED)
UNSPECIFIED = attribute("jax._src.named_sharding", "UnspecifiedValue", losses.OPTIONS)

# Functions held by JAX's objects.
WRAPPED = field("jax._src.linear_util.WrappedFun", "f", losses.FUNCTIONS)
CUSTOM = field("jax._src.custom_derivatives.custom_vjp", "fun", losses.FUNCTIONS)

# What JAX creates from a trace and returns to the user.
VJP = attribute("jax._src.api", "VJP", losses.FUNCTIONS, since="0.8")
SHIM = field("jax._src.tree_util._HashableCallableShim", "fun", losses.FUNCTIONS)
HOLDS_PROGRAM = field("jax._src.api.VJP", "fun", losses.FUNCTIONS, since="0.8")
MAKERS = {
    "vjp": frame("jax._src.api._vjp_pullback_wrapper", losses.FUNCTIONS, until="0.8"),
    "linearize": frame("jax._src.api._lift_linearized", losses.FUNCTIONS),
    "linear_transpose": frame(
        "jax._src.api.linear_transpose", losses.FUNCTIONS, inner="transposed_fun"
    ),
}
"""The function inside the partial that JAX returns, by public name of the transform."""

# Custom rules.
_RULES_LOSS = "Programs are not compared, because two may differ only in a custom rule."
RULE_PARTS = {
    "f": WRAPPED,
    "transforms": field(
        "jax._src.linear_util.WrappedFun", "transforms", losses.PROGRAMS, said=_RULES_LOSS
    ),
    "fun": CUSTOM,
    **{
        name: field(
            f"jax._src.custom_derivatives.{kind}", name, losses.PROGRAMS, said=_RULES_LOSS
        )
        for kind, name in (
            ("custom_vjp", "fwd"),
            ("custom_vjp", "bwd"),
            ("custom_jvp", "jvp"),
        )
    },
    **{
        name: field(f"jax._src.util.{kind}", name, losses.PROGRAMS, said=_RULES_LOSS)
        for kind, name in (("HashablePartial", "args"), ("Hashable", "val"))
    },
}
"""Where JAX's wrappers keep the wrapped functions and their bound arguments."""
NONDIFF = field(
    "jax._src.custom_derivatives.custom_vjp",
    "nondiff_argnums",
    None,
    said="Advice to pass a number does not tell that a custom rule takes no array for it.",
)

# Arguments.
SYMBOL = later("jax._src.export.shape_poly", "_DimExpr", losses.ARGUMENTS)
TRACER = attribute(_CORE, "Tracer", losses.ARGUMENTS)
ABSTRACT = attribute(_CORE, "AbstractValue", losses.ARGUMENTS)
ABSTRACTIFY = attribute(_CORE, "shaped_abstractify", losses.ARGUMENTS)
WEAK_TYPE = field(f"{_CORE}.ShapedArray", "weak_type", losses.ARGUMENTS)
COMMITTED = field("jax._src.array.ArrayImpl", "_committed", losses.PLACEMENT)
EXPLICIT = field("jax._src.mesh.AbstractMesh", "_any_axis_explicit", losses.PLACEMENT)
LOGICAL = field("jax._src.named_sharding.NamedSharding", "_logical_device_ids", losses.PLACEMENT)
ASSIGNED = field("jax._src.sharding.Sharding", "_device_assignment", losses.PLACEMENT)
MANUAL = field(
    "jax._src.named_sharding.NamedSharding", "_manual_axes", losses.PLACEMENT, until="0.7"
)
REFERRED = field("jax._src.state.types.AbstractRef", "inner_aval", losses.ARGUMENTS)
REGISTRY = attribute("jax.tree_util", "default_registry", losses.TREES)
FLATTEN = field("jax.tree_util.default_registry", "flatten_one_level", losses.TREES)
LABELS = field(
    "jax.tree_util.default_registry",
    "flatten_one_level_with_keys",
    None,
    said="Children of registered classes are named by their attributes.",
)
BY_POSITION = attribute(
    "jax.tree_util",
    "FlattenedIndexKey",
    None,
    said="Children of registered classes may be named by their position.",
)

# Traces and transformations in progress.
CLEAN = attribute(_CORE, "trace_state_clean", losses.DERIVED)
CONTEXT = attribute(_CORE, "trace_ctx", losses.TRACES)
STAGING = attribute("jax._src.interpreters.partial_eval", "DynamicJaxprTrace", losses.TRACES)

# Programs.
JAXPR = attribute(_CORE, "Jaxpr", losses.PROGRAMS)
CLOSED = attribute(_CORE, "ClosedJaxpr", losses.PROGRAMS, until="0.12")
LITERAL = attribute(_CORE, "Literal", losses.PROGRAMS)
HOST_ARRAYS = {
    "LiteralArray": attribute(
        "jax._src.literals", "LiteralArray", losses.PROGRAMS, since="0.7", until="0.8"
    ),
    "TypedNdArray": attribute("jax._src.literals", "TypedNdArray", losses.PROGRAMS, since="0.8"),
}
"""Constants of programs that are not on a device."""
HI_PRIMITIVES = {
    "VJPHiPrimitive": attribute(
        "jax._src.hijax",
        "VJPHiPrimitive",
        losses.PROGRAMS,
        since="0.10",
        until="0.11.2",
        said=_RULES_LOSS,
    ),
    "HiPrim": attribute(
        "jax._src.hijax", "HiPrim", losses.PROGRAMS, since="0.11.2", said=_RULES_LOSS
    ),
}
"""Primitives written as classes, by JAX or by users."""
INNER = attribute(_CORE, "subjaxprs", losses.PROGRAMS)
OF_JAXPR = _fields(f"{_CORE}.Jaxpr", ("eqns", "constvars", "invars", "outvars"), losses.PROGRAMS)
DEBUG_INFO = field(f"{_CORE}.Jaxpr", "debug_info", losses.DERIVED)
OF_EQUATION = _fields(
    f"{_CORE}.JaxprEqn",
    ("primitive", "params", "invars", "outvars", "source_info"),
    losses.PROGRAMS,
)
OF_CONTEXT = {
    name: field(
        f"{_CORE}.JaxprEqnContext",
        name,
        None,
        said="Programs are the same where only the context of an operation differs.",
    )
    for name in ("threefry_partitionable", "compute_type", "xla_metadata")
}
"""Under which an equation is lowered."""
EQUATION_CONTEXT = field(
    f"{_CORE}.JaxprEqn",
    "ctx",
    None,
    said="Programs are the same where only the context of an operation differs.",
)
TRACEBACK = field("jax._src.source_info_util.SourceInfo", "traceback", losses.PROGRAMS)
TYPE_TEXT = field(f"{_CORE}.AbstractValue", "str_short", losses.PROGRAMS)
SOURCE_OF_PROGRAM = field(f"{_CORE}.DebugInfo", "func_src_info", losses.DERIVED)
ARGUMENTS_OF_PROGRAM = field(
    f"{_CORE}.DebugInfo",
    "arg_names",
    None,
    said="Inputs of a derived program are named by position.",
)

# Which calls are served entirely in C++.
_DISPATCH = "jax._src.pjit._get_fastpath_data"
_CALLBACKS_LOSS = "Callbacks that slow down every call are not reported."
DISPATCH = frame(
    _DISPATCH,
    None,
    said="Callbacks that slow down every call are not reported; `run --count` counts no calls.",
)
SLOWED_BY_EFFECTS = text(_DISPATCH, "has_unordered_effects", None, said=_CALLBACKS_LOSS)
SLOWED_BY_CALLBACKS = text(
    _DISPATCH, "has_host_callbacks", None, until="0.7", said=_CALLBACKS_LOSS
)

# Configuration.
TRACE_CONTEXT = attribute(_CONFIG, "trace_context", losses.CONFIG)
CONTEXT_NAMES = attribute(_CONFIG, "trace_context_names", losses.CONFIG, since="0.10")
STATES = attribute(_CONFIG, "config_states", losses.CONFIG)
HOLDERS = attribute(_CONFIG, "config_ext", losses.CONFIG)
HOLDER = attribute(f"{_CONFIG}.config_ext", "Config", losses.CONFIG)
HOLDER_MODULES = {
    name: attribute("jax._src", name, losses.CONFIG)
    for name in ("config", "core", "mesh", "layout")
}
"""The modules that contain the configuration objects."""
MESHES = ("mesh_context_manager", "device_context", "abstract_mesh_context_manager")
"""`with mesh:`, and what `jax.set_mesh` sets; the same thing to the user."""
MESH_HOLDERS = {
    "entered": attribute(_CONFIG, MESHES[0], losses.CONFIG),
    "set, before 0.11": attribute(_CONFIG, MESHES[1], losses.CONFIG, until="0.11"),
    "set": attribute("jax._src.mesh", MESHES[1], losses.CONFIG, since="0.11"),
    "abstract, before 0.11": attribute(_CONFIG, MESHES[2], losses.CONFIG, until="0.11"),
    "abstract": attribute("jax._src.mesh", MESHES[2], losses.CONFIG, since="0.11"),
}
JIT_KEY_ONLY = (
    "device_context",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_safer_randint",
    "jax_pallas_auto_assign_collective_ids",
    "jax_pallas_auto_assign_collective_ids_limit",
)
"""Only in the key of the C++ path. JAX does not expose this list; read from its source."""
AXES = "axis_env_state"
"""The named axes that a transform maps over at a call."""
PUBLIC_NAMES = {
    AXES: "axis_env",
    "compute_on_context_manager": "compute_on",
    "pallas_tpu_interpret_mode_context_manager": "pallas_tpu_interpret_mode",
    "xla_metadata_context_manager": "xla_metadata",
}
"""Public names of configuration values that have a different name inside JAX."""
AXIS_ENVIRONMENT = attribute(_CORE, "AxisEnv", losses.CONFIG)
AXIS_SIZES = field(f"{_CORE}.AxisEnv", "axis_sizes", losses.CONFIG)
OTHER_AXES = {
    "spmd_axis_names": field(f"{_CORE}.AxisEnv", "spmd_axis_names", losses.CONFIG),
    "explicit_mesh_axis_names": field(
        f"{_CORE}.AxisEnv", "explicit_mesh_axis_names", losses.CONFIG, since="0.8"
    ),
}
METADATA = attribute("jax._src.xla_metadata_lib", "XlaMetadata", losses.CONFIG, since="0.8")
METADATA_VALUE = field("jax._src.xla_metadata_lib.XlaMetadata", "val", losses.CONFIG, since="0.8")
HELD = field(f"{_CONFIG}.config_ext.Config", "value", losses.CONFIG)
_SETTINGS_LOSS = "The settings of two runs are not compared."
SETTINGS = attribute(f"{_CONFIG}.config", "_value_holders", None, said=_SETTINGS_LOSS)
OF_ALL_THREADS = field(f"{_CONFIG}.config_ext.Config", "get_global", None, said=_SETTINGS_LOSS)
SWAP = field(f"{_CONFIG}.config_ext.Config", "swap_local", losses.CONFIG, until="0.10")
SET = field(f"{_CONFIG}.config_ext.Config", "set_local", losses.CONFIG, until="0.10")

# The on-disk cache.
IS_ENABLED = attribute("jax._src.compilation_cache", "is_persistent_cache_enabled", losses.DISK)
WRITE = attribute("jax._src.compiler", "_cache_write", losses.DISK)
GLOBAL_STATE = attribute("jax._src.distributed", "global_state", losses.DISK)
PROCESS = field("jax._src.distributed.global_state", "process_id", losses.DISK)
CACHE = slot("jax._src.compilation_cache", "_cache", losses.DISK)
FOLDER = field("jax._src.lru_cache.LRUCache", "_path", losses.DISK)
BASE_CACHE = field(
    "jax._src.compilation_cache.VerificationCache", "_base_cache", losses.DISK, since="0.9"
)
SUFFIX = attribute("jax._src.lru_cache", "_CACHE_SUFFIX", losses.DISK)
MAX_BYTES = field("jax._src.lru_cache.LRUCache", "max_size", losses.DISK)
EVICTION = field("jax._src.lru_cache.LRUCache", "eviction_enabled", losses.DISK)
READ_OPTIONS = attribute(
    "jax._src.lib.xla_client.CompileOptions",
    "ParseFromString",
    None,
    said="Which compile option caused a different key on disk is unknown.",
)

BACKEND_RUNS = attribute(
    "jax._src.xla_bridge",
    "backends_are_initialized",
    None,
    said="The backend's name is unknown.",
)

# The `jax.distributed` job of this process, and the store shared by its processes.
_CLIENT = "jax._src.lib._jax.DistributedRuntimeClient"
CLIENT = field("jax._src.distributed.State", "client", losses.JOBS)
COORDINATOR = field("jax._src.distributed.State", "coordinator_address", losses.JOBS)
STORE_SET = attribute(_CLIENT, "key_value_set", losses.JOBS, since="0.6.2")
STORE_GET = attribute(_CLIENT, "blocking_key_value_get", losses.JOBS, since="0.6.2")
STORE_LOOK = attribute(_CLIENT, "key_value_try_get", losses.JOBS, since="0.6.2")
STORE_UNDER = attribute(_CLIENT, "key_value_dir_get", losses.JOBS, since="0.6.2")

"""JAX frames, and their local variables that hold what a call was given."""

from __future__ import annotations

from retrace.jax_internals import losses
from retrace.jax_internals.row import field, frame, local, text

_PJIT = "jax._src.pjit"
_STAGES = "jax._src.stages"
_PMAP = "jax._src.pmap"

CALL = frame(f"{_PJIT}._cpp_pjit", losses.CALLS, inner="cache_miss")
CALL_FUN = local(CALL, "fun", losses.CALLS)
CALL_ARGS = local(CALL, "args", losses.CALLS)
CALL_KWARGS = local(CALL, "kwargs", losses.CALLS)
CALL_JAXPR = local(
    CALL, "jaxpr", None, said="On jax 0.6 calls that hit are not counted (`retrace run --count`)."
)
CALL_INFO = local(CALL, "jit_info", losses.OPTIONS)

JITTED_FUN = text(f"{_PJIT}._cpp_pjit", "_fun", losses.AHEAD)
JITTED_INFO = text(f"{_PJIT}._cpp_pjit", "_jit_info", losses.OPTIONS)
AHEAD_TRACE = frame(f"{_PJIT}.jit_trace", losses.AHEAD)
AHEAD_LOWER = frame(f"{_PJIT}.jit_lower", losses.AHEAD)
AHEAD_SHAPE = frame(f"{_PJIT}.jit_eval_shape", losses.AHEAD)
AHEAD_JITTED = local(AHEAD_TRACE, "jit_func", losses.AHEAD)
AHEAD_ARGS = local(AHEAD_TRACE, "args", losses.AHEAD)
AHEAD_KWARGS = local(AHEAD_TRACE, "kwargs", losses.AHEAD)
LOWERED = frame(f"{_STAGES}.Lowered.compile", losses.AHEAD)
LOWERED_SELF = local(LOWERED, "self", losses.AHEAD)
LOWERED_OPTIONS = local(
    LOWERED,
    "compiler_options",
    losses.OPTIONS,
    said="Options of Lowered.compile() are not recorded.",
)
LOWERING_OF = field(f"{_STAGES}.Lowered", "_lowering", losses.AHEAD)

DERIVED = frame(f"{_PJIT}._pjit_call_impl", losses.DERIVED, inner="call_impl_cache_miss")
DERIVED_JAXPR = local(DERIVED, "jaxpr", losses.DERIVED)
DERIVED_ARGS = local(DERIVED, "args", losses.DERIVED)
BINDING = frame("jax._src.core.Primitive.bind", losses.DERIVED)
LOWERING = frame(f"{_PJIT}._resolve_and_lower", losses.PROGRAMS)
LOWERING_JAXPR = local(LOWERING, "jaxpr", losses.PROGRAMS)
LOWERING_WITH = {
    name: local(
        LOWERING,
        name,
        None,
        said="Programs that differ only in donation or placement may count as one that an "
        "on-disk cache would serve.",
    )
    for name in (
        "name",
        "donated_invars",
        "keep_unused",
        "in_shardings",
        "out_shardings",
        "in_layouts",
        "out_layouts",
    )
}
"""What becomes part of the module in addition to the equations."""

_TRANSFORM_LOSS = "Any derived program is reported as a backward program."
TRANSPOSE_BEFORE = frame(f"{_PJIT}._pjit_transpose", losses.DERIVED, until="0.8")
TRANSPOSE = frame(f"{_PJIT}._pjit_transpose_fancy", losses.DERIVED, since="0.7")
BACKWARD = frame("jax._src.interpreters.ad.backward_pass", losses.DERIVED)
LINEARIZE = frame(f"{_PJIT}._pjit_linearize", losses.DERIVED, since="0.7", said=_TRANSFORM_LOSS)
PARTIAL_EVAL = frame(f"{_PJIT}._pjit_partial_eval", losses.DERIVED, said=_TRANSFORM_LOSS)
JVP = frame(f"{_PJIT}._pjit_jvp", losses.DERIVED, said=_TRANSFORM_LOSS)
BATCH = frame(f"{_PJIT}._pjit_batcher", losses.DERIVED, said=_TRANSFORM_LOSS)
LINEARIZE_BEFORE = frame(
    f"{_PJIT}._pjit_linearization", losses.DERIVED, until="0.7", said=_TRANSFORM_LOSS
)
BACKWARD_FANCY = frame("jax._src.interpreters.ad.backward_pass3", losses.DERIVED, since="0.8")

COMPILES = frame("jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo", losses.DEVICES)
COMPILED_FOR = local(COMPILES, "device_list", losses.DEVICES, since="0.7")
COMPILED_FOR_BEFORE = local(COMPILES, "da", losses.DEVICES, until="0.7")
OF_THIS_PROCESS = field(
    "jax._src.lib.xla_client.DeviceList",
    "is_fully_addressable",
    None,
    said="Nothing is lost: the devices are looked at one by one.",
)

DISK = frame("jax._src.compiler.compile_or_get_cached", losses.DISK)
WRITES = frame("jax._src.compilation_cache.put_executable_and_time", losses.DISK)
BYTES_TO_WRITE = local(
    WRITES, "entry_size", None, said="Whether an entry was too large is unknown."
)
DISK_KEY = local(DISK, "cache_key", losses.DISK)
DISK_CALLBACKS = local(DISK, "host_callbacks", losses.DISK)

API_BOUNDARY = frame(
    "jax._src.traceback_util.api_boundary",
    losses.OPERATIONS,
    inner="reraise_with_filtered_traceback",
)
BOUNDARY_FUN = local(API_BOUNDARY, "fun", losses.FUNCTIONS)
PRIMITIVE = text(
    "jax._src.dispatch.xla_primitive_callable", "_apply_primitive", losses.OPERATIONS
)
PRIMITIVE_RUNS = frame(
    "jax._src.dispatch.xla_primitive_callable", losses.OPERATIONS, inner="prim_fun"
)
PRIMITIVE_PARAMS = local(PRIMITIVE_RUNS, "params", losses.OPERATIONS)
_DISABLED_LOSS = "That an operation ran alone because `jax_disable_jit` was on is not told."
APPLIES = frame("jax._src.dispatch.apply_primitive", None, said=_DISABLED_LOSS)
DISABLED = local(APPLIES, "prev", None, said=_DISABLED_LOSS)

# Until 0.7 `pmap` has a separate path; since 0.8 it flattens its arguments for `jit`.
PMAP_CALL = frame("jax._src.api._cpp_pmap", losses.PMAP, inner="cache_miss", until="0.8")
PMAP_PREPARE = local(PMAP_CALL, "prepare_pmap_fn", losses.PMAP)
PMAP_PREPARES = frame("jax._src.api._prepare_pmap", losses.PMAP, until="0.8")
PREPARED = {
    name: local(PMAP_PREPARES, name, losses.PMAP)
    for name in ("fun", "static_broadcasted_tuple", "donate_tuple", "backend_name")
}
PMAP_TRACE = frame("jax._src.interpreters.pxla.stage_parallel_callable", losses.PMAP, until="0.8")
PMAP = frame("jax._src.pmap.pmap", losses.PMAP, inner="wrapped", since="0.9")
PMAP_FLAT = frame("jax._src.pmap._cached_shard_map", losses.PMAP, inner="_fun", since="0.9")
PMAP_FLAT_FUN = local(PMAP_FLAT, "fun", losses.PMAP)
PMAP_INFER = local(PMAP, "infer_params", losses.PMAP)
PMAP_ARGS = local(PMAP, "args", losses.PMAP)
PMAP_KWARGS = local(PMAP, "kwargs", losses.PMAP)
_INFER = frame("jax._src.pmap.pmap", losses.PMAP, inner="infer_params", since="0.9")
PMAP_STATIC = local(_INFER, "static_broadcasted_tuple", losses.PMAP)
PMAP_DONATED = local(_INFER, "donate_tuple", losses.PMAP)
PMAP_BACKEND = local(_INFER, "backend", losses.PMAP)
PMAP_IN_AXES = local(_INFER, "in_axes", losses.PMAP)
PMAP_AXIS_SIZE = local(_INFER, "axis_size", losses.PMAP)
PMAP_DEVICES = local(_INFER, "devices", losses.PMAP)
PMAP_AXIS_NAME = local(_INFER, "axis_name", losses.PMAP)

"""Names used by the hooks: events, trace functions, and replaced methods."""

from __future__ import annotations

from retrace.jax_internals import losses
from retrace.jax_internals.row import attribute, field, slot, text

_DISPATCH = "jax._src.dispatch"
_MONITORING = "jax._src.monitoring"
_CACHE = "/jax/compilation_cache/"

TRACE_EVENT = text(
    _DISPATCH,
    "/jax/core/compile/jaxpr_trace_duration",
    losses.PMAP,
    until="0.8",
    said="Traces of pmap are not recorded.",
)
LOWER_EVENT = text(_DISPATCH, "/jax/core/compile/jaxpr_to_mlir_module_duration", losses.LOWERINGS)
COMPILE_EVENT = text(_DISPATCH, "/jax/core/compile/backend_compile_duration", losses.COMPILATIONS)
LOOKED_UP = text(
    "jax._src.compiler.compile_or_get_cached",
    f"{_CACHE}compile_requests_use_cache",
    losses.DISK,
)
FOUND = text("jax._src.compiler.compile_or_get_cached", f"{_CACHE}cache_hits", losses.DISK)
SAVED = text(
    "jax._src.compiler.compile_or_get_cached",
    f"{_CACHE}compile_time_saved_sec",
    None,
    said="How many seconds the on-disk cache saved is unknown.",
)
WRITTEN = text(
    "jax._src.compilation_cache.put_executable_and_time",
    f"{_CACHE}cache_misses",
    losses.DISK,
)

EVENT_LISTENERS = attribute(_MONITORING, "_event_listeners", losses.LISTENERS)
DURATION_LISTENERS = attribute(_MONITORING, "_event_duration_secs_listeners", losses.LISTENERS)
SCALAR_LISTENERS = attribute(_MONITORING, "_scalar_listeners", losses.LISTENERS)

TRACE = attribute(
    "jax._src.interpreters.partial_eval",
    "trace_to_jaxpr",
    losses.TRACES,
    since="0.9",
)
TRACE_BEFORE = attribute("jax._src.pjit", "_create_pjit_jaxpr", losses.TRACES, until="0.9")
TEST_SLOT = slot("jax._src.util", "test_event_listener", losses.TRACES)
REAL_TRACE = text(
    "jax._src.interpreters.partial_eval.trace_to_jaxpr_nocache",
    "trace_to_jaxpr",
    losses.TRACES,
    since="0.11",
)
REAL_TRACE_BEFORE = text(
    "jax._src.pjit._create_pjit_jaxpr",
    "create_pjit_jaxpr",
    losses.TRACES,
    until="0.9",
)
EVICT = field(
    "jax._src.interpreters.partial_eval.trace_to_jaxpr",
    "evict_weakref",
    losses.CLEARS,
    since="0.9",
    said="f.clear_cache() is not noticed.",
)
EVICT_BEFORE = field(
    "jax._src.pjit._create_pjit_jaxpr",
    "evict_function",
    losses.CLEARS,
    until="0.9",
    said="f.clear_cache() is not noticed.",
)
CLEARED = attribute("jax._src.util", "cache", losses.CLEARS)

# The miss counts of JAX's own caches: they show work for which no event was sent.
COUNT_OF_TRACES = field(
    "jax._src.interpreters.partial_eval.trace_to_jaxpr",
    "cache_info",
    losses.COUNTS,
    since="0.9",
)
COUNT_OF_LOWERINGS = field(
    "jax._src.interpreters.pxla._cached_lowering_to_hlo", "cache_info", losses.COUNTS
)
COUNT_OF_COMPILATIONS = field(
    "jax._src.interpreters.pxla._cached_compilation", "cache_info", losses.COUNTS
)

MAKE_JIT = attribute("jax._src.pjit", "_cpp_pjit", losses.JIT_LINES)
LOWER = attribute("jax._src.stages.Traced", "lower", losses.AHEAD)
CALL = attribute("jax._src.pjit", "_pjit_call_impl_python", losses.REFUSALS)
UPDATE = attribute(
    "jax._src.config.Config",
    "update",
    None,
    said="The line that set an option is unknown.",
)
LOG_CACHE_KEY = attribute("jax._src.cache_key", "_log_cache_key_hash", losses.DISK_KEYS)
HIDE_IN_PROGRAMS = attribute("jax._src.source_info_util", "register_exclusion", losses.FRAMES)
HIDE_IN_TRACEBACKS = attribute(
    "jax._src.traceback_util",
    "register_exclusion",
    None,
    said="A traceback may include a frame of retrace among JAX's own.",
)

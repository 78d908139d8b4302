"""Names used to retrace a function past JAX's caches (`retracing`)."""

from __future__ import annotations

from retrace.jax_internals import losses
from retrace.jax_internals.names_frames import BINDING
from retrace.jax_internals.row import attribute, field, frame, local, text

INFER = attribute("jax._src.pjit", "_infer_params_cached", losses.AUDITS)
"""The cache of calls, before the cache of traces; all weak caches have the same class."""
SILENCE = attribute("jax._src.dispatch", "log_elapsed_time", losses.AUDITS)
_CACHE_BEFORE = frame("jax._src.linear_util.cache", losses.AUDITS, until="0.9")
UNCACHED_BEFORE = local(_CACHE_BEFORE, "call", losses.AUDITS)
ENTRIES_BEFORE = local(_CACHE_BEFORE, "fun_caches", losses.AUDITS)
WRAPPED_FUN = attribute("jax._src.linear_util", "WrappedFun", losses.AUDITS, until="0.9")
STORES = field("jax._src.linear_util.WrappedFun", "stores", losses.AUDITS, until="0.9")
REDUCTION = attribute(
    "jax._src.lax.lax",
    "_reduction_jaxpr",
    None,
    said="An audit does not find what functions passed to lax.reduce or closure_convert read.",
)
"""A cache that keeps the function whose program it holds; all such caches have the same class."""
BINDING_TRACE = local(
    BINDING,
    "prev_trace",
    None,
    since="0.9",
    until="0.11",
    said="An audit counts in `retrace.counts()` where it traces the body of a `shard_map`.",
)
RESULT_PATHS = field("jax._src.core.DebugInfo", "result_paths", losses.AUDITS)
_RETURNED = "An audit does not find other keys, classes and static values that functions return."
RETURNED_TREE = field("jax._src.flattree.FlatTree", "tree", None, since="0.11", said=_RETURNED)
"""The treedef of what a traced function returned; in jax 0.9 and 0.10 it has the same name."""
STORE_VALUE = field("jax._src.linear_util.Store", "val", None, until="0.9", said=_RETURNED)
CANONICAL = attribute(
    "jax._src.dtypes",
    "canonicalize_value",
    None,
    since="0.7",
    said="An audit cannot prove that a 64-bit array on the host was changed in place.",
)
"""Converts a host array to one of JAX's types, and caches the result of each."""
KEY_DATA = text(
    "jax._src.prng.PRNGKeyArray.__init__",
    "_base_array",
    None,
    said="An audit cannot compare programs that captured keys of jax.random.",
)
WITHOUT_DEAD = attribute(
    "jax._src.interpreters.partial_eval",
    "dce_jaxpr",
    None,
    said="An audit reports programs that differ only in what no result needs.",
)
LOWERING = attribute(
    "jax._src.interpreters.pxla",
    "lower_sharding_computation",
    None,
    said="An audit compiles what a library computes while a function is traced.",
)
"""All that JAX compiles is lowered by it first."""

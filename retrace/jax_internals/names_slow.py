"""Names used to find where the time of a compilation went (`retrace run --slow`)."""

from __future__ import annotations

from retrace.jax_internals.row import attribute, frame, local, slot, text

_PROFILER = "jax._src.lib._profiler"
_PASSES_LOSS = "The seconds of a slow compilation are reported without its passes."

# In older releases a session prints to stderr, and imports tensorflow if installed.
SESSION = attribute(_PROFILER, "ProfilerSession", None, since="0.8", said=_PASSES_LOSS)
SESSION_OPTIONS = attribute(_PROFILER, "ProfileOptions", None, since="0.8", said=_PASSES_LOSS)
START_SERVER = attribute(_PROFILER, "start_server", None, since="0.8", said=_PASSES_LOSS)
SERVER = slot(
    "jax._src.profiler",
    "_profiler_server",
    None,
    said="A profiler server may refuse a capture while a program compiles.",
)
# JAX's C++ cache hides the code of the function: its frame is found by name on the stack.
_LINES_LOSS = "Which lines became which kernels, and how much memory executables use, is unknown."
COMPILED = attribute("jax._src.interpreters.pxla", "_cached_compilation", None, said=_LINES_LOSS)
EXECUTABLE = text(
    "jax._src.interpreters.pxla._cached_compilation", "xla_executable", None, said=_LINES_LOSS
)
_MODULE_LOSS = "The StableHLO of slow programs is not kept, so they cannot be compiled again."
COMPUTATION = text(
    "jax._src.interpreters.pxla._cached_compilation", "computation", None, said=_MODULE_LOSS
)
COMPILE_OPTIONS = text(
    "jax._src.interpreters.pxla._cached_compilation", "compile_options", None, said=_MODULE_LOSS
)
BACKEND = text(
    "jax._src.interpreters.pxla._cached_compilation", "backend", None, said=_MODULE_LOSS
)
_DERIVED_LOSS = "What JAX derives from a program is not assigned to the lines it is derived from."
_EVALUATES = frame("jax._src.core.eval_jaxpr", None, said=_DERIVED_LOSS)
EQUATION = local(_EVALUATES, "eqn", None, said=_DERIVED_LOSS)

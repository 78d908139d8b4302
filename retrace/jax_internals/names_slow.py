"""What tells where the seconds of a compilation went (`retrace run --slow`)."""

from __future__ import annotations

from retrace.jax_internals.row import attribute, frame, local, slot, text

_PROFILER = "jax._src.lib._profiler"
_WITHOUT = "Where the seconds of a slow compilation went is told without its passes."

# The sessions of older releases print to stderr, and import tensorflow where it is installed.
SESSION = attribute(_PROFILER, "ProfilerSession", None, since="0.8", said=_WITHOUT)
SESSION_OPTIONS = attribute(_PROFILER, "ProfileOptions", None, since="0.8", said=_WITHOUT)
START_SERVER = attribute(_PROFILER, "start_server", None, since="0.8", said=_WITHOUT)
SERVER = slot(
    "jax._src.profiler",
    "_profiler_server",
    None,
    said="A capture that is asked of a profiler server may be refused while a program compiles.",
)
# JAX's cache in C++ hides the code behind it: its frame is known by its name, on the stack.
_LINES = "Which lines became which kernels, and the memory of executables, are not told."
COMPILED = attribute("jax._src.interpreters.pxla", "_cached_compilation", None, said=_LINES)
EXECUTABLE = text(
    "jax._src.interpreters.pxla._cached_compilation", "xla_executable", None, said=_LINES
)
_MODULE = "The StableHLO of slow programs is not kept, so none can be compiled again alone."
COMPUTATION = text(
    "jax._src.interpreters.pxla._cached_compilation", "computation", None, said=_MODULE
)
COMPILE_OPTIONS = text(
    "jax._src.interpreters.pxla._cached_compilation", "compile_options", None, said=_MODULE
)
_BEHIND = "What JAX derives from a program is told outside the lines that it is derived from."
_EVALUATES = frame("jax._src.core.eval_jaxpr", None, said=_BEHIND)
EQUATION = local(_EVALUATES, "eqn", None, said=_BEHIND)

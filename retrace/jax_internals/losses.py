"""What a recording lacks if JAX does not show it: one name for each kind of loss.

The names are counted in the `losses` of a run and appear in every report.
"""

from __future__ import annotations

from retrace.jax_internals.row import Loss

TRACES = Loss(
    "this JAX does not show traces",
    "No trace is recorded, and no function called inside another one; what was traced before "
    "cannot be told from what was not.",
    "traces",
)
LOWERINGS = Loss(
    "this JAX does not show lowerings",
    "No lowering is recorded, nor a miss that did nothing but lower.",
    "lowerings",
)
COMPILATIONS = Loss(
    "this JAX does not show compilations",
    "No compilation is recorded, nor what the on-disk cache did for it.",
    "compilations",
)
CALLS = Loss(
    "this JAX does not show calls",
    "Misses are recorded with the name of the function alone, without arguments or causes.",
    "calls",
)
OPTIONS = Loss(
    "this JAX does not show the options of jit",
    "Static arguments and the options of jit are not recorded, so causes are unknown.",
    "the options of jit",
)
ARGUMENTS = Loss(
    "this JAX does not show arguments",
    "Shapes and dtypes of arguments are not recorded, so causes are unknown.",
    "arguments",
)
TREES = Loss(
    "this JAX does not show pytrees",
    "The structure of arguments is not recorded, so causes are unknown.",
    "pytrees",
)
PLACEMENT = Loss(
    "this JAX does not show where arrays lie",
    "Shardings and layouts of arguments are not recorded, so causes are unknown.",
    "where arrays lie",
)
CONFIG = Loss(
    "this JAX does not show its configuration",
    "Configuration values are not recorded, so causes are unknown.",
    "its configuration",
)
CLEARS = Loss(
    "this JAX does not show cleared caches",
    "A call that misses because a cache was cleared cannot be told from others with equal keys.",
    "cleared caches",
)
PROGRAMS = Loss(
    "this JAX does not show programs",
    "Programs are not recorded: no equations, no comparison, no hidden state found by it.",
    "programs",
)
DERIVED = Loss(
    "this JAX does not show what a program is derived from",
    "A backward program, and what JAX makes of a call under a transform, has no known cause.",
    "what a program is derived from",
)
AHEAD = Loss(
    "this JAX does not show what is compiled ahead of time",
    "The stages of lower() and compile() do not find the call they belong to.",
    "what is compiled ahead of time",
)
PMAP = Loss(
    "this JAX does not show calls of pmap",
    "What pmap was given is not recorded: its misses have no known cause.",
    "calls of pmap",
)
OPERATIONS = Loss(
    "this JAX does not show eager operations",
    "The parameters and the bodies of eager operations are not recorded.",
    "eager operations",
)
JIT_LINES = Loss(
    "this JAX does not show where jit is called",
    "Functions made inside installed packages cannot be told apart: their causes are unknown.",
    "where jit is called",
)
FUNCTIONS = Loss(
    "this JAX does not show which function a transform wraps",
    "What is made by a transform may be told as an operation of JAX.",
    "which function a transform wraps",
)
JOBS = Loss(
    "this JAX does not show the job of jax.distributed",
    "retrace.agree() cannot compare processes, and a job that the program itself joins is not "
    "known by its coordinator.",
)
DEVICES = Loss(
    "this JAX does not show which devices a program is compiled for",
    "Whether a program runs on several processes is not recorded.",
)
DISK = Loss(
    "this JAX does not show its on-disk cache",
    "What the on-disk compilation cache did is not recorded, or without the reason.",
)
DISK_KEYS = Loss(
    "this JAX does not show the parts of on-disk cache keys",
    "Why the on-disk cache missed cannot be told from the ingredients of its keys.",
)
LISTENERS = Loss(
    "this JAX does not show its listeners",
    "Where a program removes all listeners of jax.monitoring, it is not noticed.",
)
COUNTS = Loss(
    "this JAX does not count its own work",
    "A guard that saw no miss passes only where an earlier miss of the process was seen.",
)
REFUSALS = Loss(
    "this JAX does not let a call be refused at its end",
    "retrace.freeze() and policies that raise do so inside JAX, which may then lower again.",
)
FRAMES = Loss(
    "this JAX does not let retrace leave its frames out of programs",
    "Lines of retrace may stand among the source lines that JAX writes into programs.",
)
AUDITS = Loss(
    "this JAX does not let functions be traced anew",
    "retrace.audit() cannot prove that a program is out of date: what has changed is told "
    "as a perhaps.",
)

"""What a recording lacks if JAX does not show it: one name for each kind of loss.

The names are counted in the `losses` of a run and appear in every report.
"""

from __future__ import annotations

from retrace.jax_internals.row import Loss

TRACES = Loss(
    "this JAX does not show traces",
    "Traces are not recorded, nor functions called inside another one. First traces cannot be "
    "distinguished from later ones.",
    "traces",
)
LOWERINGS = Loss(
    "this JAX does not show lowerings",
    "Lowerings are not recorded, nor misses that only lowered.",
    "lowerings",
)
COMPILATIONS = Loss(
    "this JAX does not show compilations",
    "Compilations are not recorded, nor what the on-disk cache did.",
    "compilations",
)
CALLS = Loss(
    "this JAX does not show calls",
    "Misses are recorded only with the name of the function, without arguments or causes.",
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
    "Whether a call missed because a cache was cleared is unknown.",
    "cleared caches",
)
PROGRAMS = Loss(
    "this JAX does not show programs",
    "Programs are not recorded, so they are not compared and hidden state is not found.",
    "programs",
)
DERIVED = Loss(
    "this JAX does not show what a program is derived from",
    "Causes of backward programs, and of what JAX derives from a call, are unknown.",
    "what a program is derived from",
)
AHEAD = Loss(
    "this JAX does not show what is compiled ahead of time",
    "Stages of lower() and compile() are not assigned to their call.",
    "what is compiled ahead of time",
)
PMAP = Loss(
    "this JAX does not show calls of pmap",
    "Arguments of pmap are not recorded, so causes of its misses are unknown.",
    "calls of pmap",
)
OPERATIONS = Loss(
    "this JAX does not show eager operations",
    "Parameters and bodies of eager operations are not recorded.",
    "eager operations",
)
JIT_LINES = Loss(
    "this JAX does not show where jit is called",
    "Functions jitted inside installed packages cannot be distinguished; causes are unknown.",
    "where jit is called",
)
FUNCTIONS = Loss(
    "this JAX does not show which function a transform wraps",
    "Functions created by a transform may be reported as operations of JAX.",
    "which function a transform wraps",
)
JOBS = Loss(
    "this JAX does not show the job of jax.distributed",
    "retrace.agree() cannot compare processes, and a job that the program joins itself is not "
    "recognised by its coordinator.",
)
DEVICES = Loss(
    "this JAX does not show which devices a program is compiled for",
    "Whether a program runs on several processes is not recorded.",
)
DISK = Loss(
    "this JAX does not show its on-disk cache",
    "What the on-disk compilation cache did is not recorded, or only without the reason.",
)
DISK_KEYS = Loss(
    "this JAX does not show the parts of on-disk cache keys",
    "Why the on-disk cache missed is unknown, because parts of its keys are missing.",
)
LISTENERS = Loss(
    "this JAX does not show its listeners",
    "It is not noticed if a program removes all listeners of jax.monitoring.",
)
COUNTS = Loss(
    "this JAX does not count its own work",
    "A guard that saw no miss passes only if an earlier miss of the process was seen.",
)
REFUSALS = Loss(
    "this JAX does not let a call be refused at its end",
    "retrace.freeze() and policies that raise do so inside JAX, which may then lower again.",
)
FRAMES = Loss(
    "this JAX does not let retrace leave its frames out of programs",
    "Source lines that JAX stores in programs may include lines of retrace.",
)
AUDITS = Loss(
    "this JAX does not let functions be traced anew",
    "retrace.audit() cannot prove that a program is out of date; changed values are reported "
    "as possible reasons.",
)

NO_CALL = "a stage without its call"
"""Counted as it happens: no frame of the call was found."""
LOWERED_BEFORE = "a program was compiled that was lowered before recording began"
"""The same, for a reason that lies in the program, not in JAX."""

"""Names of the events by which XLA tells a profiler what it is doing while it compiles.

They are texts inside XLA, so no test of names can look them up: `tests/recording/test_slow*` hold
them to profiles of real compilations.
"""

from __future__ import annotations

from typing import NamedTuple

COMPILE = "backend_compile_and_load"
OUTERMOST = frozenset((COMPILE, "backend_compile"))
"""What JAX itself announces around a compilation."""
PIPELINES = ("HLO passes", "HLO Transforms")
"""How the event around all passes of a program begins, followed by the program's name."""

# On CPUs.
KERNEL = "FusionCompiler::Compile"
"""XLA compiles one kernel, named by `module`."""
KERNEL_AFFIXES = ("__compute_module_", "_kernel_module")
WORK = "TaskDispatcher::dispatch"
"""Work in one of the compiler's own threads."""

# On GPUs, as the CUDA plugin names them.
GPU_EMIT = "CompileModuleToLlvmIr"
"""XLA emits the kernels, and on newer releases waits for the threads that compile them."""
GPU_MODULE = "CompileSingleModule"
"""LLVM and ptxas compile one LLVM module: a kernel, or on older releases all of them."""
GPU_LLVM = "Compiling IR"
"""LLVM's part of that, followed by the name of the module."""
GPU_PTXAS = "PTX->CUBIN"
GPU_BACKEND = "CompileToBackendResult"
"""Everything after the passes, for a program or for a candidate of autotuning."""
GPU_UNNAMED = "LLVMDialectModule"
"""The name of the module of each kernel that was emitted through MLIR."""
GPU_CONSTANTS = "_consts"
"""Ends the name of the module that holds the constants; on older releases, of the whole one."""
TUNING = frozenset(
    (
        # The first is that of jax 0.12; the others are of older releases.
        *("config-assigner", "autotuner", "gemm-fusion-autotuner", "triton-autotuner"),
        *("gemm-algorithm-picker", "conv-algorithm-picker", "gpu-conv-algorithm-picker"),
    )
)
"""Passes that compile candidates, and run them if there is a device, to choose the fastest."""
TASK_GIVEN = "ThreadpoolListener::Record"
"""A thread hands a task, numbered by `_p`, to one of XLA's threads."""
TASK_BEGINS = "ThreadpoolListener::StartRegion"
"""The task numbered by `_c` begins."""
TASK_ENDS = "ThreadpoolListener::StopRegion"
TASKS = frozenset((TASK_GIVEN, TASK_BEGINS, TASK_ENDS))


# On TPUs, as libtpu names them.
TPU_KERNEL = "XLA::TPU emitting for "
"""A kernel is compiled: how the event's name begins, followed by the name of its instruction."""
TPU_EMIT = "XLA::TPU lowering and optimization"
"""XLA waits for the threads that compile kernels."""
TPU_SCHEDULING = "XLA::TPU LLO dependency graph-based optimizations and scheduling"
TPU_REGISTERS = "LSRAv2"
"""How the steps of allocating registers and packing bundles begin."""

CODE = frozenset(
    (
        *("Codegen", "JitCompiler::Compile", "SplitModule", KERNEL, WORK),
        *("ThunkEmitter::EmitEntryComputation", "ThunkEmitter::ConsumeKernels"),
        *(GPU_EMIT, GPU_MODULE, GPU_LLVM, GPU_PTXAS),
        *(TPU_EMIT, TPU_KERNEL.strip(), TPU_SCHEDULING, TPU_REGISTERS),
    )
)
ENCLOSING = frozenset(
    (
        *(*OUTERMOST, "CompileCpuExecutable", "PjRtCpuClient::Compile"),
        # Contain code generation; their own work is scheduling and buffer assignment.
        *("CpuCompiler::RunBackend", "CpuCompiler::CompileCpuExecutable"),
        *("CompileAheadOfTime", "OptimizeHloModule", GPU_BACKEND, "ScheduleGpuModule"),
        *("RunLatencyHidingSchedulerPasses", "RunPostSchedulingPipelines", "ResultFromModule"),
    )
)
"""Events around others, or for the whole program: neither a pass nor code generation."""
ENCLOSING_BEGIN = ("PjRt", "PJRT_", "TpuCompiler::", "XLA::", *PIPELINES)
"""How the names of more of these begin."""
ACCELERATORS = frozenset((GPU_BACKEND, "TpuCompiler::Compile"))
"""One of these is in each profile of a compilation for a GPU or a TPU."""


class Event(NamedTuple):
    """Something that XLA did, with its time."""

    name: str
    start: int
    """In picoseconds, from an arbitrary origin."""
    length: int
    module: str
    """The name of the kernel, if any."""
    task: int = 0
    """The number of the task that begins or is handed to another thread, if it is about one."""

"""What XLA spent the seconds of one compilation on, in words: passes, code, lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrace.costs.account import Account
from retrace.costs.folding import FOLDING
from retrace.model.slow import Kernel, Pass
from retrace.present.program import at
from retrace.present.view import View
from retrace.present.words import clean, count, listed, place, seconds, times

MIN_SHARE = 0.02
"""Minimum fraction of its stage that a line or pass must take to be shown."""
_CODE = {
    "JitCompiler::Compile": "machine code (LLVM)",
    "FusionCompiler::Compile": "kernels",
    "ThunkEmitter::EmitEntryComputation": "emitting kernels",
    "ThunkEmitter::ConsumeKernels": "linking kernels",
    "SplitModule": "splitting the code for threads",
    # On GPUs.
    "Compiling IR": "PTX (LLVM)",
    "PTX->CUBIN": "machine code (ptxas)",
    "CompileModuleToLlvmIr": "emitting kernels",
    # On TPUs.
    "XLA::TPU emitting for": "emitting kernels",
    "XLA::TPU LLO dependency graph-based optimizations and scheduling": "scheduling",
    "LSRAv2": "registers and bundles",
    "XLA::TPU lowering and optimization": "lowering",
}
_CANDIDATE = "CompileToBackendResult"
"""XLA compiles a candidate while it tunes."""
UNPROFILED = {
    "jax": "this JAX's compiler cannot be profiled without the program noticing",
    "program": "the program used the profiler itself, which goes first",
    "server": "a profiler server runs, whose captures go first",
    "other": "another thread compiled under the profile meanwhile",
    "size": "its profile was too large",
    "quick": "a program this small was not expected to be slow (later ones are profiled)",
}


def passes(view: View, one: Account) -> Iterator[tuple[str, str, str]]:
    # Compiling it again took different seconds than when it was recorded.
    total = sum(step.seconds for step in one.compiling.passes) if one.compiling else 0.0
    made = sum(step.seconds for step in one.code)
    label = "compile"
    rows: list[tuple[float, str]] = []
    if made:
        kernels = one.compiling.named if one.compiling is not None else 0
        phrase = f"code generation, {count(kernels, 'kernel')}" if kernels else "code generation"
        rows.append((made, phrase + _parts(one.code)))
    tuned = sum(step.seconds for step in one.tuning)
    if tuned > MIN_SHARE * total:
        tried = sum(step.times for step in one.tuning if step.name == _CANDIDATE)
        phrase = f"autotuning, {count(tried, 'candidate')} compiled" if tried else "autotuning"
        rows.append((tuned, phrase + _parts(one.tuning)))
    if one.rest > MIN_SHARE * total:
        rows.append((one.rest, "the rest of XLA, for the whole program: scheduling, buffers"))
    rows += [
        (
            one_.seconds,
            f"pass {clean(one_.name, 48)}"
            + (f", run {times(one_.times)}" if one_.times > 1 else "")
            + (_folded(view, one) if one_.name == FOLDING else ""),
        )
        for one_ in one.passes
        if one_.seconds >= MIN_SHARE * total
    ]
    for spent, text in sorted(rows, key=lambda row: -row[0]):
        yield label, seconds(spent), text
        label = ""


def _parts(steps: Sequence[Pass]) -> str:
    """The parts of code generation that took long."""
    enough = sum(step.seconds for step in steps) / 10
    parts = [
        f"{_CODE[step.name]} {seconds(step.seconds)}"
        for step in steps
        if step.name in _CODE and step.seconds >= enough
    ]
    return f": {listed(parts)}" if parts else ""


def _folded(view: View, one: Account) -> str:
    """What XLA computed from constants, and where that is in the source."""
    if one.folded is None:
        return ""
    what = f"{clean(one.folded.primitive, 32)} of {clean(one.folded.type, 32)}"
    return f": {what} at {at(view, one.folded.frame)}"


def foreign(one: Account) -> Iterator[str]:
    """JAX functions that were first traced for another program."""
    if one.foreign:
        made = count(sum(kernel.instructions for kernel in one.foreign), "instruction")
        number = count(sum(kernel.kernels for kernel in one.foreign), "kernel")
        yield (
            f"{number}, {made} on no line: this JAX has them on those of another program, which "
            "called the same functions of JAX first"
        )


def kernel_rows(view: View, one: Account) -> Iterator[tuple[str, str, str]]:
    """By seconds if kernels have their own, otherwise by kind."""
    # Constant folding is shown with its pass.
    lines = [kernel for kernel in one.lines if kernel.instructions]
    known = [kernel for kernel in lines if kernel.seconds > 0]
    rows: Sequence[Kernel] = known or lines
    whole = one.whole
    spent = sum(kernel.seconds for kernel in rows)
    made = sum(kernel.instructions for kernel in one.kernels)
    label = "compiled"
    for kernel in rows:
        if known and kernel.seconds < MIN_SHARE * spent:
            return
        if not known and kernel.instructions < MIN_SHARE * made:
            return
        where = place(kernel.file, kernel.line, view.bases)
        operations = listed([f"{clean(name, 24)} ({n:,})" for name, n in kernel.operations])
        text = f"{where}  {clean(kernel.function, 32)}".rstrip()
        text += (
            f"  {count(kernel.kernels, 'kernel')}, {count(kernel.instructions, 'instruction')}"
        )
        if whole is not None and (kernel.file, kernel.line) == (whole[0].file, whole[0].line):
            share = 100 * kernel.instructions / made
            text += (
                f", {share:.0f} % of all, and so of {seconds(whole[1])} in passes and the rest"
            )
        yield label, seconds(kernel.seconds) if known else "", f"{text}: {operations}"
        label = ""

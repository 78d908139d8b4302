"""What a compilation for a GPU or a TPU spent its time on.

Profiles of real compilations are in `profiles`, for devices that were only described to XLA: a
GPU by `jax-cuda12-plugin`, a TPU by `libtpu`. Where these are installed, the same is done anew:
`python tests/matrix.py --gpu` and `--tpu`. `programs/accelerated.py` is the program.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrace.capture.kernel_order import by_order
from retrace.capture.kernels import CALLS, instructions, kernels
from retrace.costs.account import account
from retrace.costs.by_line import by_line
from retrace.jax_internals import events as at
from retrace.jax_internals import names_slow
from retrace.jax_internals.accelerators import Step, found, kind
from retrace.jax_internals.events import Event
from retrace.jax_internals.xspace import Compilation, compilation, threads
from retrace.model import Stage
from retrace.model.slow import Kernel
from retrace.store.reader import read
from tests.process import retrace
from tests.recording.programs import described

PROGRAMS = Path(__file__).parent / "programs"
PROFILES = Path(__file__).parent / "profiles"
SECOND = 10**12


def unpacked(name: str) -> bytes:
    return lzma.decompress((PROFILES / name).read_bytes())


def of_profile(platform: str) -> tuple[Compilation, dict[int, Kernel]]:
    """What is read of a recorded profile, and the kernels by line."""
    seen = compilation(unpacked(f"{platform}.xplane.pb.xz"))
    text = unpacked(f"{platform}.hlo.xz").decode()
    rows, _ = kernels(text, seen.kernels, seen.machine, seen.ordered)
    return seen, {row.line: row for row in by_line(rows)}


def line_of(mark: str) -> int:
    lines = (PROGRAMS / "accelerated.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


def by_kind(seen: Compilation) -> dict[str, float]:
    kinds = {one.kind for one in seen.passes}
    return {kind: sum(one.seconds for one in seen.passes if one.kind == kind) for kind in kinds}


@pytest.mark.parametrize("platform", described.DEVICES)
def test_all_seconds_of_a_profile_are_told_once(platform: str) -> None:
    data = unpacked(f"{platform}.xplane.pb.xz")
    seen = compilation(data)
    assert seen.programs == 1
    (whole,) = (
        event.length / SECOND
        for events in threads(data)
        for event in events
        if event.name in at.OUTERMOST
    )
    spent = by_kind(seen)
    assert sum(spent.values()) == pytest.approx(whole, rel=0.001)
    # Most of it generates code, in several threads, and nothing around it is a pass.
    assert spent["code"] + spent.get("tuning", 0.0) > 0.75 * whole
    assert spent["pass"] < 0.1 * whole
    around = {
        *("CompileAheadOfTime", "OptimizeHloModule", "HLO Transforms", "CompileToBackendResult"),
        *("ScheduleGpuModule", "RunLatencyHidingSchedulerPasses", "RunPostSchedulingPipelines"),
        *("CompileModuleToLlvmIr", "CompileSingleModule", "config-assigner"),
        *("PjRtCApiCompiler::Compile", "TpuCompiler::Compile", "XLA::TPU run backend"),
    }
    passes = {one.name for one in seen.passes if one.kind == "pass"}
    assert len(passes) > 20 and "algsimp" in passes and not passes & around
    assert not any(one.kind == "pass" and ":" in one.name for one in seen.passes)


def test_what_an_api_of_devices_announces_is_no_pass() -> None:
    # Around all else, where there is such a device.
    assert kind("PJRT_Client_Compile") == kind("PjRtCApiCompiler::Compile") == "other"
    assert kind("priority-fusion") == "pass"


def test_the_parts_of_a_gpu_s_compiler() -> None:
    seen, _ = of_profile(described.GPU)
    named = {(one.name, one.kind): one for one in seen.passes}
    for part in (at.GPU_LLVM, at.GPU_PTXAS):
        assert named[part, "code"].seconds > 0.1 * by_kind(seen)["code"]
        # Candidates are compiled to be compared, apart from the program.
        assert named[part, "tuning"].seconds > 0.1 * by_kind(seen)["tuning"]
    assert named[at.GPU_BACKEND, "tuning"].times > 1
    assert named[at.GPU_BACKEND, "other"].times == 1


def test_each_kernel_of_a_gpu_is_the_one_that_xla_launches() -> None:
    seen, _ = of_profile(described.GPU)
    _, first, rest = unpacked("gpu.hlo.xz").decode().partition("\n%")
    told = by_order(seen.ordered, instructions(first + rest, {}), CALLS)
    written = (PROFILES / "gpu.kernels").read_text(encoding="utf-8").split()
    launched = [name for name in written if not name.startswith("sort")]
    # The kernel of a sort has the name of what is in its fusion.
    assert len(told) == len(written) == len(seen.ordered)
    plain = [name.replace(".", "_").replace("-", "_") for name in told]
    assert [name for name in plain if name in launched] == launched
    assert list(told.values()) == [spent for _, spent in seen.ordered]
    assert [name for name, _ in seen.ordered if name] == ["sort.6.1"]


@pytest.mark.parametrize("platform", described.DEVICES)
def test_kernels_lead_to_lines(platform: str) -> None:
    seen, lines = of_profile(platform)
    spent = {line: row.seconds for line, row in lines.items()}
    assert sum(spent.values()) == pytest.approx(
        sum(seen.kernels.values())
        if platform == described.TPU
        else sum(each for _, each in seen.ordered),
        rel=0.05,
    )
    marks = ("sorts", "multiplies", "loops", "reduces")
    assert {line_of(mark) for mark in marks} <= {line for line in spent if spent[line]}
    # Of some ten kernels, the sort is one.
    assert spent[line_of("sorts")] > 0.2 * sum(spent.values())


def test_a_moment_belongs_to_those_who_do_not_wait() -> None:
    def event(name: str, start: float, end: float, task: int = 0) -> Event:
        return Event(name, int(start * SECOND), int((end - start) * SECOND), "", task)

    caller = [
        event("backend_compile_and_load", 0, 10),
        event("OptimizeHloModule", 0, 4),
        event("dce", 0, 1),
        event("config-assigner (jit_f)", 1, 4),
        event("config-assigner", 1, 4),
        event("CompileToBackendResult", 5, 10),
        event("CompileModuleToLlvmIr", 5, 10),
        event(at.TASK_BEGINS, 5.01, 5.01, 3),
        event(at.TASK_ENDS, 5.02, 5.02),
        event(at.TASK_GIVEN, 5.1, 5.1, 1),
        event(at.TASK_GIVEN, 5.2, 5.2, 2),
    ]
    helpers = [
        [event("PTX->CUBIN", 2, 3)],
        [
            event(at.TASK_BEGINS, 5.9, 5.9, 2),
            event("CompileSingleModule", 6, 8),
            event("Compiling IR:LLVMDialectModule", 6, 8),
        ],
        [
            event(at.TASK_BEGINS, 6.9, 6.9, 1),
            event("CompileSingleModule", 7, 9),
            event("Compiling IR:sort.1", 7, 8),
            event("PTX->CUBIN", 8, 9),
        ],
        # Not of this compilation.
        [event("CompileSingleModule", 11, 12), event("Compiling IR:sort.2", 11, 12)],
    ]
    did = found([caller, *helpers])
    spent = {(s.name, s.kind): round(each / SECOND, 6) for s, each in did.spent.items()}
    assert spent == {
        ("dce", "pass"): 1,
        ("config-assigner", "tuning"): 2,
        ("PTX->CUBIN", "tuning"): 1,
        ("backend_compile_and_load", "other"): 1,
        ("CompileModuleToLlvmIr", "code"): 2,
        ("Compiling IR", "code"): 2,
        ("PTX->CUBIN", "code"): 1,
    }
    assert did.times[Step("config-assigner", "tuning", waits=True)] == 1
    # Begun later, but asked for first.
    assert did.ordered == [("sort.1", 2 * SECOND), ("", 2 * SECOND)]
    assert did.kernels == {"sort.1": 2 * SECOND} and did.code == 4 * SECOND
    # Who asked for it is unknown: so is the order.
    assert found([caller[:-1], *helpers]).ordered == []


ORDER = """
HloModule jit_f

%add (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %b = f32[4]{0} add(%a, %a), metadata={op_name="x"}
}

%same (c: f32[4]) -> f32[4] {
  %c = f32[4]{0} parameter(0)
  ROOT %d = f32[4]{0} add(%c, %c), metadata={op_name="y"}
}

%piece (e: f32[8,4]) -> f32[2,4] {
  %e = f32[8,4]{1,0} parameter(0)
  ROOT %f = f32[2,4]{1,0} slice(%e), slice={[0:2], [0:4]}
}

%pieces (g: f32[8,4]) -> f32[8,2] {
  %g = f32[8,4]{1,0} parameter(0)
  ROOT %h = f32[8,2]{1,0} slice(%g), slice={[0:8], [0:2]}
}

%update (i: f32[4]) -> f32[4] {
  %i = f32[4]{0} parameter(0)
  ROOT %j = f32[4]{0} dynamic-update-slice(%i, %i, %i)
}

%sorted (k: f32[4]) -> f32[4] {
  %k = f32[4]{0} parameter(0)
  ROOT %sort.9 = f32[4]{0} sort(%k), to_apply=%less
}

%body (l: f32[4]) -> f32[4] {
  %l = f32[4]{0} parameter(0)
  ROOT %inside = f32[4]{0} fusion(%l), kind=kLoop, calls=%pieces
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %first = f32[4]{0} fusion(%x), kind=kLoop, calls=%add
  %none = f32[4]{0} fusion(%x), kind=kLoop, calls=%piece
  %loop = f32[4]{0} while(%x), condition=%none, body=%body
  %large = f32[4]{0} fusion(%x), kind=kCustom, calls=%sorted
  %again = f32[4]{0} fusion(%x), kind=kLoop, calls=%same
  %twice = f32[4]{0} fusion(%again), kind=kLoop, calls=%same
  %stores = f32[4]{0} fusion(%x), kind=kLoop, calls=%update
  ROOT %last = f32[4]{0} fusion(%stores), kind=kLoop, calls=%same
}
"""


def test_the_order_of_kernels() -> None:
    def told(*ordered: tuple[str, float]) -> dict[str, float]:
        body = ORDER[ORDER.index("%add") :]
        return by_order(ordered, instructions(body, {}), CALLS)

    sort = ("sort.9", 1.0)
    # Equal ones are made once, but once more for what is no argument of the program. A piece of
    # memory is copied; a large sort is several kernels.
    expected = {"first": 5.0, "inside": 6.0, "large": 2.0, "twice": 8.0, "stores": 7.0}
    assert told(("", 5.0), ("", 6.0), sort, sort, ("", 8.0), ("", 7.0)) == expected
    # XLA may copy memory where a loop stores a row.
    copied = {"first": 5.0, "inside": 6.0, "large": 1.0, "twice": 8.0}
    assert told(("", 5.0), ("", 6.0), sort, ("", 8.0)) == copied
    # As many as nobody expects: they share, on their side of what has a name.
    shared = told(("", 5.0), ("", 6.0), ("", 1.0), sort, ("", 8.0), ("", 7.0))
    assert shared == {"first": 6.0, "inside": 6.0, "large": 1.0, "twice": 8.0, "stores": 7.0}


def environment() -> dict[str, str]:
    return {**os.environ, **described.ENVIRONMENT}


@pytest.mark.parametrize("platform", described.DEVICES)
@pytest.mark.drawn
def test_a_compilation_for_a_described_device(tmp_path: Path, platform: str) -> None:
    described.skip_unless_installed(platform)
    program = PROGRAMS / "accelerated.py"
    options = ("run", "-q", "--slow-over", "0.2", "--out", tmp_path / "out", program, platform)
    plain = subprocess.run(
        [sys.executable, program, platform],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    run = retrace(*options, cwd=tmp_path, **environment())
    assert (run.returncode, run.stdout) == (0, plain.stdout)
    recording = read([tmp_path / "out"])
    assert recording.runs[0].losses == {}
    (miss,) = (one for one in recording.misses if one.function.name == "step")
    assert miss.slow is not None and miss.slow.module is not None
    assert miss.slow.module.platform == platform

    one = account(miss, recording)
    if names_slow.SESSION.expected:
        # A TPU pads arrays to its tiles.
        assert miss.slow.memory is not None and miss.slow.memory.arguments >= 64 * 64 * 4
        assert one.compiling is not None and one.compiling.unprofiled is None
        spent = sum(each.seconds for each in one.compiling.passes)
        assert spent == pytest.approx(miss.seconds - miss.stages[Stage.TRACE], rel=0.2)
        code = sum(each.seconds for each in (*one.code, *one.tuning))
        assert code > 0.3 * spent  # beside what XLA does once, in the first compilation
        lines = {row.line: row.seconds for row in one.lines}
        assert lines.get(line_of("multiplies"), 0.0) > 0 and lines.get(line_of("loops"), 0.0) > 0
        assert lines[line_of("sorts")] > 0.15 * sum(lines.values())
        said = retrace("slow", tmp_path / "out", cwd=tmp_path, **environment()).stdout
        words = "(ptxas)" if platform == described.GPU else "registers and bundles"
        assert words in said and "Compile" not in said and "XLA::" not in said

    # There is no such device, so nothing is compiled again, least of all for a CPU.
    for asked in (("--again",), ("--bisect",), ("--try", "xla_gpu_autotune_level=0")):
        told = retrace("slow", "step #1", "out", *asked, cwd=tmp_path, **environment())
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
        assert f"compiled for {platform}, " in told.stderr
    told = retrace("slow", "step #1", "out", "--reproducer", "a.py", cwd=tmp_path)
    assert told.returncode == 0
    assert miss.slow.module.device and miss.slow.module.device != platform
    assert f"for {platform} ({miss.slow.module.device})" in (tmp_path / "a.py").read_text()
    alone = subprocess.run(
        [sys.executable, tmp_path / "a.py"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == 1 and "compiled in" not in alone.stdout
    assert f"was compiled for {platform}" in alone.stderr.splitlines()[-1]
    report: Any = json.loads(retrace("report", "out", "--format", "json", cwd=tmp_path).stdout)
    assert report["slow"][0]["label"] == "step #1"

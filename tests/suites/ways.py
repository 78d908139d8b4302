"""What each way of using retrace costs a suite, by processor time of whole processes in turn."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from tests.suites.runs import Suite, environment_of, laid_beside

WAYS: dict[str, tuple[float | None, tuple[str, ...], tuple[str, ...]]] = {
    "plain": (None, (), ("-p", "no:retrace")),
    "retrace run": (1.03, ("-m", "retrace", "run", "-q", "--out", "recorded"), ()),
    "pytest --retrace": (1.05, (), ("--retrace",)),
    'policy("warn")': (1.05, (), ("-p", "suite_policy")),
    "freeze(warn=True)": (1.05, (), ("-p", "suite_freeze", "-W", "default")),
}
"""The bound of each, what stands before `-m pytest`, and what is given to pytest."""


def in_turn(suite: Suite, rounds: int) -> bool:
    """Run the suite in each way, so many times in turn; whether all keep to their bounds."""
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    ended: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode is kept by path: retrace must lie at the same one in each run.
        beside = laid_beside(Path(folder))
        for index in range(rounds + 1):
            # The first round fills the caches of bytecode and of files, and does not count.
            for way in reversed(WAYS) if index % 2 else WAYS:
                seconds, last = _once(suite, way, beside)
                if index:
                    spent[way].append(seconds)
                ended.add(f"{way}: {last}")
    print("\n".join(sorted(ended)), "\n")
    print("| | processor seconds | ratio (median) | from | to | at most |")
    print("|---|---|---|---|---|---|")
    held = True
    for way, (bound, _, _) in WAYS.items():
        ratios = sorted(b / a for a, b in zip(spent["plain"], spent[way], strict=True))
        most = "" if bound is None else f"{bound:.2f}"
        shown = " | ".join(f"{ratio:.3f}" for ratio in (median(ratios), ratios[0], ratios[-1]))
        print(f"| {way} | {median(spent[way]):.2f} | {shown} | {most} |")
        held = held and (bound is None or median(ratios) <= bound)
    return held


def _once(suite: Suite, way: str, beside: Path) -> tuple[float, str]:
    """Processor seconds of one run, the system's included, and how pytest says it ended."""
    _, before, options = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        before = tuple(str(scratch / one) if one == "recorded" else one for one in before)
        output = scratch / "output.txt"
        command = [
            suite.python,
            *before,
            *("-m", "pytest", "-q", "-rN", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
            f"--basetemp={scratch / 'temporary'}",
            *options,
            *suite.selection,
        ]
        environment = environment_of(beside, scratch / "counts.jsonl", None)
        # As after an installation by pip: what is imported has been compiled before.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), "suites-pyc"))
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=suite.checkout,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        lines = output.read_text(errors="replace").splitlines()
        ends = [line.partition(" in ")[0] for line in lines if " passed" in line]
    return used.ru_utime + used.ru_stime, ends[-1] if ends else f"exit code {process.returncode}"

"""What each way of using retrace costs a suite, by processor time of whole processes in turn."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

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
    spent: dict[str, list[Spent]] = {way: [] for way in WAYS}
    ended: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode is kept by path: retrace must lie at the same one in each run.
        beside = laid_beside(Path(folder))
        for index in range(rounds + 1):
            # The first round fills the caches of bytecode and of files, and does not count.
            for way in reversed(WAYS) if index % 2 else WAYS:
                used, last = _once(suite, way, beside)
                if index:
                    spent[way].append(used)
                ended.add(f"{way}: {last}")
    print("\n".join(sorted(ended)), "\n")
    print("| | processor seconds | ratio | from | to | ratio, XLA's time as in plain | at most |")
    print("|---|---|---|---|---|---|---|")
    held = True
    plain = spent["plain"]
    usual, without = median(one.total for one in plain), median(one.ours for one in plain)
    for way, (bound, _, _) in WAYS.items():
        ratios = sorted(b.total / a.total for a, b in zip(plain, spent[way], strict=True))
        steady = 1 + (median(one.ours for one in spent[way]) - without) / usual
        most = "" if bound is None else f"{bound:.2f}"
        shown = (median(ratios), ratios[0], ratios[-1], steady)
        total = median(one.total for one in spent[way])
        print(f"| {way} | {total:.2f} | {' | '.join(f'{it:.3f}' for it in shown)} | {most} |")
        held = held and (bound is None or steady <= bound)
    return held


class Spent(NamedTuple):
    """Processor seconds of one run."""

    total: float
    """The system's included."""
    ours: float
    """Without XLA's compiler, which does the same in each run and varies the most."""


def _once(suite: Suite, way: str, beside: Path) -> tuple[Spent, str]:
    """What one run took, and how pytest says it ended."""
    _, before, options = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        before = tuple(str(scratch / one) if one == "recorded" else one for one in before)
        output = scratch / "output.txt"
        command = [
            suite.python,
            *before,
            *("-m", "pytest", "-q", "-rN", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("-p", "suite_xla", "-p", "suite_seeds"),
            f"--basetemp={scratch / 'temporary'}",
            *options,
            *suite.selection,
        ]
        environment = environment_of(beside, scratch / "counts.jsonl", None)
        # As after an installation by pip: what is imported has been compiled before.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["SUITE_XLA"] = str(scratch / "xla.txt")
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
        xla = float((scratch / "xla.txt").read_text())
    total = used.ru_utime + used.ru_stime
    return Spent(total, total - xla), ends[-1] if ends else f"exit code {process.returncode}"

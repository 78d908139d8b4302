"""Tampers with recordings until the time is up; prints what was found."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from tests.hostile.commands import complaint, lines, read, run, write
from tests.hostile.mutations import Files, bomb, mutate

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "recording" / "programs" / "everything.py"


def record(directory: Path) -> Path:
    """The recording of a program that does a little of everything."""
    subprocess.run(
        [sys.executable, "-m", "retrace", "run", "-q", "--out", str(directory), str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        check=True,
        timeout=300,
        capture_output=True,
    )
    return directory


def ids(files: Files) -> list[str]:
    """Return the ids of a few misses."""
    stem = next(name for name in sorted(files) if name.endswith(".jsonl")).removesuffix(".jsonl")
    return [f"{stem}-{number}" for number in (3, 8)]


def main() -> None:
    """Run for the requested time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bombs", type=int, default=0)
    options = parser.parse_args()
    memory = 4 << 30
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    found: dict[str, str] = {}
    slowest, commands, inputs = (0.0, ""), 0, 0
    deadline = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        whole = record(home / "whole")
        files = read(whole)
        project = home / "pyproject.toml"
        project.write_text('[tool.retrace.budgets."*"]\ntraces = 1\n')
        seed = options.seed
        while time.monotonic() < deadline or inputs < options.bombs:
            seed += 1
            random = Random(seed)
            damage = bomb if inputs < options.bombs else mutate
            damaged = write(damage(files, random), home / "damaged")
            inputs += 1
            arguments = lines(damaged, whole, home / "profile.pb.gz", project)
            arguments += [("show", id_, str(damaged)) for id_ in ids(files)]
            arguments += [("show", id_, str(damaged), "--format", "json") for id_ in ids(files)]
            arguments.append(("diff", *ids(files), "--recording", str(damaged)))
            for line in random.sample(arguments, 5):
                commands += 1
                try:
                    ended = run(*line)
                    wrong = complaint(ended)
                    slowest = max(slowest, (ended.seconds, f"seed {seed}: {' '.join(line)}"))
                except Exception as error:  # noqa: BLE001 - this is what we look for
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    wrong = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
                if wrong is not None and wrong[:60] not in found:
                    found[wrong[:60]] = f"seed {seed}: {' '.join(line)}: {wrong[:400]}"
                    print(found[wrong[:60]], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts = {"inputs": inputs, "commands": commands, "found": len(found)}
    print(json.dumps({**counts, "slowest": slowest, "peak_MiB": peak // 1024}))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

"""Checks the wheel from outside, as a user gets it, and that eleven kinds of damage are detected.

    python tests/wheel.py                  builds, installs, checks, damages; some minutes
    python tests/wheel.py jax==0.6.0 ...   the same with these packages

Builds wheel and sdist, installs the wheel into a fresh environment, and checks from a folder
outside the checkout: metadata, types, the commands, the guards, and the pytest plugin on a
guarded test that misses in eleven ways. Then it damages the installed package, one thing at a
time, and the check must fail each time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STARTED = time.monotonic()

TEST = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
import pytest

x = np.ones(4, np.float32)
def plain(x): return 2 * x
{setup}

@pytest.mark.retrace(max_traces=1, functions=["step"])
def test_step():
    for index in range(2):
        {call}
"""
STEP = "@jax.jit\ndef step(x, y=1.0): return x * y"
MADE = "def made():\n    def step(x): return x + 1\n    return jax.jit(step)"
UNJITTED = "def step(x, y=1.0): return x * y"
MISSES = {
    # name: setup, call, what the explanation says
    "shape": (STEP, "step(x[: 3 + index])", "because   shape"),
    "dtype": (STEP, "step(x.astype([np.float32, np.int32][index]))", "because   dtype"),
    "weak_type": (STEP, "step([1.0, jnp.float32(1)][index])", "because   weak type"),
    "redefined": (MADE, "made()(x)", "`def` ran again"),
    "partial": (UNJITTED, "jax.jit(functools.partial(step, y=2.0))(x)", "a new partial"),
    "transform": (UNJITTED, "jax.jit(jax.vmap(step))(x)", "transform was applied"),
    "static": (
        "@functools.partial(jax.jit, static_argnames='y')\n" + UNJITTED,
        "step(x, y=index)",
        "because   static",
    ),
    "signature": (STEP, "step(x, 2.0) if index else step(x, y=2.0)", "because   signature"),
    "tree": (
        "@jax.jit\ndef step(x): return x['a']",
        "step({'a': x, str(index): x})",
        "because   tree",
    ),
    "config": (
        STEP,
        "jax.config.update('jax_default_matmul_precision', [None, 'float32'][index]); step(x)",
        "because   config   jax_default_matmul_precision",
    ),
    "cleared": (STEP, "jax.clear_caches(); step(x)", "was cleared from"),
}

GUARDS = """
import jax, numpy as np, retrace
step = jax.jit(lambda x: x + 1)
x = np.ones(3)
with retrace.assert_max_traces(step, 1):
    step(x)
try:
    with retrace.assert_no_retrace(step):
        step(x[:2])
except AssertionError as error:
    assert error.misses[0].cause == "shape-changed", error
    assert "float64[3] -> float64[2]" in str(error) or "float32[3]" in str(error), error
else:
    raise SystemExit("assert_no_retrace let a miss pass")
with retrace.freeze():
    step(x)
    try:
        step(x[:1])
    except retrace.RetraceError as error:
        assert "while frozen" in str(error), error
    else:
        raise SystemExit("freeze let a miss pass")
"""
ASLEEP = """
import sys, pytest
assert pytest.main(["-q", "-p", "no:cacheprovider", "asleep"]) == 0
assert "retrace.pytest_plugin" in sys.modules, "the plugin was not loaded"
heavy = ("jax", "deepdiff", "typer", "retrace.inside.live")
loaded = [name for name in heavy if name in sys.modules]
assert not loaded, f"the plugin loaded {loaded}"
"""
PROGRAM = "import jax, numpy as np\n@jax.jit\ndef step(x): return x\nstep(np.ones(2))\n"
BUDGETS = '[tool.retrace.budgets."step"]\ntraces = {traces}\n'


class Failed(Exception):
    """The check found a problem."""


class Install(NamedTuple):
    """A fresh environment with the wheel installed, and a project that uses it."""

    python: str
    scripts: Path
    packages: Path
    project: Path

    def run(self, *command: str, expected: int = 0) -> str:
        """Run a command in the project and return its output; `Failed` for another exit code."""
        done = subprocess.run(
            command,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=_environment(),
        )
        output = done.stdout + done.stderr
        if done.returncode != expected:
            what = " ".join(command[1:4])
            raise Failed(f"{what!r} exited {done.returncode}, not {expected}:\n{output[-1500:]}")
        return output

    def file(self, name: str) -> Path:
        """One of the installed files."""
        folder = self.scripts if name == "retrace" else self.packages
        return next(iter(folder.glob(name)))


def _environment() -> dict[str, str]:
    own = {"PYTHONPATH", "PYTHONHOME", "RETRACE", "RETRACE_DIR", "RETRACE_POLICY", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in own}
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:5.0f} s  {text}", flush=True)


def call(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def built(folder: Path) -> Path:
    """Build the wheel; raises `SystemExit` if the sdist does not give the same one."""
    builder = environment(folder / "builder")
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    call(builder, "-m", "pip", "install", "-q", *requires)
    call(builder, "-m", "hatchling", "build", "-d", str(folder / "dist"))
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    pip = (builder, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")
    call(*pip, "-w", str(folder / "from-sdist"), str(sdist))
    (other,) = (folder / "from-sdist").glob("*.whl")
    if (a := _names(wheel)) != (b := _names(other)):
        raise SystemExit(f"the wheel of the sdist differs in {sorted(a ^ b)}")
    return wheel


def _names(wheel: Path) -> frozenset[str]:
    return frozenset(zipfile.ZipFile(wheel).namelist())


def installed(folder: Path, wheel: Path, packages: list[str]) -> Install:
    python = environment(folder / "fresh")
    call(python, "-m", "pip", "install", "-q", str(wheel), "pytest>=9", *packages)
    found = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    project = folder / "project"
    (project / "asleep").mkdir(parents=True)
    (project / "asleep" / "test_empty.py").write_text("def test_nothing(): pass\n")
    good = TEST.format(setup=STEP, call="step(x)")
    (project / "test_good.py").write_text(good)
    for name, (setup, line, _) in MISSES.items():
        (project / f"test_{name}.py").write_text(TEST.format(setup=setup, call=line))
    (project / "guards.py").write_text(GUARDS)
    (project / "asleep.py").write_text(ASLEEP)
    (project / "program.py").write_text(PROGRAM)
    return Install(python, folder / "fresh" / "bin", Path(found.strip()), project)


def check(at: Install) -> None:
    """Check everything that a user relies on, fast parts first; raises `Failed`."""
    _check_files(at)
    _check_commands(at)
    at.run(at.python, "asleep.py")
    at.run(at.python, "guards.py")
    _check_plugin(at)


def _check_files(at: Install) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    output = at.run(
        at.python,
        "-c",
        "import json, importlib.metadata as m; d = m.distribution('retrace-jax'); "
        "print(json.dumps([d.version, [r for r in d.requires if 'extra' not in r], "
        "__import__('retrace').__file__]))",
    )
    version, requires, file = json.loads(output)
    if version != project["version"] or sorted(requires) != sorted(project["dependencies"]):
        raise Failed(f"metadata: {version}, {requires}")
    if not Path(file).is_relative_to(at.packages):
        raise Failed(f"retrace was not imported from the environment but from {file}")
    if not (at.packages / "retrace" / "py.typed").exists():
        raise Failed("py.typed is missing")


def _check_commands(at: Install) -> None:
    retrace = str(at.scripts / "retrace")
    if not Path(retrace).exists():
        raise Failed("the console script is missing")
    at.run(retrace, "run", "--quiet", "--force", "--out", "recorded", "program.py")
    report = json.loads(at.run(retrace, "report", "recorded", "--format", "json"))
    if [miss["cause"] for miss in report["misses"]] != ["first-trace"]:
        raise Failed(f"report: {[miss['cause'] for miss in report['misses']]}")
    budgets = at.project / "pyproject.toml"
    budgets.write_text(BUDGETS.format(traces=1))
    at.run(retrace, "check", "recorded")
    budgets.write_text(BUDGETS.format(traces=0))
    if "step" not in at.run(retrace, "check", "recorded", expected=1):
        raise Failed("check does not name the function over its budget")
    budgets.unlink()


def _check_plugin(at: Install) -> None:
    run = (at.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers")
    at.run(*run, "--retrace-dir", f"tested-{time.monotonic_ns()}", "test_good.py")
    files = [f"test_{name}.py" for name in MISSES]
    output = at.run(*run, "--tb=short", *files, expected=1)
    parts = re.split(r"\n_+ test_step _+\n", output.partition("= short test summary")[0])[1:]
    if len(parts) != len(MISSES):
        raise Failed(f"{len(parts)} guarded tests failed, not {len(MISSES)}:\n{output}")
    for part, (name, (_, _, words)) in zip(parts, MISSES.items(), strict=True):
        if words not in part:
            raise Failed(f"the test that misses by {name} does not say {words!r}:\n{part}")


class Replaced(NamedTuple):
    """A text of an installed file, and its replacement."""

    name: str
    old: str
    new: str

    def __call__(self, at: Install) -> Path:
        """Replace the text; return the file."""
        file = at.file(self.name)
        text = file.read_text()
        if self.old not in text:
            raise SystemExit(f"there is no {self.old!r} in {self.name}: update tests/wheel.py")
        file.write_text(text.replace(self.old, self.new))
        return file


def _removed(name: str) -> Callable[[Install], Path]:
    def damage(at: Install) -> Path:
        file = at.file(name)
        file.unlink()
        return file

    return damage


DAMAGES = {
    "no entry point for pytest": Replaced(
        "retrace_jax-*/entry_points.txt", "[pytest11]", "[other]"
    ),
    "no console script": _removed("retrace"),
    "no py.typed": _removed("retrace/py.typed"),
    "a module left out": _removed("retrace/guards/budget.py"),
    "a dependency left out": Replaced(
        "retrace_jax-*/METADATA", "Requires-Dist: deepdiff", "X: deepdiff"
    ),
    "an option renamed": Replaced(
        "retrace/pytest_plugin/__init__.py", '"--retrace-dir"', '"--to"'
    ),
    "an argument renamed": Replaced(
        "retrace/pytest_plugin/testing.py", '"max_traces"', '"most_traces"'
    ),
    "a check that finds nothing": Replaced(
        "retrace/guards/check.py", "        return FOUND", "        return DONE"
    ),
    "a plugin that loads jax": Replaced(
        "retrace/pytest_plugin/__init__.py", "import os", "import os, jax"
    ),
    "a guard that sees nothing": Replaced(
        "retrace/guards/watch.py", "return self._numbers[start:]", "return []"
    ),
    "a cause renamed": Replaced("retrace/causes.py", '"shape-changed"', '"shape-other"'),
}


@contextmanager
def _damaged(at: Install, damage: Callable[[Install], Path]) -> Generator[None]:
    before = {file: file.read_bytes() for file in _own(at)}
    file = damage(at)
    try:
        yield
    finally:
        mode = 0o755 if file.parent == at.scripts.resolve() else 0o644
        for path, content in before.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
                path.chmod(mode)


def _own(at: Install) -> list[Path]:
    files = [path for path in at.packages.glob("retrace*/**/*") if path.is_file()]
    return [path.resolve() for path in (*files, at.scripts / "retrace")]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheel = built(folder)
        say(f"built {wheel.name}, and the same from the sdist")
        at = installed(folder, wheel, sys.argv[1:])
        say("installed")
        try:
            check(at)
        except Failed as error:
            say(f"FAILED: {error}")
            return 1
        say("the check passes")
        undetected = 0
        for what, damage in DAMAGES.items():
            with _damaged(at, damage):
                try:
                    check(at)
                except Failed as error:
                    say(f"{what}: detected ({str(error).splitlines()[0]})")
                else:
                    say(f"{what}: NOT DETECTED")
                    undetected += 1
        check(at)
        say("and passes again, repaired" if not undetected else f"{undetected} NOT DETECTED")
    return 1 if undetected else 0


if __name__ == "__main__":
    raise SystemExit(main())

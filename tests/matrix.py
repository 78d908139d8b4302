"""Style, types, import contracts and the site, then the tests on the oldest and the newest JAX.

    python tests/matrix.py             what CI runs
    python tests/matrix.py --all       the tests on every supported JAX
    python tests/matrix.py 0.8 0.12    the tests on these
    python tests/matrix.py --next      the tests on the newest pre-release or nightly of JAX
    python tests/matrix.py --gpu       programs compiled for a GPU that is only described
    python tests/matrix.py --tpu       the same for a TPU
    python tests/matrix.py --device    what records programs, on the accelerator that JAX has here
    python tests/matrix.py --full      like CI, but with everything of which CI tries a sample

Tests that need no JAX run once, with the last of these. Tests marked `drawn` start processes
and take seconds: CI runs a third of them on the oldest JAX and another third on the newest, drawn
by the commit (`tests/sample.py`); with any argument they run on each.

`--gpu` and `--tpu` need no such device, only its compiler: 240 and 140 MB from the package index.
`--device` installs nothing: it runs with the JAX of the Python that runs it.

Run it with the Python of an environment that has retrace[test,check]. Every other JAX gets its
own environment under .venv/matrix/, which is kept and reused.
Arguments after `--` go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OWN_VERSION = sys.version_info[:2]
STARTED = time.monotonic()


class Job(NamedTuple):
    """One JAX to test, on the Pythons that have wheels of it, preferred first."""

    name: str
    pythons: tuple[tuple[int, int], ...]
    packages: tuple[str, ...]
    tests: tuple[str, ...] = ()
    """The only tests to run, if not all."""


MATRIX = (
    # This includes the oldest versions of our own dependencies that pyproject.toml allows.
    Job(
        "0.6",
        ((3, 11), (3, 12), (3, 13)),
        # Newer releases of click warn about what typer 0.21 imports from them.
        ("jax==0.6.0", "jaxlib==0.6.0", "deepdiff==8.0.*", "typer==0.21.*", "click==8.1.*"),
    ),
    Job("0.7", ((3, 11), (3, 12), (3, 13)), ("jax==0.7.*", "jaxlib==0.7.*")),
    Job("0.8", ((3, 11), (3, 12), (3, 13)), ("jax==0.8.*", "jaxlib==0.8.*")),
    Job("0.9", ((3, 11), (3, 12), (3, 13)), ("jax==0.9.*", "jaxlib==0.9.*")),
    Job("0.10", ((3, 11), (3, 12), (3, 13)), ("jax==0.10.*", "jaxlib==0.10.*")),
    Job("0.11", ((3, 12), (3, 13)), ("jax==0.11.*", "jaxlib==0.11.*")),
    Job("0.12", ((3, 12), (3, 13)), ("jax==0.12.*", "jaxlib==0.12.*")),
    # The newest release today, as for a user who installs JAX now.
    Job("newest", ((3, 13), (3, 12)), ("jax", "jaxlib")),
)
# What users will get next, if the index has a pre-release newer than the newest release.
NEXT = Job("next", ((3, 13), (3, 12)), ("jax", "jaxlib"))
DESCRIBED = ("tests/recording/test_accelerators.py", "tests/recording/test_planted.py")
# Compilers of devices, which need no device.
COMPILERS = (
    Job(
        "gpu",
        ((3, 13), (3, 12)),
        ("jax[cuda12-local]", "jaxlib", "nvidia-cuda-nvcc-cu12"),
        (*DESCRIBED, "-k", "described and gpu"),
    ),
    Job(
        "tpu",
        ((3, 13), (3, 12)),
        ("jax", "jaxlib", "libtpu"),
        (*DESCRIBED, "-k", "described and tpu"),
    ),
)
# Programs whose recording might depend on where they run.
ON_DEVICE = (
    *("calls", "config", "counts", "disk_cache", "dispatch", "eager", "frozen_values", "header"),
    *("neutral", "programs", "rebuilt", "shardings", "slow", "slow_profile", "threads", "work"),
)
DEVICE = Job(
    "device",
    (OWN_VERSION,),
    (),
    (*(f"tests/recording/test_{name}.py" for name in ON_DEVICE), "tests/test_examples.py"),
)
# Tests without JAX run once, with the newest of everything else.
WITHOUT_JAX = (
    "tests/hostile",
    "tests/logs",
    "tests/reading",
    "tests/store",
    "tests/tables",
    "tests/test_doors.py",
    "tests/test_github.py",
    "tests/test_private_names.py",
    "tests/test_sample.py",
    # Once is enough.
    "tests/test_tutorial.py",
)
# Two run in parallel; the first takes as long as all others.
CHECKS = (
    ("-m", "pyright", "--pythonpath", sys.executable),
    ("-m", "ruff", "check"),
    ("-m", "ruff", "format", "--check"),
    ("-m", "sphinx", "-W", "-q", "docs", ".venv/site"),
    ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
)


def say(text: str) -> None:
    print(f"\n== {text}  ({time.monotonic() - STARTED:.0f} s)", flush=True)


def passes(python: str, *arguments: str, **more: str) -> bool:
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | more
    return (
        subprocess.run([python, *arguments], cwd=ROOT, env=environment, check=False).returncode
        == 0
    )


def is_version(python: str, wanted: tuple[int, int]) -> bool:
    """Whether `python` runs and has this version; a pyenv shim may not lead to any."""
    source = "import sys, ensurepip, venv; print(*sys.version_info[:2])"
    try:
        found = subprocess.run(
            [python, "-c", source], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return found.stdout.split() == [str(part) for part in wanted]


def interpreter(pythons: tuple[tuple[int, int], ...]) -> str | None:
    """An installed Python of one of these versions: ours, one on PATH, or one of pyenv's."""
    if OWN_VERSION in pythons:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for major, minor in pythons:
        name = f"python{major}.{minor}"
        on_path = shutil.which(name)
        candidates = [on_path] if on_path else []
        candidates += map(str, sorted(pyenv.glob(f"{major}.{minor}.*/bin/{name}")))
        for candidate in candidates:
            if is_version(candidate, (major, minor)):
                return candidate
    return None


def environment(job: Job) -> str | None:
    """The Python of an environment with the job's packages; None if installing failed."""
    base = interpreter(job.pythons)
    if job is DEVICE or base is None or (job.name == "newest" and base == sys.executable):
        # retrace's own requirements have installed the newest JAX for this Python.
        return sys.executable
    home = ROOT / ".venv" / "matrix" / f"jax-{job.name}"
    if job.name == "newest":
        home = home.with_name(f"{home.name}-python-{'.'.join(map(str, job.pythons[0]))}")
    python = str(home / "bin" / "python")
    say(f"jax {job.name}: an environment of {base}")
    made = home.exists() or passes(base, "-m", "venv", str(home))
    install = ("-m", "pip", "install", "-q")
    if not (made and passes(python, *install, "-e", ".[test]", *job.packages)):
        return None
    if job is NEXT and not passes(python, *install, "--pre", "--upgrade", *job.packages):
        return None
    return python


def drawn(job: Job) -> Job:
    """The newest JAX on one of the Pythons that have it, which the commit draws.

    They differ where it matters here: 3.12 starts no thread at the end of a program.
    """
    sys.path.insert(0, str(ROOT))
    from tests.sample import number

    turn = number("Python") % len(job.pythons)
    return job._replace(pythons=(*job.pythons[turn:], *job.pythons[:turn]))


def is_next(release: str) -> bool:
    """Whether a version is a pre-release or a nightly: `0.13.0rc1`, `0.13.0.dev20261122`."""
    return re.search(r"\d(a|b|rc|\.dev)\d*", release) is not None


def device() -> str:
    """JAX's platforms here: the accelerator, and the CPU beside it."""
    source = "import jax; print(jax.default_backend())"
    found = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    return {"cpu": "cpu", "gpu": "cuda,cpu"}.get(found, f"{found},cpu")


def installed(python: str) -> str:
    """The JAX of an environment."""
    source = "from importlib.metadata import version; print(version('jax'))"
    return subprocess.run(
        [python, "-c", source], capture_output=True, text=True, check=True
    ).stdout.strip()


def plugins() -> str:
    """A folder with pytest plugins that must not load in every run (pytest-randomly shuffles)."""
    folder = ROOT / ".venv" / "matrix" / "plugins"
    wanted = ("pytest-randomly", "pytest-rerunfailures")
    install = ("-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(folder))
    return str(folder) if passes(sys.executable, *install, *wanted) else ""


def tested(
    job: Job,
    made: Future[str | None],
    options: list[str],
    part: dict[str, str],
    *,
    whole: bool,
) -> str:
    wanted = " or ".join(f"{major}.{minor}" for major, minor in job.pythons)
    found = interpreter(job.pythons)
    if found is None and job.name != "newest":
        return f"NOT TESTED: no Python {wanted} on this machine"
    python = made.result()
    if python is None:
        return "FAILED to install"
    if job is NEXT and not is_next(release := installed(python)):
        return f"NOT TESTED: the package index has no pre-release of jax newer than {release}"
    say(f"jax {job.name}: the tests")
    left = [] if whole else [f"--ignore={path}" for path in WITHOUT_JAX]
    chosen = job.tests or ("-n", "auto", "--dist", "worksteal", *left)
    command = ("-m", "pytest", "-q", *chosen, *options)
    if job is DEVICE:
        # Each process would take most of the memory of the device for itself.
        part = {"RETRACE_TEST_PLATFORMS": device(), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        command = ("-m", "pytest", "-q", "-n", "auto", *chosen, *options)
    elif job.tests:
        part = {"RETRACE_TEST_DEVICE": job.name}
    result = "passed" if passes(python, *command, **part) else "FAILED"
    if found is None:
        result += (
            f" on jax {version('jax')}, the newest for this Python; newer ones NOT TESTED: "
            f"no Python {wanted} on this machine"
        )
    return result


def check(command: tuple[str, ...]) -> tuple[str, str]:
    """Run one of the checks; return its name and result."""
    name = "import contracts" if command[0] == "-c" else " ".join(command[1:3])
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    # Print in one piece, because two checks run in parallel.
    say(f"{name}\n{done.stdout}{done.stderr}".rstrip())
    return name, "passed" if done.returncode == 0 else "FAILED"


def checked() -> dict[str, str]:
    with ThreadPoolExecutor(max_workers=2) as running:
        return dict(running.map(check, CHECKS))


def main() -> int:
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, options = arguments[:split], arguments[split + 1 :]
    if full := "--full" in names:
        names.remove("--full")
        os.environ["RETRACE_TEST_ALL_NAMES"] = "1"
        os.environ["RETRACE_TEST_ALL_COMMANDS"] = "1"
    known = [job.name for job in MATRIX]
    if names == ["--next"]:
        chosen = [NEXT.name]
    elif names in (["--gpu"], ["--tpu"]):
        chosen = [names[0].removeprefix("--")]
    elif names == ["--device"]:
        chosen = [DEVICE.name]
    elif names == ["--all"]:
        chosen = known[:-1]
    elif unknown := [name for name in names if name not in known]:
        print(f"no such JAX here: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    else:
        chosen = names or [known[0], known[-1]]
    # Tests start thousands of processes, each of which would compile retrace again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A test that needs them is skipped with a message if they could not be installed.
    os.environ["RETRACE_TEST_PLUGINS"] = "" if names == ["--device"] else plugins()
    known_jobs = (*MATRIX[:-1], MATRIX[-1] if names else drawn(MATRIX[-1]), NEXT, *COMPILERS)
    jobs = [job for job in (*known_jobs, DEVICE) if job.name in chosen]
    # Installing waits for the network, so the next environment is created during tests.
    with ThreadPoolExecutor(max_workers=1) as making:
        made = [making.submit(environment, job) for job in jobs]
        results = {} if names else checked()
        for number, (job, python) in enumerate(zip(jobs, made, strict=True)):
            whole = job is jobs[-1]
            part = {} if names or full else {"RETRACE_TEST_PART": str(number)}
            name = f"tests on jax {job.name}"
            results[name] = tested(job, python, options, part, whole=whole)
    say("summary")
    for name, result in results.items():
        print(f"{name:22}{result}")
    return 1 if any(result.startswith("FAILED") for result in results.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The public names of the package, and what each part of it may import."""

from __future__ import annotations

import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import retrace

ROOT = Path(__file__).resolve().parent.parent
READING = (
    *("model", "causes", "errors", "store", "compare", "reason", "plan", "present"),
    *("tables", "logs"),
)
HEAVY = (
    *("jax", "jaxlib", "numpy", "deepdiff", "rich", "typer", "pytest", "IPython"),
    *("pyarrow", "duckdb", "dask", "opentelemetry", "prometheus_client"),
)


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def loaded_by(*modules: str) -> list[str]:
    """Return the heavy packages that a fresh process has loaded after these imports."""
    source = (
        f"import sys, {', '.join(modules)}\n"
        f"print(*(name for name in {HEAVY} if name in sys.modules))"
    )
    done = run("-W", "error", "-c", source)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def modules_of(*rooms: str) -> list[str]:
    found: list[str] = []
    for room in rooms:
        found.append(f"retrace.{room}")
        folder = Path(retrace.__path__[0], room)
        found += [
            f"retrace.{room}.{module.name}" for module in pkgutil.iter_modules([str(folder)])
        ]
    return found


def test_the_public_names() -> None:
    assert sorted(retrace.__all__) == [
        "Cause",
        "RetraceError",
        "RetraceWarning",
        "agree",
        "assert_max_traces",
        "assert_no_retrace",
        "audit",
        "counts",
        "explain",
        "freeze",
        "install",
        "jit",
        "misses",
        "on_miss",
        "policy",
        "recording",
        "slow",
        "uninstall",
    ]
    assert all(getattr(retrace, name) is not None for name in retrace.__all__)
    assert set(retrace.__all__) <= set(dir(retrace))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = retrace.no_such_name


def test_importing_retrace_loads_nothing() -> None:
    assert loaded_by("retrace") == []


def test_reading_loads_neither_jax_nor_slow_packages() -> None:
    assert loaded_by(*modules_of(*READING)) == []


def test_the_tests_above_can_fail() -> None:
    assert {"jax", "numpy"} <= set(loaded_by("retrace.capture.session"))


def test_the_package_is_typed() -> None:
    assert Path(retrace.__path__[0], "py.typed").exists()


def test_ci_runs_the_command_of_the_readme() -> None:
    command = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert command in (ROOT / "README.md").read_text().splitlines()


LINT_IMPORTS = (
    "-c",
    "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])",
)
BREACHES = [
    ("store/schema.py", "import retrace.compare.keys", "The rooms of the reading wing"),
    ("model/miss.py", "import retrace.store.schema", "The rooms of the reading wing"),
    ("compare/keys.py", "import numpy", "Reading a recording never loads JAX"),
    ("errors.py", "import jax", "Reading a recording never loads JAX"),
    # Indirectly: `live` is a front door and uses both wings.
    ("reason/verdict.py", "import retrace.inside.live", "Reading a recording never loads JAX"),
    ("capture/recorder.py", "import retrace.reason", "Recording never compares"),
    ("jax_internals/hooks.py", "import rich", "Recording never compares"),
    ("jax_internals/hooks.py", "import retrace.capture.tree", "JAX's private side knows"),
    ("present/terminal.py", "import typer", "typer stays at the front door"),
    ("plan/data.py", "import numpy", "Reading a recording never loads JAX"),
    ("plan/order.py", "import retrace.present.words", "The rooms of the reading wing"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package that tests may break."""
    copy = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(retrace.__path__[0], copy / "retrace")
    return copy


def test_the_import_contracts_hold(house: Path) -> None:
    done = run(*LINT_IMPORTS, cwd=house)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("module", "line", "contract"), BREACHES)
def test_a_forbidden_import_breaks_its_contract(
    house: Path, module: str, line: str, contract: str
) -> None:
    path = house / "retrace" / module
    original = path.read_text()
    path.write_text(f"{original}\n{line}\n")
    try:
        done = run(*LINT_IMPORTS, cwd=house)
    finally:
        path.write_text(original)
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert done.returncode == 1
    assert any(text.startswith(contract) for text in broken), done.stdout


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("capture/recorder.py", "import jaxlib", "TID251"),
        ("capture/recorder.py", "from jax._src import core", "TID251"),
        ("capture/recorder.py", "import jax\njax._src.core", "TID251"),
        ("compare/keys.py", "import deepdiff", "TID253"),
        ("present/terminal.py", "from rich.console import Console", "TID253"),
        ("store/reader.py", "import pickle\npickle.loads(b'')", "S301"),
        ("store/reader.py", "eval('1')", "S307"),
        ("store/reader.py", "exec('1')", "S102"),
    ],
)
def test_a_banned_import_is_found_by_ruff(house: Path, module: str, line: str, rule: str) -> None:
    path = house / "retrace" / module
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", path, "-"],
        input=f"{line}\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=house,
    )
    assert done.returncode == 1
    assert rule in done.stdout


def test_jax_internals_may_use_private_names(house: Path) -> None:
    path = house / "retrace" / "jax_internals" / "hooks.py"
    done = run("-m", "ruff", "check", "--select", "TID251", str(path), cwd=house)
    assert done.returncode == 0, done.stdout

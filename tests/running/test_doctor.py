"""What `retrace doctor` reports about machines that work and machines that do not."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from retrace.capture import interpreter
from retrace.doctor.command import _lines  # pyright: ignore[reportPrivateUsage]
from retrace.doctor.package import faults

pytestmark = pytest.mark.drawn

ROOT = Path(__file__).parents[2]
NO_JAX = """
import importlib.abc, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "jax":
            raise ModuleNotFoundError("No module named 'jax'", name="jax")

sys.meta_path.insert(0, Without())
"""
NO_BYTECODE = """
import dis
dis.get_instructions = None
"""
DEAF = """
import sys

# A listener registry that exists but that JAX never calls.
import jax
from jax._src import monitoring
monitoring.record_event_duration_secs.__code__ = (lambda *_, **__: None).__code__
monitoring.record_scalar.__code__ = (lambda *_, **__: None).__code__
"""


def doctor(folder: Path, spoilt: str = "", *options: str, **more: str) -> tuple[int, str, str]:
    """The command's output in an environment where each Python runs `spoilt` first."""
    (folder / "sitecustomize.py").write_text(spoilt)
    environment = {name: text for name, text in os.environ.items() if "RETRACE" not in name}
    paths = [str(folder), str(ROOT), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-m", "retrace", "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment | more,
    )
    assert done.stderr == "" and "Traceback" not in done.stdout
    return done.returncode, done.stdout, done.stderr


def as_json(folder: Path, spoilt: str = "", **more: str) -> dict[str, Any]:
    code, out, _ = doctor(folder, spoilt, "--format", "json", **more)
    found = json.loads(out)
    assert found["schema"] == "retrace-doctor/1"
    assert code == (0 if found["well"] else 1) and found["well"] == (not found["problems"])
    return found


def works(found: dict[str, Any]) -> dict[str, bool | None]:
    return {one["part"]: one["works"] for one in found["works"]}


def test_a_working_machine(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        "from retrace.doctor.examination import examine\n"
        "found = examine()\n"
        "assert not {'jax', 'jaxlib', 'numpy'} & set(sys.modules)\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found = json.loads(done.stdout)
    assert found["problems"] == [] and found["well"]
    assert works(found) == {"recording": True, "guards": True, "pytest": True}
    assert (found["jax"], found["backend"]) == (jax.__version__, "cpu")
    assert found["names"]["known"] > 50 and found["losses"] == {} and found["files"] == []
    assert "retrace works here" in "\n".join(_lines(found, 80))
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


@pytest.mark.parametrize(
    ("guard", "said"),
    [("contextlib.nullcontext", "freeze let"), ("lambda: 1 / 0", "freeze: division by zero")],
    ids=("passes", "raises"),
)
def test_a_guard_that_does_not_guard_is_reported(tmp_path: Path, guard: str, said: str) -> None:
    found = as_json(tmp_path, f"import contextlib, retrace\nretrace.freeze = {guard}\n")
    assert works(found) == {"recording": True, "guards": False, "pytest": True}
    assert said in json.dumps(found)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"sitecustomize.py": NO_JAX}, "not installed"),
        ({"jax/__init__.py": "raise RuntimeError('half an installation')"}, "half an install"),
        ({"jax/__init__.py": "import os; os.abort()"}, "imports jax fails"),
    ],
)
def test_a_missing_or_broken_jax_is_reported(
    files: dict[str, str], said: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    spoilt = files.get("sitecustomize.py", "")
    found = as_json(tmp_path, spoilt)
    assert any(said in problem for problem in found["problems"])
    assert works(found)["pytest"] is None and works(found)["guards"] is None


def test_losses_are_reported(tmp_path: Path) -> None:
    found = as_json(tmp_path, NO_BYTECODE + DEAF, RETRACE="0")
    assert found["losses"] == {interpreter.BYTECODE: 1}
    assert [row["where"] for row in found["python"]["absent"]] == ["dis"]
    assert works(found)["recording"] is False
    assert any("not seen" in said for said in found["problems"])
    assert any("RETRACE=0" in said for said in found["problems"])


def installed(site: Path, name: str, files: dict[str, str]) -> None:
    """Install a distribution as pip does."""
    rows: list[str] = []
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        rows.append(f"{path},sha256={digest.decode().rstrip('=')},{len(text)}")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,"]))


def test_files_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {f"retrace/{name}": name for name in ("__init__.py", "doctor/package.py", "cli.py")}
    installed(tmp_path, "retrace", ours)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    folder = tmp_path / "retrace"
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "cli.cpython-313.pyc").write_text("")
    assert faults(folder) == []
    installed(tmp_path, "retrace_sdk", {"retrace/__init__.py": "theirs", "retrace/api.py": ""})
    (folder / "stray.py").write_text("")
    (folder / "cli.py").unlink()
    said = faults(folder)
    assert [line.partition(": ")[2] for line in said] == [
        "__init__.py, api.py",
        "cli.py",
        "__init__.py",
        "stray.py",
    ]
    words = ("retrace_sdk 1.0", "1 file missing", "1 file changed", "no installed package")
    assert [word in line for word, line in zip(words, said, strict=True)] == [True] * 4
    # An unreadable file list is another package's problem.
    (tmp_path / "retrace_sdk-1.0.dist-info" / "RECORD").write_bytes(b"\xff\xfe,,\n")
    assert len(faults(folder)) == 3


def test_files_of_other_packages_are_reported_at_import(tmp_path: Path) -> None:
    """As `retrace-sdk` leaves them: extra modules next to ours, or its own instead of ours."""
    package = tmp_path / "retrace"
    package.mkdir()
    for entry in (ROOT / "retrace").iterdir():
        if entry.name not in ("__init__.py", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    ours = (ROOT / "retrace" / "__init__.py").read_text()

    def said(source: str, *options: str) -> tuple[int, str]:
        (package / "__init__.py").write_text(source)
        done = subprocess.run(
            [sys.executable, *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    assert said(ours, "-c", "import retrace") == (0, "")
    (package / "agents.py").write_text("")
    code, told = said(ours, "-c", "import retrace")
    assert code == 0 and told.count("\n") == 1 and "(agents.py)" in told
    code, told = said("def init(): ...", "-m", "retrace", "report")
    assert code == 2 and str(package) in told and "--force-reinstall" in told

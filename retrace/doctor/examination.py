"""The examination by `retrace doctor`, which never imports JAX into its own process."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from retrace import __version__
from retrace.capture import interpreter
from retrace.doctor import package

SCHEMA = "retrace-doctor/1"
_TIMEOUT = 180.0
"""Seconds for a process to import JAX, find its devices and compile."""
_PACKAGE = Path(__file__).resolve().parent.parent

_SUITE = """
import jax, pytest
step = jax.jit(lambda x: x + 1)

@pytest.mark.retrace(max_traces=1)
def test_too_often():
    step(1.0), step(1)

@pytest.mark.retrace(max_traces=1)
def test_often_enough():
    step(1j)
"""


def examine() -> dict[str, Any]:
    """The state of retrace on this machine, with the fields of the JSON report."""
    with tempfile.TemporaryDirectory(prefix="retrace-doctor-") as folder:
        facts, end = _patient(Path(folder))
        works = [
            _part("recording", facts, end),
            _part("guards", facts, end),
            _pytest(Path(folder), facts),
        ]
    names: dict[str, Any] = facts.get("names", {})
    absent: list[dict[str, Any]] = names.get("absent", [])
    rows = [
        {"name": row.name, "where": row.where, "lost": row.lost, "without": row.without}
        for row in interpreter.absent()
    ]
    losses = Counter(row["lost"] for row in (*absent, *rows) if row["lost"] is not None)
    problems = [*_jax_problems(facts, end), *_environment_problems()]
    problems += [
        f"{one['part']}: {said}" for one in works if one["works"] is False for said in one["said"]
    ]
    problems += losses
    problems += (files := package.faults(_PACKAGE))
    return {
        "schema": SCHEMA,
        "well": not problems,
        "problems": problems,
        "retrace": __version__,
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "platform": platform.system(),
            "gil": _has_gil(),
            "known": len(interpreter.ROWS),
            "absent": rows,
        },
        "jax": facts.get("jax", {}).get("jax") or _installed("jax"),
        "jaxlib": _installed("jaxlib"),
        "backend": facts.get("backend", {}).get("backend"),
        "names": {"known": names.get("known"), "absent": absent},
        "losses": dict(losses),
        "works": works,
        "files": files,
    }


def _jax_problems(facts: dict[str, Any], end: str) -> list[str]:
    """Why JAX itself cannot be used, if so."""
    if not facts:
        return [f"a process that imports jax fails: {end}"]
    if "error" in facts["jax"]:
        if not _is_there("jax"):
            return ["jax is not installed in this environment: pip install jax"]
        return [f"jax cannot be imported: {facts['jax']['error']}"]
    if (error := facts.get("names", {}).get("error")) is not None:
        return [f"this JAX can only be recorded by its public events: {error}"]
    if (error := facts.get("backend", {}).get("error")) is not None:
        return [f"jax finds no device: {error}"]
    return []


def _environment_problems() -> list[str]:
    if os.environ.get("RETRACE") == "0":
        return ["RETRACE=0 is set in this environment: it turns all recording off"]
    return []


def _part(name: str, facts: dict[str, Any], end: str) -> dict[str, Any]:
    """Whether one part works, according to the facts from the other process."""
    found = facts.get(name)
    if found is None:
        said = [f"could not be tried: {end}"] if "jax" in facts.get("jax", {}) else []
        return {"part": name, "works": False if said else None, "said": said}
    if "error" in found:
        return {"part": name, "works": False, "said": [found["error"]]}
    return {"part": name, "works": found["works"], "said": found["said"]}


def _pytest(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    if not _is_there("pytest"):
        return {"part": "pytest", "works": None, "said": ["pytest is not installed here"]}
    if "backend" not in facts.get("backend", {}):
        return {"part": "pytest", "works": None, "said": []}
    # Its own configuration, so that none from a parent folder applies.
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_doctor.py").write_text(_SUITE)
    code = (
        "import sys, pytest; "
        f"sys.path.append({str(_PACKAGE.parent)!r}); "
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_doctor.py']))"
    )
    done = _run(folder, code)
    if "1 failed, 1 passed" in done.out and "at most 1 allowed" in done.out:
        return {"part": "pytest", "works": True, "said": []}
    said = done.last or "a marked test passed that should not have"
    if "2 passed" in done.out:
        said = "the plugin was not loaded, or its markers do nothing"
    return {"part": "pytest", "works": False, "said": [said]}


class _Done:
    """The output of a process, and its last line or how it ended."""

    def __init__(self, out: str, last: str) -> None:
        self.out = out
        self.last = last


def _patient(folder: Path) -> tuple[dict[str, Any], str]:
    """The facts from the other process, and how it ended."""
    out = folder / "facts.json"
    code = (
        f"import sys; sys.path.append({str(_PACKAGE.parent)!r}); "
        f"from retrace.doctor.patient import main; main({str(out)!r})"
    )
    done = _run(folder, code)
    try:
        facts: dict[str, Any] = json.loads(out.read_text())
    except (OSError, ValueError):
        facts = {}
    return facts, done.last


def _run(folder: Path, code: str) -> _Done:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name
        not in (
            "RETRACE",
            "RETRACE_DIR",
            "RETRACE_POLICY",
            "RETRACE_AGREE",
            "RETRACE_REDACT",
            "PYTEST_ADDOPTS",
        )
    }
    # Using the device must not take memory from programs running on it.
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, with our code
            [sys.executable, "-P", "-c", code],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _Done("", f"it did not end within {_TIMEOUT:.0f} s")
    except OSError as error:
        return _Done("", f"no process can be started ({error.strerror})")
    out = done.stdout.decode(errors="replace")
    said = done.stderr.decode(errors="replace").strip().splitlines()
    last = said[-1][:200] if said else f"it ended with exit code {done.returncode}"
    if done.returncode < 0:
        last = f"it was killed by signal {-done.returncode}"
    return _Done(out, last)


def _is_there(name: str) -> bool:
    """Whether a module can be found, without running it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _has_gil() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())

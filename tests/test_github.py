"""What GitHub runs for us and for others: each step as written in its file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from retrace.present.layout import written
from retrace.present.message import Line, Message
from tests import wheel

ROOT = Path(__file__).resolve().parent.parent
ACTION = ROOT / ".github" / "actions" / "retrace" / "action.yml"
PROGRAM = """
import sys
import jax
import numpy as np

@jax.jit
def step(x):
    return x * 2

for size in range(1, 1 + int(sys.argv[1])):
    step(np.ones(size))
sys.exit(int(sys.argv[2]))
"""
BUDGET = """
[tool.retrace.budgets."step"]
traces = 2
"""


def loaded(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


class Runner:
    """Runs the steps of a composite action like GitHub."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.project = self.workspace / "project"
        self.project.mkdir(parents=True)
        self.output, self.summary = folder / "output", folder / "summary.md"
        self.folder = folder

    def run(self, action: Path, **given: str) -> tuple[bool, str, dict[str, str]]:
        """Return whether all steps passed, what they printed, and their outputs."""
        found = loaded(action)
        inputs = {name: str(one.get("default", "")) for name, one in found["inputs"].items()}
        known = {f"inputs.{name.replace('_', '-')}": text for name, text in inputs.items()}
        known |= {f"inputs.{name.replace('_', '-')}": text for name, text in given.items()}
        known["github.action_path"] = str(action.parent)
        passed, printed = True, ""
        for step in found["runs"]["steps"]:
            condition = step.get("if", "success()")
            if not self._holds(condition, known, passed) or "uses" in step:
                continue
            self.output.write_text("")
            environment = {
                name: value for name, value in os.environ.items() if "RETRACE" not in name
            }
            environment |= {
                name: self._filled(str(value), known)
                for name, value in step.get("env", {}).items()
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self._filled(step.get("working-directory", str(self.workspace)), known),
                env=environment
                | {
                    "GITHUB_WORKSPACE": str(self.workspace),
                    "GITHUB_OUTPUT": str(self.output),
                    "GITHUB_STEP_SUMMARY": str(self.summary),
                    "RUNNER_TEMP": str(self.folder),
                    "PYTHONPATH": str(ROOT),
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in done.stderr, done.stderr
            printed += done.stdout + done.stderr
            passed = passed and done.returncode == 0
            for line in self.output.read_text().splitlines():
                name, _, value = line.partition("=")
                known[f"steps.{step['id']}.outputs.{name}"] = value
        outputs = found["outputs"].items()
        return passed, printed, {n: self._filled(one["value"], known) for n, one in outputs}

    @staticmethod
    def _filled(text: str, known: dict[str, str]) -> str:
        return re.sub(r"\$\{\{ *(\S+) *\}\}", lambda found: known.get(found[1], ""), text)

    @staticmethod
    def _holds(condition: str, known: dict[str, str], passed: bool) -> bool:
        parts = condition.split(" && ")
        for part in parts:
            if part in ("always()", "success()"):
                if part == "success()" and not passed:
                    return False
                continue
            left, sign, right = part.split(" ")
            equal = known.get(left, "") == right.strip("'")
            if equal != (sign == "=="):
                return False
        return True


@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub runs the steps in bash")
def test_the_action_records_reports_and_checks(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (runner.project / "train it.py").write_text(PROGRAM)
    (runner.project / "pyproject.toml").write_text(BUDGET)
    given = {"python": sys.executable, "working_directory": str(runner.project)}
    passed, printed, outputs = runner.run(ACTION, run="'train it.py' 2 0", **given)
    assert passed, printed
    assert list(Path(outputs["recording"]).glob("*.jsonl"))
    assert "<html" in Path(outputs["report"]).read_text()
    assert "::error" not in printed
    assert f"::add-matcher::{ACTION.parent / 'matcher.json'}" in printed

    passed, printed, _ = runner.run(ACTION, run="'train it.py' 3 0", **given)
    assert not passed
    # Paths are relative to the repository, whatever folder it ran in.
    (error,) = re.findall(
        "^::error file=project/train it.py,line=11,title=(.*)$", printed, re.MULTILINE
    )
    assert "3 traces%2C budget 2" in error
    summary = runner.summary.read_text()
    assert "| `step` |" in summary
    assert re.search("^- step .* 3 .* 2 ", summary, re.MULTILINE) and " of " in summary

    # Without a check it passes, with a warning instead; a failing program still fails.
    passed, printed, _ = runner.run(ACTION, run="'train it.py' 3 0", check="false", **given)
    assert passed and "::warning file=project/train it.py,line=11" in printed
    passed, printed, outputs = runner.run(ACTION, run="'train it.py' 1 3", **given)
    assert not passed and "::error" not in printed and outputs["report"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub runs the steps in bash")
@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("tain.py 2", "no such script: tain.py, did you mean train.py?"),
        ("'train.py 2", "the input `run` is no command line: no closing quotation"),
        ("", "the input `run` is empty"),
    ],
)
def test_the_action_reports_once_what_never_ran(tmp_path: Path, run: str, message: str) -> None:
    runner = Runner(tmp_path)
    (runner.project / "train.py").write_text(PROGRAM)
    (runner.project / "pyproject.toml").write_text(BUDGET)
    given = {"python": sys.executable, "working_directory": str(runner.project)}
    passed, printed, outputs = runner.run(ACTION, run=run, **given)
    assert not passed and printed.count(message) == 1 and printed.count("::error") == 1, printed
    assert printed.count("nothing was recorded") >= 2 and "cannot read" not in printed
    assert outputs["report"] == ""


def _matched(lines: list[str]) -> list[tuple[str, str, str]]:
    """What GitHub's runner finds: the patterns of each matcher apply to consecutive lines."""
    found: list[tuple[str, str, str]] = []
    for matcher in json.loads((ACTION.parent / "matcher.json").read_text())["problemMatcher"]:
        patterns = matcher["pattern"]
        for at in range(len(lines) - len(patterns) + 1):
            fields: dict[str, str] = {}
            for pattern, line in zip(patterns, lines[at:], strict=False):
                if (match := re.search(pattern["regexp"], line)) is None:
                    break
                fields |= {
                    k: match[pattern[k]] for k in ("message", "file", "line") if k in pattern
                }
            else:
                found.append((fields["message"], fields["file"], fields["line"]))
    return found


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", ["step", "a_name_of_a_function_" + "x" * 26])
def test_messages_in_the_terminal_are_matched_to_their_line(name: str, width: int) -> None:
    heading = f"{name} traced again (twice, perhaps avoidable)"
    lines = (Line("because", ("shape", "x", "float32[1] -> float32[2]", "at train.py:3")),)
    for file in ("src/train.py", "a folder/train it.py"):
        shown = Message("maybe", heading, f"{file}:31", lines)
        ((message, where, line),) = _matched(["before", *written(shown, width).splitlines()])
        assert heading.startswith(message) and (where, line) == (file, "31")
    # GitHub cannot find a shortened path.
    shown = Message("maybe", heading, ".../loop.py:2", lines)
    assert not _matched(written(shown, width).splitlines())
    summary = ["retrace: 3 misses in train.py, 0.50 s", "         trace under 0.01 s (3)"]
    assert not _matched(summary)


def test_a_release_needs_its_tag_its_version_and_its_changelog(tmp_path: Path) -> None:
    steps = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["tag"]["steps"]
    (step,) = (one for one in steps if "run" in one)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')

    def agrees(tag: str, changelog: str) -> bool:
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        script = re.sub(r"\bpython3\b", sys.executable, step["run"])
        command = ["bash", "-eo", "pipefail", "-c", script]
        environment = {**os.environ, "TAG": tag}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert (done.returncode == 0) == ("::error" not in done.stdout)
        return done.returncode == 0

    assert agrees("v1.2.0", "## [1.2.0] - 2027-01-01\n")
    assert not agrees("v1.2.1", "## [1.2.0] - 2027-01-01\n")
    assert not agrees("v1.2.0", "## [Unreleased]\n")


def test_files_named_in_workflows_exist() -> None:
    workflows = {path.name: loaded(path) for path in (ROOT / ".github/workflows").glob("*.yml")}
    assert set(workflows) == {"tests.yml", "wheel.yml", "release.yml"}
    for found in workflows.values():
        for job in found["jobs"].values():
            if (called := job.get("uses")) is not None:
                assert (ROOT / called).is_file()
            for step in job.get("steps", []):
                for name in re.findall(r"(?:tests|\.ci)/[\w./]+", step.get("run", "")):
                    assert (ROOT / name).is_file()
    names = {each["jax"] for each in _between(workflows["tests.yml"])}
    source = (ROOT / "tests" / "matrix.py").read_text()
    assert names == {*re.findall(r'Job\("([\d.]+)"', source)} - {"0.12"}
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "retrace check"


def test_what_the_wheel_check_damages_exists() -> None:
    for what, damage in wheel.DAMAGES.items():
        if isinstance(damage, wheel.Replaced) and not damage.name.startswith("retrace_jax-"):
            assert damage.old in (ROOT / damage.name).read_text(), what


def _between(workflow: dict[str, Any]) -> list[dict[str, str]]:
    return workflow["jobs"]["between"]["strategy"]["matrix"]["include"]

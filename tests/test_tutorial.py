"""The tutorial, followed exactly; the page of commands, compared with the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from retrace.present import report_json
from tests import schema_files
from tests.command_page import PAGE as COMMANDS
from tests.command_page import written
from tests.process import environment, retrace
from tests.reading.story import training

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
EDIT = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def edited(program: str) -> str:
    """The program after each change described on the page."""
    for edit in EDIT.findall(PAGE.read_text()):
        lines = edit.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in " " + sign) for sign in "-+")
        # An earlier change may have touched a line that a later one shows.
        assert program.count(old) == 1, old
        program = program.replace(old, new)
    return program


def test_the_final_program_of_the_tutorial_compiles_twice(tmp_path: Path) -> None:
    program = (ROOT / "examples" / "train_digits.py").read_text()
    (tmp_path / "train_digits.py").write_text(edited(program))
    run = [sys.executable, "-m", "retrace", "run", "-q", "--out", "out", "train_digits.py"]
    subprocess.run(run, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    plan = json.loads(retrace("plan", "out", "--format", "json", cwd=tmp_path).stdout)
    names = ["train_step", "predict"]
    report = json.loads(retrace("report", "out", "--format", "json", cwd=tmp_path).stdout)
    ran = [m["function"]["name"] for m in report["misses"] if m["function"]["name"] in names]
    assert sorted(ran) == sorted(names)
    assert not [step for step in plan["steps"] if step.get("worth", True)], plan["steps"]


def test_the_page_of_commands_matches_the_command_line() -> None:
    assert COMMANDS.read_text(encoding="utf-8") == written(), "run python tests/command_page.py"


def test_the_schemas_in_the_docs_match_the_tests() -> None:
    found = {file.name: file.read_text("utf-8") for file in schema_files.FOLDER.iterdir()}
    assert found == schema_files.written(), "run python -m tests.schema_files"


def test_the_schemas_in_the_docs_accept_later_fields() -> None:
    schema = json.loads((schema_files.FOLDER / "retrace-report-1.json").read_text("utf-8"))
    validator: Any = Draft202012Validator(schema)
    report = report_json.report(training().view(), keys=True)
    report["later"] = report["misses"][0]["later"] = 1
    validator.validate(report)
    del report["misses"][0]["cause"]
    with pytest.raises(ValidationError):
        validator.validate(report)

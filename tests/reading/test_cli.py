"""The command line as whole processes: output and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.command import cli
from retrace.command.run import own_options_ended
from tests.process import COMMAND, HERE, environment, retrace
from tests.reading.story import Story, hostile, killed, training, write


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return write(training(), tmp_path / "rec")


def complains(done: subprocess.CompletedProcess[str], *expected_texts: str) -> None:
    """Exit 2, one line on stderr, nothing else."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("retrace: ")
    assert done.stderr.count("\n") == 1
    for text in expected_texts:
        assert text in done.stderr


# report


def test_report_in_each_format(recorded: Path) -> None:
    text = retrace("report", recorded)
    assert text.returncode == 0
    assert text.stderr == ""
    assert "train_step traced again (3rd time, perhaps avoidable)" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80
    assert "\x1b" not in text.stdout
    assert retrace("report", recorded, "--format", "markdown").stdout.startswith(
        "# retrace report"
    )
    assert json.loads(retrace("report", recorded, "--format=json").stdout)["schema"]


def test_the_newest_recording_is_the_default(tmp_path: Path) -> None:
    write(Story(), tmp_path / ".retrace" / "2025-01-01T10-00-00")
    write(training(), tmp_path / ".retrace" / "2025-01-02T10-00-00")
    assert "20 misses" in retrace("report", cwd=tmp_path).stdout
    assert retrace("show", "train_step #3", cwd=tmp_path).returncode == 0


def test_several_directories_are_one_report(recorded: Path, tmp_path: Path) -> None:
    other = write(training(run="second", process_index=1), tmp_path / "other")
    assert "40 misses" in retrace("report", recorded, other).stdout


def test_only_a_function_or_a_cause(recorded: Path) -> None:
    report = json.loads(
        retrace("report", recorded, "--function", "train_step", "--format", "json").stdout
    )
    assert {miss["function"]["name"] for miss in report["misses"]} == {"train_step"}
    report = json.loads(
        retrace("report", recorded, "--cause", "eager-op", "--format", "json").stdout
    )
    assert {miss["cause"] for miss in report["misses"]} == {"eager-op"}
    none = retrace("report", recorded, "--cause", "cache-cleared")
    assert none.returncode == 0
    assert "no such misses" in none.stdout


def test_keys_are_written_on_request(recorded: Path) -> None:
    without = retrace("report", recorded, "--format", "json").stdout
    assert "key" not in json.loads(without)["misses"][0]
    report = json.loads(retrace("report", recorded, "--format", "json", "--keys").stdout)
    assert report["misses"][5]["key"]["leaves"][-1]["path"] == "step"
    assert (
        "params['layer0']['w']   float32[64,64]" in retrace("report", recorded, "--keys").stdout
    )


def test_fail_on_a_cause(recorded: Path) -> None:
    found = retrace("report", recorded, "--fail-on", "unknown", "--fail-on", "shape-changed")
    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "shape-changed" in found.stderr
    assert "train_step" in found.stdout
    assert retrace("report", recorded, "--fail-on", "dtype-changed").returncode == 0


def test_output_goes_into_a_file(recorded: Path, tmp_path: Path) -> None:
    done = retrace("report", recorded, "-o", tmp_path / "report.txt")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert "train_step" in (tmp_path / "report.txt").read_text()


def test_a_killed_program_is_reported(tmp_path: Path) -> None:
    text = retrace("report", write(killed(), tmp_path / "rec")).stdout
    assert "compile stage of export #1" in " ".join(text.split())
    assert "unreadable line (2)" in text


# show


def test_show_by_id_label_and_beginning(recorded: Path) -> None:
    by_label = retrace("show", "train_step #3", recorded)
    assert by_label.returncode == 0
    assert by_label.stdout == retrace("show", "k3x9f2a-9", recorded).stdout
    shown = json.loads(retrace("show", "train_step #3", recorded, "--format", "json").stdout)
    assert shown["key"]["leaves"][6]["shape"] == [17, 8, 8]
    assert shown["nearest_key"]["leaves"][6]["shape"] == [32, 8, 8]
    assert shown["nearest_call_site"]["line"] == 88


# Wrong usage, unreadable input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["repot"], ["report"]),
        (["report", "nowhere"], ["nowhere"]),
        (["report", "--fromat", "json"], ["--format"]),
        (["report", "{rec}", "--format", "jsn"], ["'jsn'", "json"]),
        (["report", "{rec}", "--format", "pdf"], ["'pdf'", "text, json, markdown, html"]),
        (["report", "{rec}", "--sort", "second"], ["seconds"]),
        (["report", "{rec}", "--cause", "shape-change"], ["shape-changed"]),
        (["report", "{rec}", "--fail-on", "shapes"], ["--fail-on", "shape"]),
        (["report", "{rec}", "--function", "trainstep"], ["train_step"]),
        (
            ["report", "{rec}", "-o", "no/such/folder/file"],
            ["cannot write to no/such/folder/file"],
        ),
        (["report", "{rec}", "-o"], ["-o", "retrace report --help"]),
        (["show"], ["ID"]),
        (["show", "k3x9f2a", "{rec}"], ["k3x9f2a-0 (random_bits #1)", "16 more"]),
        (["show", "train_stp #3", "{rec}"], ["train_step #3"]),
        (["show", "", "{rec}"], ["no miss"]),
        (["show", "\x1b[31m", "{rec}"], ["x1b[31m"]),
        (["run"], ["retrace run train.py"]),
        (["run", "nowhere.py"], ["nowhere.py"]),
        (["run", "-m", "no_such_module"], ["no_such_module"]),
        (["run", "--force", "--append", "x.py"], ["--append"]),
        (["run", "--ot", "x", "x.py"], ["--out"]),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(
    recorded: Path, tmp_path: Path, arguments: list[str], said: list[str]
) -> None:
    given = [argument.format(rec=recorded) for argument in arguments]
    complains(retrace(*given, cwd=tmp_path), *said)


def test_without_a_recording_it_says_how_to_make_one(tmp_path: Path) -> None:
    complains(retrace("report", cwd=tmp_path), "retrace run SCRIPT")
    complains(retrace("report", tmp_path), "retrace run")


def test_help_has_an_example() -> None:
    for command in ([], ["run"], ["report"], ["show"]):
        done = retrace(*command, "--help")
        assert done.returncode == 0
        assert "Example" in done.stdout
        assert "retrace " in done.stdout
    assert retrace("--version").stdout.startswith("retrace 0.")


def test_help_fits_a_narrow_terminal_and_names_no_types_of_the_code() -> None:
    for command in ((), ("show",)):
        told = retrace(*command, "--help", COLUMNS="40").stdout
        assert max(map(len, told.splitlines())) <= 40
        assert "<" not in told and "..." not in told.partition("Commands:")[2]
    assert "  [default: text]" in retrace("report", "--help", COLUMNS="80").stdout


def test_the_bare_command_prints_its_help() -> None:
    done = retrace()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == retrace("--help").stdout


def test_a_bug_in_a_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> int:
        raise ValueError("of\nours")

    def application(_: object) -> object:
        return broken

    monkeypatch.setattr(cli, "application", application)
    monkeypatch.delenv("RETRACE_DEBUG", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.count("\n") == 1 and "ValueError: of ours at test_cli.py:" in said
    monkeypatch.setenv("RETRACE_DEBUG", "1")
    with pytest.raises(ValueError, match="ours"):
        cli.main()


# Names that no program should have


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_hostile_names_in_every_format(tmp_path: Path, format: str, encoding: str) -> None:
    directory = write(hostile(), tmp_path / "rec")
    done = retrace("report", directory, "--keys", "--format", format, PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    kept = tmp_path / "file"
    done = retrace("report", directory, "--keys", "--format", format, "-o", kept)
    assert done.returncode == 0
    assert b"\x1b" not in kept.read_bytes()


# Terminals and pipes


def on_a_terminal(*arguments: str | Path, **more: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=theirs,
        env=environment(TERM="xterm", COLUMNS="100", **more),
        cwd=HERE,
    ):
        os.close(theirs)
        return read_to_end(ours).decode()


def read_to_end(terminal: int) -> bytes:
    """What was written to a terminal, which is then closed."""
    shown = b""
    try:
        while data := os.read(terminal, 65536):
            shown += data
    except OSError:  # how a terminal ends on Linux
        pass
    os.close(terminal)
    return shown


def test_colour_and_width_of_a_terminal(recorded: Path) -> None:
    coloured = on_a_terminal("report", recorded, NO_COLOR="")
    assert "\x1b[" in coloured
    assert "\x1b" not in on_a_terminal("report", recorded, NO_COLOR="1")
    plain = on_a_terminal("report", recorded, NO_COLOR="1")
    assert 80 < max(map(len, plain.splitlines())) <= 100


def test_colour_and_width_follow_the_environment(recorded: Path) -> None:
    def report(command: str = "report", **more: str) -> str:
        done = retrace(command, recorded, cwd=HERE, **{"NO_COLOR": "", "COLUMNS": "", **more})
        assert done.returncode == 0, done.stderr
        return done.stdout

    plain = report()
    assert "\x1b" not in plain and max(map(len, plain.splitlines())) <= 80
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        assert "\x1b[" in report(**{name: "1"})
        assert report(**{name: "0"}) == plain
        assert report(**{name: "1", "NO_COLOR": "1"}) == plain
    for command, columns in (("report", 40), ("report", 60), ("plan", 40), ("plan", 60)):
        text = report(command, COLUMNS=str(columns))
        # Code to paste is not wrapped.
        lines = [line for line in text.splitlines() if not line.startswith("        ")]
        assert [line for line in lines if len(line) > columns] == []
        # Lines do not break between things that belong together.
        assert not re.search(r"(trace|lower|compile|all \d+:|left:)$", text, re.MULTILINE)


def test_an_error_on_a_narrow_terminal_wraps_between_words(recorded: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "report", recorded, "--function", "train_stp"],
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="40"),
        cwd=HERE,
    ):
        os.close(theirs)
        said = read_to_end(ours).decode().splitlines()
    assert len(said) > 1
    assert max(map(len, said)) <= 40
    assert " ".join(" ".join(said).split()).endswith("did you mean train_step?")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "command", [["report", "rec"], ["plan", "rec"], ["--help"], ["--version"]]
)
def test_an_output_that_cannot_be_written_is_one_line(recorded: Path, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *command],
            cwd=recorded.parent,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("retrace: cannot write")
    assert "No space left" in done.stderr


@pytest.mark.parametrize(
    "command", ["report rec", "report rec --format json", "plan rec", "show f"]
)
def test_a_closed_output_is_not_an_error(recorded: Path, command: str) -> None:
    """As Python's own `print` does nothing then."""
    line = f"{sys.executable} -m retrace {command} >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=recorded.parent,
        env=environment() | {"PYTHONPATH": str(HERE)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert "bug" not in done.stderr
    assert done.returncode == (2 if command.startswith("show") else 0)


def test_a_reader_that_closes_the_pipe_early_is_not_an_error(tmp_path: Path) -> None:
    story = Story()
    for _ in range(60):
        story.misses += training().misses
    for number, miss in enumerate(story.misses):
        miss.number, miss.parent = number, None
    directory = write(story, tmp_path / "rec")
    with subprocess.Popen(
        [*COMMAND, "report", directory, "--format", "json", "--keys"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=HERE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


# What a report loads

_LOADED = """
import sys
{before}
sys.argv = ["retrace", "report", {directory!r}, "--format", {format!r}]
from retrace.command.cli import main
try:
    main()
finally:
    heavy = {{"jax", "jaxlib", "numpy", "deepdiff", "pydantic", "retrace.capture"}}
    print(sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


def loaded(directory: Path, format: str, before: str = "") -> str:
    code = _LOADED.format(before=before, directory=str(directory), format=format)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        cwd=HERE,
        check=True,
        timeout=120,
    )
    assert done.stdout
    return done.stderr.strip()


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_a_report_loads_nothing_heavy(recorded: Path, format: str) -> None:
    assert loaded(recorded, format) == "[]"


def test_the_test_above_can_fail(recorded: Path) -> None:
    assert loaded(recorded, "text", "import numpy") == "['numpy']"


# run


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["a.py", "-m", "x"], ["a.py", "-m", "x"]),
        (["-m", "pkg", "--out", "y", "-q"], ["-m", "pkg", "--", "--out", "y", "-q"]),
        (["--out", "-m", "-m", "pkg", "-h"], ["--out", "-m", "-m", "pkg", "--", "-h"]),
        (["-qm", "pkg", "--", "x"], ["-qm", "pkg", "--", "--", "x"]),
        (["-mpkg", "-m"], ["-mpkg", "--", "-m"]),
        (["--", "-m", "x"], ["--", "-m", "x"]),
        (["-o", "dir", "a.py", "-m"], ["-o", "dir", "a.py", "-m"]),
        (["-q"], ["-q"]),
        (["-m"], ["-m", "--"]),
    ],
)
def test_the_programs_options_are_its_own(given: list[str], parsed: list[str]) -> None:
    assert own_options_ended(given) == parsed


def offered(*words: str, cwd: Path) -> list[str]:
    """What bash offers after pressing Tab."""
    done = retrace(
        cwd=cwd,
        _RETRACE_COMPLETE="complete_bash",
        COMP_WORDS=" ".join(("retrace", *words)),
        COMP_CWORD=str(len(words)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_tab_completes(tmp_path: Path) -> None:
    assert offered("show", "tr", cwd=tmp_path) == []
    write(training(), tmp_path / ".retrace" / "2025-01-02T10-00-00")
    labels = offered("show", "train_step", cwd=tmp_path)
    assert "train_step#3" in labels
    assert retrace("show", "train_step#3", cwd=tmp_path).returncode == 0
    assert "k3x9f2a-1" in offered("show", "k3x", cwd=tmp_path)
    assert offered("report", "--cause", "sha", cwd=tmp_path) == [
        "shape-changed",
        "sharding-changed",
    ]
    assert offered("report", "--function", "train", cwd=tmp_path) == ["train_step"]
    assert "watch" in offered("wa", cwd=tmp_path)


def test_help_describes_a_command_in_full() -> None:
    listed = retrace("--help", COLUMNS="80").stdout.partition("Commands:")[2]
    assert "train.py" not in listed
    assert "..." not in listed

"""Commands with paths that are not files, or that are somebody else's files."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrace.command.report import FORMATS
from tests.hostile.commands import run
from tests.reading.story import Story, training, write


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    gc.collect()  # garbage of other tests would fail, and say so, where a file is nested deeply
    return tmp_path


@pytest.fixture
def recorded(here: Path) -> Path:
    return write(training(), here / "rec")


def complains(*arguments: object, about: str = "") -> None:
    """Exit 2, one line on stderr, nothing else."""
    ended = run(*map(str, arguments))
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1), ended
    assert ended.err.startswith("retrace: ")
    assert about in ended.err


# Paths that are not files


def test_a_path_without_a_recording_is_one_line(here: Path, recorded: Path) -> None:
    os.mkfifo("pipe")
    Path("ring").symlink_to("ring")
    Path("nowhere").symlink_to("gone")
    Path("folder").mkdir()
    for path in ("pipe", "/dev/zero", "/dev/null", "ring", "nowhere", "folder", "x" * 300):
        complains("report", path, about=path)
        complains("report", recorded, path, about=path)
        for arguments in (["show", "a #1", path], ["programs", path], ["diff", recorded, path]):
            complains(*arguments)
    for name in ("pipe", "ring"):
        Path(name).rename(Path("folder", f"{name}.jsonl"))
    complains("report", "folder", about="folder")


def test_settings_that_are_not_a_file_are_one_line(here: Path, recorded: Path) -> None:
    settings, baseline = Path("pyproject.toml"), Path("retrace-baseline.toml")
    deep = {
        "arrays": f"a = {'[' * 20000}",
        "tables": f"a = {'{a=' * 20000}",
        "key": f"{'a.' * 500_000}a = 1",
        "quoted": "[" + '"a" . ' * 300 + "a]",
        "number": f"a = {'1' * 5000}",
        "bytes": "a = '\udcff'",
        "huge": f"# retrace {'x' * (5 << 20)}",
    }

    def each(path: Path) -> None:
        os.mkfifo(path)
        complains("check", recorded, about=path.name)
        path.unlink()
        path.mkdir()
        complains("check", recorded, about=path.name)
        path.rmdir()
        for target in ("/dev/zero", "gone", path.name):
            path.symlink_to(target)
            complains("check", recorded, about=path.name)
            path.unlink()
        for text in deep.values():
            path.write_bytes(text.encode(errors="surrogateescape"))
            complains("check", recorded, about=path.name)
            path.unlink()

    each(settings)
    settings.write_text("")
    each(baseline)
    complains("check", recorded, "--config", "gone.toml", about="gone.toml")
    complains("check", recorded, "--config", "/dev/zero", about="/dev/zero")


def test_nothing_is_written_outside_the_project(here: Path, recorded: Path) -> None:
    project, outside = here / "project", here / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "link").symlink_to(outside)
    (project / "file.toml").symlink_to(outside / "file.toml")
    os.chdir(project)
    for named in ("../outside/b.toml", "link/b.toml", "file.toml", str(outside / "b.toml"), ".."):
        Path("pyproject.toml").write_text(f'[tool.retrace]\nbaseline = "{named}"\n')
        complains("check", recorded, "--update", about="outside the project")
        assert list(outside.iterdir()) == []
    for named in ("b.toml", "new/folder/b.toml", "../project/c.toml"):
        Path("pyproject.toml").write_text(f'[tool.retrace]\nbaseline = "{named}"\n')
        assert run("check", str(recorded), "--update").status == 0
        assert Path(named).is_file()


# -o FILE


def test_our_own_report_is_overwritten(here: Path, recorded: Path) -> None:
    out = Path("out")
    lines = [
        *(["report", str(recorded), "--format", name, "-o", "out"] for name in FORMATS),
        ["report", str(recorded), "--cause", "dtype-changed", "-o", "out"],
        ["report", str(write(Story(), here / "none")), "-o", "out"],
        ["show", "train_step #3", str(recorded), "-o", "out"],
        ["show", "train_step #3", str(recorded), "--format", "json", "-o", "out"],
    ]
    same: list[list[str]] = []
    for first in lines:
        assert run(*first).status == 0
        written = out.read_bytes()
        assert run(*lines[0]).status == 0, first
        if out.read_bytes() == written:
            same.append(first)
    assert same == lines[:1]


def test_programs_without_the_file_that_holds_them_are_not_called_unrecorded(here: Path) -> None:
    stored = Path(__file__).parent / "recordings" / "jax-0.6-python-3.11"
    shutil.copytree(stored, "stored", ignore=shutil.ignore_patterns("*.programs"))
    complains("programs", "stored", about="`.programs`")


def test_other_files_are_not_overwritten(here: Path, recorded: Path) -> None:
    out = Path("notes.html")
    for text in ("<!doctype html><title>mine</title>", '{"schema": "mine/1"}', "\x1f\x8b", "x"):
        out.write_text(text)
        complains("report", recorded, "-o", out, about="--force")
        complains("show", "train_step #3", recorded, "-o", out, about="--force")
        complains("programs", recorded, "--pprof", out)
        assert out.read_text() == text
    assert run("report", str(recorded), "-o", str(out), "--force").status == 0
    assert "train_step" in out.read_text()
    out.write_text("")
    assert run("report", str(recorded), "-o", str(out)).status == 0


def test_a_recording_is_not_overwritten(here: Path, recorded: Path) -> None:
    (file,) = recorded.glob("*.jsonl")
    programs = file.with_suffix(".programs")
    programs.write_text('{"listings":["a"],"block":{}}\n')
    Path("link").symlink_to(file)
    damaged = recorded / "a1.jsonl"
    damaged.write_text("damaged")
    before = file.read_bytes()
    for path in (file, programs, "link", damaged):
        complains("report", recorded, "-o", path, "--force", about="recording")
    assert file.read_bytes() == before
    assert damaged.read_text() == "damaged"
    complains("report", recorded, "-o", recorded)
    assert run("report", str(recorded), "-o", str(recorded / "report.md")).status == 0


def test_pipes_and_terminals_are_written_to(here: Path, recorded: Path) -> None:
    command = f"{sys.executable} -m retrace report {recorded}"
    script = f"""
    set -e
    echo before > log; {command} -o /dev/stdout >> log; echo after >> log
    {command} -o >(cat > through); {command} -o /dev/null; {command} -o - > plain
    mkfifo pipe; cat pipe > piped & {command} -o pipe; wait
    """
    subprocess.run(["bash", "-c", script], check=True, timeout=300)
    plain = Path("plain").read_text()
    assert Path("log").read_text() == f"before\n{plain}after\n"
    assert Path("piped").read_text() == Path("through").read_text() == plain


# Without DIR, and folders of recordings


def test_the_nearest_folder_above_is_used(here: Path) -> None:
    write(Story(), here / ".retrace" / "2025-01-01T10-00-00")
    write(training(), here / ".retrace" / "2025-01-02T10-00-00")
    (here / "deep" / "er").mkdir(parents=True)
    os.chdir(here / "deep" / "er")
    assert "20 misses" in run("report").out
    assert run("show", "train_step #3").status == 0
    assert run("diff").status == 0
    os.chdir(here / "deep")
    (here / "deep" / ".retrace").mkdir()
    complains("report")


def test_a_folder_of_recordings(here: Path) -> None:
    root = here / ".retrace"
    write(training(run="first"), root / "2025-01-01T10-00-00")
    write(training(run="second"), root / "2025-01-02T10-00-00")
    assert "20 misses" in run("report", ".retrace").out
    os.chdir(root)
    assert "20 misses" in run("report", ".").out
    os.chdir(here)
    root.rename(here / "hosts")
    assert "40 misses" in run("report", "hosts").out

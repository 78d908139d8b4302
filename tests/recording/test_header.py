"""What a recording tells of its process: variables, settings, devices, the commit of git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import pytest

from retrace.capture import commit
from retrace.capture.session import begin_file, session
from retrace.model import Run
from retrace.store.reader import read
from retrace.store.redaction import Redaction

CONFIG: Any = jax.config


def recorded(directory: Path, program: Callable[[], object]) -> Run:
    directory.mkdir(exist_ok=True)
    writer = begin_file(directory)
    try:
        program()
    finally:
        session().detach(writer)
    return read([directory]).runs[0]


def compiles() -> None:
    jax.jit(lambda x: x + 1)(1.0)


def test_variables_settings_and_devices_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("JAX_LONG", "x" * 5000)
    monkeypatch.setenv("PASSWORD", "hidden")
    before = CONFIG.jax_log_compiles
    try:
        jax.config.update("jax_log_compiles", True)
        with jax.default_matmul_precision("highest"):  # of this thread alone
            run = recorded(tmp_path, compiles)
    finally:
        jax.config.update("jax_log_compiles", before)
    assert run.variables["NCCL_DEBUG"] == "INFO"
    assert run.variables["JAX_PLATFORMS"] == os.environ["JAX_PLATFORMS"]
    assert len(run.variables["JAX_LONG"]) < 4200
    assert "PASSWORD" not in run.variables
    assert run.settings["jax_log_compiles"] is True
    assert run.settings["jax_default_matmul_precision"] is None
    assert (run.local_devices, run.device_kind) == (
        jax.local_device_count(),
        jax.devices()[0].device_kind,
    )
    assert run.platform_version
    other = recorded(tmp_path / "other", compiles)
    differing = {key for key, value in run.settings.items() if other.settings[key] != value}
    assert differing == {"jax_log_compiles"}


def test_a_redacted_header_says_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/home/secret --xla_cpu_fast=true bare")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "secret:1234")
    before = CONFIG.jax_debug_log_modules
    try:
        monkeypatch.setenv("RETRACE_REDACT", "1")
        jax.config.update("jax_debug_log_modules", "secret.module")
        run = recorded(tmp_path, compiles)
    finally:
        jax.config.update("jax_debug_log_modules", before)
    text = "".join(file.read_text() for file in tmp_path.glob("*.jsonl"))
    assert "secret" not in text
    flags = run.variables["XLA_FLAGS"].split("--")
    assert flags[2] == "xla_cpu_fast=true <redacted " + flags[2][-9:]
    assert run.settings["jax_debug_log_modules"] != other_setting(run)
    assert run.variables["JAX_PLATFORMS"] == "cpu"
    # What is hidden already stays as it is, so that a report may be redacted again.
    assert Redaction([]).run(run).variables == run.variables


def other_setting(run: Run) -> object:
    return run.settings["jax_log_compiles"]


def git(folder: Path, *arguments: str) -> str:
    own = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_CONFIG_GLOBAL": os.devnull}
    own |= {
        "GIT_COMMITTER_NAME": "n",
        "GIT_COMMITTER_EMAIL": "e",
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **own}
    )
    return done.stdout.strip()


def steps(root: Path) -> Iterator[tuple[str, Path]]:
    """A checkout, changed step by step; the folder to look at after each."""
    (root / "sub").mkdir()
    (root / "a.py").write_text("x = 1\n")
    (root / "sub" / "b.py").write_text("y = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "1")
    yield "committed", root / "sub"
    (root / "a.py").write_text("x = 2\n")
    yield "other content of the same size", root
    (root / "a.py").write_text("x = 1\n")
    yield "as it was, written later", root
    os.utime(root / "a.py", (1, 1))
    yield "touched", root
    git(root, "checkout", "-q", ".")
    at = (root / "a.py").stat().st_mtime_ns
    (root / "a.py").write_text("x = 4\n")
    for file in (root / "a.py", root / ".git" / "index"):
        os.utime(file, ns=(at, at))
    yield "changed within the moment in which git wrote its index", root
    (root / "a.py").write_text("x = 1\n")
    (root / "new.py").write_text("z = 1\n")
    yield "a file that is not tracked", root
    git(root, "add", "new.py")
    yield "staged", root
    git(root, "commit", "-qm", "2")
    git(root, "pack-refs", "--all")
    yield "committed and packed", root
    git(root, "checkout", "-q", "--detach", "HEAD~1")
    yield "detached", root
    git(root, "update-index", "--index-version", "4")
    yield "format 4", root
    git(root, "worktree", "add", "-q", str(root / "tree"), "-b", "side")
    yield "worktree", root / "tree" / "sub"
    (root / "tree" / "a.py").unlink()
    yield "worktree with a file gone", root / "tree"
    git(root, "mv", "sub/b.py", "sub/c.py")
    yield "renamed", root
    git(root, "commit", "-qm", "3")
    (root / ".gitattributes").write_text("*.py text eol=crlf\n")
    (root / "a.py").write_bytes(b"x = 3\n")
    yield "where git may convert what it keeps", root


def test_the_commit_and_changed_files_are_as_git_says(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    unknown: list[str] = []
    seen: list[bool] = []
    for name, folder in steps(tmp_path):
        commit.checkout_of.cache_clear()
        found = commit.checkout_of("", str(folder))
        assert found is not None, name
        # git writes what it found out into its index: it is asked afterwards.
        dirty = commit.is_dirty(found)
        assert commit.commit_of(found) == git(folder, "rev-parse", "HEAD"), name
        status = git(folder, "--no-optional-locks", "status", "--porcelain", "-uno")
        if dirty is None:
            unknown.append(name)
        else:
            assert dirty == bool(status), name
            seen.append(dirty)
    assert unknown == ["staged", "renamed", "where git may convert what it keeps"]
    assert len([1 for one, other in pairwise(seen) if one != other]) == 5


def test_a_checkout_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("")
    found = commit.checkout_of("", str(tmp_path))
    assert found is not None
    assert (commit.commit_of(found), commit.is_dirty(found)) == (None, None)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "1")
    assert commit.is_dirty(found) is False
    assert commit.is_dirty(found, seconds=-1) is None
    index = tmp_path / ".git" / "index"
    whole = index.read_bytes()
    for size in range(0, len(whole), 7):
        index.write_bytes(whole[:size])
        assert commit.is_dirty(found) is not True
    for text in ("ref: ../../etc/passwd", "ref: /etc/passwd", "ref: HEAD", "f" * 39, "\0"):
        (tmp_path / ".git" / "HEAD").write_text(text)
        assert commit.commit_of(found) is None, text
    index.unlink()
    os.mkfifo(index)
    assert commit.is_dirty(found) is None


def test_a_recording_tells_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    (root / "train.py").write_text("")
    git(root, "add", ".")
    git(root, "commit", "-qm", "1")
    monkeypatch.setattr("sys.argv", [str(root / "train.py")])
    run = recorded(tmp_path / "one", compiles)
    assert (run.commit, run.dirty) == (git(root, "rev-parse", "HEAD"), False)
    (root / "train.py").write_text("x")
    assert recorded(tmp_path / "two", lambda: None).dirty is True

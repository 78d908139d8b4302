"""What counts as the project's, and what as its user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrace.store.redaction import Redaction
from retrace.store.roots import roots_of


@pytest.mark.parametrize("home", ["home", "home/", "link", "link/../home"])
@pytest.mark.parametrize("root", ["home", "home/", "link", "link/"])
def test_a_home_is_no_project_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, root: str
) -> None:
    (tmp_path / "home" / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.setenv("HOME", f"{tmp_path}/{home}")
    redaction = Redaction([f"{tmp_path}/{root}", f"{tmp_path}/home/project"])
    for name in ("home", "link"):
        told = redaction.path(f"{tmp_path}/{name}/customer-acme/notes.py")
        assert told.startswith("<outside ") and "acme" not in told
    assert redaction.path(f"{tmp_path}/home/project/model.py") == "model.py"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "/home/ann/env/lib/python3.12/site-packages/optax/base.py",
            "site-packages/optax/base.py",
        ),
        ("C:\\env\\Lib\\site-packages\\optax\\base.py", "site-packages/optax/base.py"),
        ("/home/ann/.uv/lib/python3.12/json/decoder.py", "json/decoder.py"),
    ],
)
def test_of_what_is_installed_the_place_is_left_out(path: str, told: str) -> None:
    assert Redaction(["/home/ann/project"]).path(path) == f"<python>/{told}"


def test_a_project_is_where_it_runs_where_its_script_lies_and_what_these_are_part_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here/inner", "there/scripts", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "there" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "here" / "inner")
    redaction = Redaction(roots_of([f"{tmp_path}/there/scripts/train.py"]))
    inside = ("here/inner/a.py", "there/scripts/b.py", "there/model/c.py")
    told = [redaction.path(f"{tmp_path}/{file}") for file in inside]
    assert told == ["a.py", "b.py", "model/c.py"]
    for file in ("here/d.py", "elsewhere/e.py"):
        assert redaction.path(f"{tmp_path}/{file}").startswith("<outside ")

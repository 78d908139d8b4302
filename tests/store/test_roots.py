"""Which folders belong to the project, and which to its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrace.store.redaction import Redaction
from retrace.store.roots import roots_of


@pytest.mark.parametrize("home", ["home", "home/", "link", "link/../home"])
@pytest.mark.parametrize("root", ["home", "home/", "link", "link/"])
def test_a_home_folder_is_never_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, root: str
) -> None:
    (tmp_path / "home" / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.setenv("HOME", f"{tmp_path}/{home}")
    redaction = Redaction([f"{tmp_path}/{root}", f"{tmp_path}/home/project"])
    for name in ("home", "link"):
        shown = redaction.path(f"{tmp_path}/{name}/customer-acme/notes.py")
        assert shown.startswith("<outside ") and "acme" not in shown
    assert redaction.path(f"{tmp_path}/home/project/model.py") == "model.py"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (
            "/home/ann/env/lib/python3.12/site-packages/optax/base.py",
            "site-packages/optax/base.py",
        ),
        ("C:\\env\\Lib\\site-packages\\optax\\base.py", "site-packages/optax/base.py"),
        ("/home/ann/.uv/lib/python3.12/json/decoder.py", "json/decoder.py"),
    ],
)
def test_the_location_of_installed_packages_is_hidden(path: str, shown: str) -> None:
    assert Redaction(["/home/ann/project"]).path(path) == f"<python>/{shown}"


def test_a_project_is_the_working_directory_the_scripts_folder_and_their_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here/inner", "there/scripts", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "there" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "here" / "inner")
    redaction = Redaction(roots_of([f"{tmp_path}/there/scripts/train.py"]))
    inside = ("here/inner/a.py", "there/scripts/b.py", "there/model/c.py")
    shown = [redaction.path(f"{tmp_path}/{file}") for file in inside]
    assert shown == ["a.py", "b.py", "model/c.py"]
    for file in ("here/d.py", "elsewhere/e.py"):
        assert redaction.path(f"{tmp_path}/{file}").startswith("<outside ")

"""What counts as the project's, and what as its user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrace.store.redaction import Redaction


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

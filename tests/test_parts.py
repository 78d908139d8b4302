"""A new part of the key is a field, a component and a row: every room then treats it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import retrace
from retrace.model import Key
from retrace.model.parts import PARTS, VALUES

ROOT = Path(__file__).resolve().parent.parent
_CONFIG = "    config: tuple[tuple[str, Value], ...] = ()\n"
_OPTIONS = '    OPTIONS = "options"\n'
_END = ")\n\nVALUES = "
_ROWS = """    Values(
        name="hints",
        components=(Component.HINTS,),
        traced=frozenset(),
        title="compiler hints",
        one="hint",
        absent="no hint",
        hidden=Hidden.ALL,
        of_jax=True,
        of_process=frozenset(("host",)),
    ),
    Values(
        name="labels",
        components=(Component.LABELS,),
        traced=frozenset((Component.LABELS,)),
        title="labels",
        one="label",
        absent="no label",
        hidden=Hidden.ALL,
    ),
"""
_FIELDS = _CONFIG.replace("config", "hints") + _CONFIG.replace("config", "labels")
NEW_PARTS = (
    ("model/key.py", _CONFIG, _CONFIG + _FIELDS),
    ("model/parts.py", _OPTIONS, f'{_OPTIONS}    HINTS = "hints"\n    LABELS = "labels"\n'),
    ("model/parts.py", _END, _ROWS + _END),
    # They share causes: one of their own needs a card.
    ("reason/cards/calls.py", "(Component.OPTIONS,)", "(Component.OPTIONS, Component.HINTS)"),
    ("reason/cards/calls.py", "(Component.STATIC,)", "(Component.STATIC, Component.LABELS)"),
)
"""What is replaced in which module, and by what."""


def test_each_field_of_the_key_has_a_row() -> None:
    assert tuple(row.name for row in PARTS) == Key._fields
    assert all(row.traced <= {*row.components} for row in PARTS)
    assert all(len(row.components) == 1 for row in VALUES)


@pytest.mark.drawn
def test_a_new_part_is_a_field_a_component_and_a_row(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(Path(retrace.__path__[0]), tmp_path / "retrace")
    for name in ("__init__.py", "new_part.py", "reading", "store"):
        copy = shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy
        (tmp_path / "tests").mkdir(exist_ok=True)
        copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    for module, old, new in NEW_PARTS:
        path = tmp_path / "retrace" / module
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            "tests/new_part.py",
            # These try every part of the table.
            "tests/store/test_round_trip.py::test_a_miss_is_read_as_it_was_written",
            "tests/store/test_redacted_fields.py",
            *("tests/reading/test_compare.py", "tests/reading/test_cards.py"),
            "tests/reading/test_present_schema.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

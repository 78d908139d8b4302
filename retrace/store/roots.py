"""The folders that belong to the user's project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_PROJECT_MARKERS = ("pyproject.toml", "setup.py", ".git")
"""Names found at the root of a project."""


def project_folders(*folders: str) -> list[str]:
    """Return the folders, and the roots of the projects that contain them."""
    found: list[str] = []
    for folder in filter(None, folders):
        path = Path(os.path.abspath(folder))
        found.append(str(path))
        for above in path.parents:
            if any((above / name).exists() for name in _PROJECT_MARKERS):
                found.append(str(above))
                break
    return found


def is_project(folder: str) -> bool:
    """Whether everything in a folder belongs to the project."""
    # A program may be started in the home folder, which contains more than the project.
    real = os.path.realpath(folder)
    return os.path.dirname(real) != real and real != os.path.realpath(os.path.expanduser("~"))


def roots_of(argv: Sequence[str]) -> list[str]:
    """The project folders of a process."""
    program = argv[0] if argv and not argv[0].startswith("-") else ""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    return project_folders(here, os.path.dirname(os.path.abspath(program)) if program else "")

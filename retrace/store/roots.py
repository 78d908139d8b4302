"""The folders whose files are the project's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_PROJECT = ("pyproject.toml", "setup.py", ".git")
"""What lies at the root of a project."""


def project_folders(*folders: str) -> list[str]:
    """The folders themselves, and the roots of the projects that they are part of."""
    found: list[str] = []
    for folder in filter(None, folders):
        path = Path(os.path.abspath(folder))
        found.append(str(path))
        for above in path.parents:
            if any((above / name).exists() for name in _PROJECT):
                found.append(str(above))
                break
    return found


def is_project(folder: str) -> bool:
    """Whether all that lies in a folder is the project's."""
    # Of a program that was started in its user's home, not all that lies there is its own.
    real = os.path.realpath(folder)
    return os.path.dirname(real) != real and real != os.path.realpath(os.path.expanduser("~"))


def roots_of(argv: Sequence[str]) -> list[str]:
    """The folders of the project that a process runs."""
    program = argv[0] if argv and not argv[0].startswith("-") else ""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    return project_folders(here, os.path.dirname(os.path.abspath(program)) if program else "")

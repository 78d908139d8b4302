"""Checks that the installed package is complete, unchanged, and free of files from others.

Other distributions on the package index install into a folder of the same name. The last one
installed wins, file by file, and uninstalling one may remove files of the other.
"""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

_OURS = PurePosixPath("retrace", "doctor", "package.py")


def faults(folder: Path) -> list[str]:
    """Problems with the package folder, one line each.

    Args:
        folder: the folder of the running package.
    """
    folder = folder.resolve()
    found: list[str] = []
    ours: dict[str, str] = {}
    claimed: set[str] = set()
    for name, files in _claims(folder):
        claimed.update(files)
        if str(_OURS.relative_to("retrace")) in files:
            ours = files
            continue
        shown = ", ".join(sorted(files)[:3]) + (", ..." if len(files) > 3 else "")
        number = f"{len(files):,} file" + ("s" if len(files) != 1 else "")
        found.append(f"{name} has put {number} into the folder of retrace: {shown}")
    if ours:
        found += _changes(folder, ours, claimed)
    return found


def _claims(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The distributions that list files in the folder, each with its files and their hashes."""
    for distribution in distributions():
        files = {
            "/".join(path.parts[1:]): digest
            for path, digest in _listed(distribution)
            if path.parts[:1] == (folder.name,)
        }
        if files and Path(str(distribution.locate_file(folder.name))).resolve() == folder:
            yield f"{distribution.metadata['Name']} {distribution.version}", files


def _listed(distribution: Distribution) -> Iterator[tuple[PurePosixPath, str]]:
    """The files of a distribution; `Distribution.files` would leave out missing ones."""
    try:
        rows = list(csv.reader((distribution.read_text("RECORD") or "").splitlines()))
    except (OSError, ValueError, csv.Error):  # another package's damaged list
        return
    for row in rows:
        if row:
            yield PurePosixPath(row[0]), row[1] if len(row) > 1 else ""


def _changes(folder: Path, ours: dict[str, str], claimed: set[str]) -> Iterator[str]:
    """Our files that are missing or changed, and files that belong to no package."""
    gone: list[str] = []
    changed: list[str] = []
    for name, listed in ours.items():
        try:
            content = (folder / name).read_bytes()
        except OSError:
            gone.append(name)
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        if listed.startswith("sha256=") and f"sha256={digest.decode().rstrip('=')}" != listed:
            changed.append(name)
    extra = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    extra = [name for name in extra if name not in claimed]
    for what, names in (
        ("missing from the folder of retrace", gone),
        ("changed in the folder of retrace", changed),
        ("in the folder of retrace, but of no installed package", extra),
    ):
        if names:
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            yield f"{len(names):,} file{'s' if len(names) != 1 else ''} {what}: {shown}"

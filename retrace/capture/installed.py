"""Packages that were installed into a folder of their own, as `pip install --target` does."""

from __future__ import annotations

import os
import sys

_tops: dict[str, frozenset[str]] = {}
"""By folder: the packages and modules that were installed into it."""


def installed_package(filename: str) -> str | None:
    """The package that a file belongs to, if pip installed it beside others in one folder.

    A checkout has no record of its files, and a file of the user's in the same folder is in none.

    Args:
        filename: of a code object.
    """
    for folder in list(sys.path):
        # A path hook takes anything; only a folder's name is of use here.
        inside = os.path.join(folder, "") if type(folder) is str and folder else None
        if inside is not None and filename.startswith(inside):
            top = filename[len(inside) :].partition(os.sep)[0].removesuffix(".py")
            if top in _installed_into(inside):
                return top
    return None


def _installed_into(folder: str) -> frozenset[str]:
    known = _tops.get(folder)
    if known is None:
        found: set[str] = set()
        try:
            names = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
        except OSError:
            names = []
        for name in names:
            found.update(_recorded(os.path.join(folder, name, "RECORD")))
        known = _tops[folder] = frozenset(found)
    return known


def _recorded(record: str) -> set[str]:
    """The first part of each path in the list of files that pip writes."""
    try:
        with open(record, encoding="utf-8", errors="replace") as file:
            tops = {line.strip('"').partition("/")[0].partition(",")[0] for line in file}
    except OSError:
        return set()
    own = {top.removesuffix(".py") for top in tops if not top.endswith(".dist-info")}
    return own - {"", ".."}

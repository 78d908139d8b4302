"""Redacts paths and definition sites: hides folders outside the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from retrace.model import Function
from retrace.store.equations import Hash
from retrace.store.roots import is_project

_PACKAGES = re.compile(r".*[/\\]((?:site|dist)-packages[/\\].*)", re.DOTALL)
_STANDARD = re.compile(r".*[/\\]lib[/\\]python\d\.\d+[/\\](.*)", re.DOTALL)
_NO_FILE = re.compile(r"<(?:[a-z]+|ipython-input-\d+-[0-9a-f]+|cell)>")
_CALLED_AT = re.compile(r"(.*) at (.+):(\d+)", re.DOTALL)
_PLACED = re.compile(r"(?<![^\[ ])([^;\[\]]+?):(\d+) ")
"""The place of a function in a list: in brackets or after a semicolon."""
_LONGEST_SITE = 4000


class Paths:
    """Hides folders outside the project."""

    def __init__(self, roots: Iterable[str], hashed: Hash) -> None:
        """`hashed` takes a length in bytes and strings, and returns what replaces them."""
        self._hash = hashed
        found = {path for root in roots for path in (root, os.path.realpath(root))}
        self._roots = sorted(filter(is_project, found), key=len, reverse=True)

    def path(self, file: str) -> str:
        """Return a path relative to the project or package; of other paths only the last part."""
        if file.startswith("<"):
            is_known = _NO_FILE.fullmatch(file) or file.startswith(("<python>/", "<outside "))
            return file if is_known else f"<source {self._hash(3, 'file', file)}>"
        if found := _PACKAGES.fullmatch(file):
            return f"<python>/{_forward(found[1])}"
        if not os.path.isabs(file):
            return _forward(file) if ".." not in Path(file).parts else self._outside(file)
        for root in self._roots:
            if file.startswith(root + os.sep):
                return _forward(file[len(root) + 1 :])
        if found := _STANDARD.fullmatch(file):
            return f"<python>/{_forward(found[1])}"
        return self._outside(file)

    def _outside(self, file: str) -> str:
        # Files with the same name in different folders stay different.
        folder, _, last = _forward(file).rpartition("/")
        return f"<outside {self._hash(3, 'file', folder)}>/{last}"

    def site(self, function: Function) -> str:
        """Return the definition site with redacted paths."""
        site, file = function.site, function.file
        at = ""
        if called := _CALLED_AT.fullmatch(site):
            site, at = called[1], f" at {self.path(called[2])}:{called[3]}"
        site, mark, around = site.partition(" around ")
        if file is not None:
            site = site.replace(file, self.path(file))
        if mark:
            # The functions that it closes over, each with its own path.
            parts = self._hash(8, "site", around)
            if len(around) < _LONGEST_SITE:
                parts = _PLACED.sub(lambda found: f"{self.path(found[1])}:{found[2]} ", around)
            site = f"{site}{mark}{parts}"
        if re.search(r"(?:^|\s)(?:[/\\]|[A-Za-z]:\\)", site):
            site = self._hash(8, "site", site)
        return site + at


def _forward(path: str) -> str:
    return path.replace("\\", "/")

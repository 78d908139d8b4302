"""Where the user wrote a function: objects with the same definition are one function."""

from __future__ import annotations

import hashlib
import linecache
import os
from types import CodeType
from typing import NamedTuple, TypeAlias

from retrace.capture.notebook_cells import is_cell, shown
from retrace.capture.place import source_lines
from retrace.capture.weak import ByObject

_MAX_SOURCE_LENGTH = 4000

Version: TypeAlias = tuple[int, int] | None
"""Modification time and size of a file; None if there is no file."""


class Definition(NamedTuple):
    """What a code object shows about where the user wrote it."""

    site: str
    file: str
    line: int
    code: str
    source: str | None


class Definitions:
    """The definitions of one recording, by code object."""

    def __init__(self) -> None:
        # By identity: equal code objects from two files are two definitions.
        self._known: ByObject[Definition] = ByObject()
        self._places: ByObject[str] = ByObject()
        self._sites: dict[tuple[str, str], dict[str, Version]] = {}
        self._generated: dict[str, dict[str, int]] = {}

    def of(self, code: CodeType) -> Definition:
        """The definition of a code object."""
        if (known := self._known.get(code)) is not None:
            return known
        version = _version(code.co_filename)
        site = self._site(code, version)
        found = Definition(
            site, shown(code.co_filename), code.co_firstlineno, _digest(code), _source(code)
        )
        self._known.put(code, found)
        return found

    def site_of(self, code: CodeType) -> str:
        """Only the site of a code object, without reading its source."""
        if (known := self._known.get(code)) is not None:
            return known.site
        if (place := self._places.get(code)) is not None:
            return place
        site = self._site(code, _version(code.co_filename))
        self._places.put(code, site)
        return site

    def _site(self, code: CodeType, version: Version) -> str:
        """The site, which stays the same if an edit of the file moved the function."""
        site = _site(code)
        if code.co_filename.startswith("<") and not site.startswith(("<cell>", "<stdin>")):
            # Text given to `eval` or `exec` is no file: another text makes another function.
            texts = self._generated.setdefault(site, {})
            number = texts.setdefault(_digest(code), len(texts) + 1)
            return site if number == 1 else f"{site}#{number}"
        known = self._sites.setdefault((code.co_filename, code.co_qualname), {})
        if version is not None and known and version not in list(known.values()):
            linecache.checkcache(code.co_filename)
            sites = list(known)
            if site not in sites and len(sites) == 1 and code.co_name != "<lambda>":
                site = sites[0]
        known[site] = version
        return site


def _version(file: str) -> Version:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def _site(code: CodeType) -> str:
    file, line = code.co_filename, code.co_firstlineno
    where = "<cell>" if is_cell(file) else f"{file}:{line}"
    site = f"{where} {code.co_qualname}"
    if code.co_name == "<lambda>":
        # Several lambdas may share a line and a qualified name.
        columns = [start for _, _, start, _ in code.co_positions() if start]
        # With `-X no_debug_ranges`, Python keeps no columns.
        site = f"{site}:{min(columns) if columns else _digest(code)[:8]}"
    return site


def _digest(code: CodeType) -> str:
    digest = hashlib.sha1(usedforsecurity=False)

    def add(code: CodeType) -> None:
        digest.update(code.co_code)
        digest.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add(constant)
            elif isinstance(constant, frozenset):
                # The order of a set of strings differs between processes.
                digest.update(repr(sorted(map(repr, constant))).encode())
            else:
                digest.update(f"{type(constant).__name__} {constant!r}".encode())

    add(code)
    return digest.hexdigest()[:16]


def _source(code: CodeType) -> str | None:
    lines = [line for _, _, line in code.co_lines() if line]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines += [line for _, _, line in constant.co_lines() if line]
    first, last = code.co_firstlineno, max(lines, default=code.co_firstlineno)
    text = source_lines(code.co_filename)[first - 1 : last]
    return "".join(text)[:_MAX_SOURCE_LENGTH] or None

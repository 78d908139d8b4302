"""Whose line is it: the user's own, a library's, or JAX's?"""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
from enum import Enum
from types import CodeType, FrameType

import jax

from retrace.capture.cell import is_cell, is_timed, shown
from retrace.model import CallSite

_LONGEST_SOURCE = 200
_JAX = os.path.join(os.path.dirname(jax.__file__), "")


class Owner(Enum):
    """Who wrote a file."""

    USER = "user"
    LIBRARY = "library"
    JAX = "jax"
    OURS = "ours"


def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    found.update(site.getsitepackages())
    found.add(site.getusersitepackages())
    # A virtual environment's own library folder is not where its standard library lies.
    found.add(os.path.dirname(os.__file__))
    return tuple(os.path.join(os.path.realpath(path), "") for path in found) + tuple(
        os.path.join(path, "") for path in found
    )


_OURS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_LIBRARIES = _folders()
_owners: dict[str, Owner] = {}
_own_folders: list[str] = []
_call_sites: dict[tuple[str, int], CallSite] = {}


def adopt(folder: str) -> None:
    """Count an installed package as the user's own: it was started with `-m`."""
    _own_folders.append(os.path.join(folder, ""))
    _owners.clear()


def owner(filename: str) -> Owner:
    """Who wrote the file of a code object."""
    found = _owners.get(filename)
    if found is None:
        found = _owners[filename] = _owner(filename)
    return found


def _owner(filename: str) -> Owner:
    if filename.startswith(_JAX):
        return Owner.JAX
    if filename.startswith(_OURS):
        return Owner.OURS
    if filename.startswith(tuple(_own_folders)):
        return Owner.USER
    if filename.startswith("<"):
        # Cells, `-c` and `exec` are the user's; frozen modules are Python's.
        return Owner.LIBRARY if filename.startswith("<frozen") else Owner.USER
    if filename.startswith(_LIBRARIES) or f"{os.sep}site-packages{os.sep}" in filename:
        return Owner.LIBRARY
    return Owner.USER


def source_line(filename: str, line: int) -> str | None:
    """The text of a line, stripped and bounded; None where there is none."""
    text = linecache.getline(filename, line).strip()
    return text[:_LONGEST_SOURCE] or None


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost line of the user's own code, else the innermost outside JAX."""
    library: FrameType | None = None
    while frame is not None:
        match owner(frame.f_code.co_filename):
            # `%time` has a frame of its own; around it is the line of the cell.
            case Owner.USER if not _is_of_magic(frame):
                return _call_site(frame, in_library=False)
            case Owner.LIBRARY if library is None:
                library = frame
            case _:
                pass
        frame = frame.f_back
    return None if library is None else _call_site(library, in_library=True)


def _is_of_magic(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name.startswith("<") and is_timed(code.co_filename)


def _call_site(frame: FrameType, *, in_library: bool) -> CallSite:
    return site_of_line(frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno, in_library)


def site_of_line(code: CodeType, line: int, in_library: bool = False) -> CallSite:
    """A line of a function."""
    known = _call_sites.get((code.co_filename, line))
    if known is not None and known.function == code.co_qualname:
        return known
    file = code.co_filename
    found = CallSite(shown(file), line, code.co_qualname, source_line(file, line), in_library)
    if is_cell(file):  # the next run of it has another number, and may have the same file
        return found
    if len(_call_sites) > 10_000:
        _call_sites.clear()
    _call_sites[file, line] = found
    return found


def main_package() -> str | None:
    """The folder of the package that was started with `-m`, if one was."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or not spec.origin or not spec.parent:
        return None
    top = spec.parent.split(".")[0]
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    return os.path.dirname(file) if file else None

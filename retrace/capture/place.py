"""Whose line is it: the user's own, a library's, or JAX's?"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Sequence
from enum import Enum
from types import CodeType, FrameType
from typing import Literal, NamedTuple, TypeAlias

import jax

from retrace.capture.notebook_cells import is_cell, is_timed, shown
from retrace.jax_internals.callbacks import is_host_callback, is_tree_map
from retrace.model import CallSite

_LONGEST_SOURCE = 200
_JAX_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")


class Owner(Enum):
    """Who wrote a file."""

    USER = "user"
    LIBRARY = "library"
    JAX = "jax"
    OURS = "ours"


# To look up a member of an enumeration takes Python longer than all else here.
_USER, _LIBRARY, _JAX, _OURS = Owner.USER, Owner.LIBRARY, Owner.JAX, Owner.OURS


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


_OUR_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
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
    if filename.startswith(_JAX_FOLDER):
        return _JAX
    if filename.startswith(_OUR_FOLDER):
        return _OURS
    if filename.startswith(tuple(_own_folders)):
        return _USER
    if filename.startswith("<"):
        # Cells, `-c` and `exec` are the user's; frozen modules are Python's.
        return _LIBRARY if filename.startswith("<frozen") else _USER
    if filename.startswith(_LIBRARIES) or f"{os.sep}site-packages{os.sep}" in filename:
        return _LIBRARY
    return _USER


def source_lines(filename: str) -> list[str]:
    """The lines of a file of source, as Python shows them in a traceback."""
    if filename not in linecache.cache:
        try:
            if not stat.S_ISREG(os.stat(filename).st_mode):
                return []  # a script that came through a pipe: to open it again would wait
        except (OSError, ValueError):
            pass  # a cell, or a member of an archive
    return linecache.getlines(filename)


def source_line(filename: str, line: int) -> str | None:
    """The text of a line, stripped and bounded; None where there is none."""
    lines = source_lines(filename)
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return text[:_LONGEST_SOURCE] or None


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost line of the user's own code, else the innermost outside JAX."""
    return _innermost(stack_of(frame))


def _innermost(stack: Sequence[Line]) -> CallSite | None:
    library: Line | None = None
    for line in stack:
        whose = owner(line[0].co_filename)
        # `%time` has a frame of its own; around it is the line of the cell.
        if whose is _USER and not _is_of_magic(line[0]):
            return _site_of(line, in_library=False)
        if library is None and whose is _LIBRARY:
            library = line
    return None if library is None else _site_of(library, in_library=True)


Line: TypeAlias = tuple[CodeType, int]
"""Where a frame is: its code, and the instruction in it. It holds no frame, and so no locals."""


def stack_of(frame: FrameType | None) -> list[Line]:
    """Where a frame and all around it are, from the innermost on."""
    stack: list[Line] = []
    while frame is not None:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return stack


class Around(NamedTuple):
    """What of the user's program stands around a call."""

    site: CallSite | None
    """As `call_site` tells it."""
    lines: str
    """A hash of all lines outside JAX."""
    entry: CallSite | None
    """The user's line that called into a library, below the user's outermost lines; None where
    no library stands between the user's code and JAX, or the program is a library's itself."""
    through: str | None
    """What that line called, and of which package."""
    within: Literal["callback", "import", "tree"] | None
    via: str | None
    """As `through`, of the innermost of the user's lines; None where that called JAX itself."""
    callers: tuple[CallSite, ...]
    """The user's lines that led to the innermost one, from its caller to the outermost."""


_MOST_FRAMES = 500
_MOST_CALLERS = 24
"""Of more lines, as of a recursion, the outermost count."""


def around(stack: Sequence[Line]) -> Around:
    """What stands around a call, from its outermost line to JAX."""
    lines: list[str] = []
    entry: Line | None = None
    through: str | None = None
    via: str | None = None
    own: list[Line] = []
    below: CodeType | None = None
    within: Literal["callback", "import", "tree"] | None = None
    is_innermost = True
    for line in stack[:_MOST_FRAMES]:
        code, at = line
        file = code.co_filename
        whose = _owners.get(file) or owner(file)
        # A stack under pytest is sixty frames: with `match` the walk takes a third longer.
        if whose is _LIBRARY:
            lines.append(f"{file}:{at}\n")
            if within != "import" and file.startswith("<frozen importlib"):
                within = "import"
            if not _is_wrapper(code):
                below = code
        elif whose is _USER:
            lines.append(f"{file}:{at}\n")
            if below is not None and (called := _of_library(below)):
                if is_innermost:
                    via = called
                entry, through = line, called
            is_innermost = False
            if not _is_of_magic(code):
                own.append(line)
            below = code
        elif whose is _OURS:
            break
        elif within != "import" and is_host_callback(code):
            within = "callback"
            break  # what stands around it is the program's call, not this code's
        elif within is None and is_tree_map(code):
            within = "tree"
    told = "".join(lines).encode(errors="replace")
    return Around(
        _site_of(own[0], in_library=False) if own else _innermost(stack),
        hashlib.blake2b(told, digest_size=8).hexdigest(),
        None if entry is None else _site_of(entry, in_library=False),
        through,
        within,
        via,
        tuple([_site_of(line, in_library=False) for line in own[1:][-_MOST_CALLERS:]]),
    )


_RUNNERS = frozenset(
    ("absl", "click", "execnet", "fire", "hydra", "IPython", "ipykernel", "pluggy", "pytest")
) | {"_pytest", "tyro", "typer", "xdist"}
"""Packages that run a user's program as it is: what runs under them is not theirs."""


_WRAPPERS = frozenset(("beartype", "decorator", "jaxtyping", "typeguard", "wrapt"))
"""Packages that stand around a function of somebody else, and do nothing themselves."""
_WRAPPING = {
    "equinox": ("BoundMethod.__call__", "_wrap_method.__call__"),
    "keras": ("filter_traceback.error_handler",),
}
"""What of other packages does so: what counts is what it calls."""
_packages: dict[str, str | None] = {}


def _is_wrapper(code: CodeType) -> bool:
    """Whether a library's code only hands a call on, to the user's function or to its own."""
    package = _package(code.co_filename)
    return package in _WRAPPERS or (
        package in _WRAPPING and _without_locals(code) in _WRAPPING[package]
    )


def _of_library(code: CodeType) -> str | None:
    """`flax:Module.init`, where the code is of an installed package that does work itself."""
    if owner(code.co_filename) is not _LIBRARY:
        return None
    package = _package(code.co_filename)
    return (
        None if package is None or package in _RUNNERS else f"{package}:{_without_locals(code)}"
    )


def _without_locals(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def _package(filename: str) -> str | None:
    """The installed package that a file belongs to; None for Python's own."""
    if filename in _packages:
        return _packages[filename]
    parts = filename.replace(os.sep, "/").split("/")
    found: str | None = None
    for folder in ("site-packages", "dist-packages"):
        if found is None and folder in parts[:-1]:
            found = parts[parts.index(folder) + 1].removesuffix(".py")
    if len(_packages) > 10_000:
        _packages.clear()
    _packages[filename] = found
    return found


def _is_of_magic(code: CodeType) -> bool:
    file = code.co_filename
    return file.startswith("<") and code.co_name.startswith("<") and is_timed(file)


def _site_of(line: Line, *, in_library: bool) -> CallSite:
    code, at = line
    return site_of_line(code, line_at(code, at), in_library)


def line_at(code: CodeType, at: int) -> int:
    """The line of an instruction; the first one where Python knows none."""
    for start, end, line in code.co_lines():
        if start <= at < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


_UNTRACEABLE = frozenset(
    ("block_until_ready", "bool", "breakpoint", "device_get", "float", "info", "input", "int")
) | {"item", "open", "perf_counter", "plt", "print", "savefig", "show", "tolist", "tqdm"}
"""What a function that uses it by name cannot do with tracers, or would do once, as traced."""
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def site_of_line(code: CodeType, line: int, in_library: bool = False) -> CallSite:
    """A line of a function."""
    known = _call_sites.get((code.co_filename, line))
    if known is not None and known.function == code.co_qualname:
        return known
    file = code.co_filename
    found = CallSite(
        shown(file),
        line,
        code.co_qualname,
        source_line(file, line),
        in_library,
        not _UNTRACEABLE.isdisjoint(code.co_names) or bool(code.co_flags & _GENERATOR),
    )
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

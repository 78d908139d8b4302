"""Decides whose code a line is: the user's, a library's, or JAX's."""

from __future__ import annotations

import dis
import hashlib
import inspect
import linecache
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from types import CodeType, FrameType
from typing import Literal, NamedTuple, TypeAlias

import jax

from retrace.capture.installed import installed_package
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.line_table import line_at
from retrace.capture.loops import LoopCode, loops, repeats
from retrace.capture.loops import around as inside
from retrace.capture.notebook_cells import is_cell, is_timed, shown
from retrace.capture.weak import ByObject
from retrace.jax_internals.callbacks import is_host_callback, is_tree_map
from retrace.jax_internals.picking import picks
from retrace.jax_internals.traces import AROUND_TRACES
from retrace.model import CallSite

_MAX_SOURCE_CHARACTERS = 200
_JAX_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")


class Owner(Enum):
    """Who wrote a file."""

    USER = "user"
    LIBRARY = "library"
    JAX = "jax"
    OURS = "ours"


# Looking up a member of an enumeration takes longer than everything else here.
_USER, _LIBRARY, _JAX, _OURS = Owner.USER, Owner.LIBRARY, Owner.JAX, Owner.OURS


def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    found.update(site.getsitepackages())
    found.add(site.getusersitepackages())
    # The standard library is not in the virtual environment's own library folder.
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
    """Count an installed package as user code, because it was started with `-m`."""
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
        # Cells, `-c` and `exec` are user code; frozen modules belong to Python.
        return _LIBRARY if filename.startswith("<frozen") else _USER
    if filename.startswith(_LIBRARIES) or f"{os.sep}site-packages{os.sep}" in filename:
        return _LIBRARY
    return _USER if installed_package(filename) is None else _LIBRARY


def source_lines(filename: str) -> list[str]:
    """The lines of a source file, as Python shows them in a traceback."""
    if filename not in linecache.cache:
        try:
            if not stat.S_ISREG(os.stat(filename).st_mode):
                return []  # a script read from a pipe: opening it again would block
        except (OSError, ValueError):
            pass  # a cell, or a member of an archive
    return linecache.getlines(filename)


def source_line(filename: str, line: int) -> str | None:
    """The text of a line, stripped and shortened; None if there is none."""
    lines = source_lines(filename)
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return text[:_MAX_SOURCE_CHARACTERS] or None


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost line of user code, or else the innermost line outside JAX."""
    return innermost(_lines(frame))


def innermost(stack: Iterable[Line]) -> CallSite | None:
    """The same of a stack, innermost line first."""
    library: Line | None = None
    for line in stack:
        whose = owner(line[0].co_filename)
        # `%time` has its own frame; the line of the cell is in the frame around it.
        if whose is _USER and not _is_of_magic(line[0]):
            return _site_of(line, in_library=False)
        if library is None and whose is _LIBRARY:
            library = line
    return None if library is None else _site_of(library, in_library=True)


Line: TypeAlias = tuple[CodeType, int]
"""Position of a frame: its code and the current instruction. Keeps no frame or locals alive."""


def stack_of(frame: FrameType | None) -> list[Line]:
    """Positions of a frame and of all its callers, innermost first."""
    stack: list[Line] = []
    while frame is not None:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return stack


def _lines(frame: FrameType | None) -> Iterator[Line]:
    """The same, one by one: who needs the innermost ones reads no more."""
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


class Around(NamedTuple):
    """The part of the user's program around a call."""

    site: CallSite | None
    """Same as `call_site`."""
    lines: str
    """A hash of all lines outside JAX."""
    path: str
    """The same with JAX's own lines. They differ for the operations of a JAX function that calls
    itself on parts of its argument, and for what it has the user's function do with each part."""
    entry: CallSite | None
    """The user's line that called into a library, below the user's outermost lines; None if no
    library is between the user's code and JAX, or the program is itself a library's."""
    through: str | None
    """The function that this line called, with its package."""
    within: Literal["callback", "import", "tree"] | None
    picked: str | None
    """The function of `jax.numpy` by which JAX picks elements, if any."""
    via: str | None
    """Like `through`, but for the innermost user line; None if that line called JAX itself."""
    callers: tuple[CallSite, ...]
    """The user's lines that led to the innermost one, from its caller to the outermost line."""


_MAX_FRAMES = 500
_MAX_CALLERS = 24
"""If there are more lines, for example in a recursion, the outermost ones are kept."""


def around(stack: Sequence[Line]) -> Around:
    """Collect the program around a call, from its outermost line to JAX."""
    lines: list[str] = []
    of_jax: list[str] = []
    entry: Line | None = None
    through: str | None = None
    via: str | None = None
    own: list[Line] = []
    below: CodeType | None = None
    within: Literal["callback", "import", "tree"] | None = None
    picked: str | None = None
    is_innermost = True
    for line in stack[:_MAX_FRAMES]:
        code, at = line
        file = code.co_filename
        whose = _owners.get(file) or owner(file)
        # Under pytest a stack has sixty frames, and with `match` the loop takes a third longer.
        if whose is _LIBRARY:
            lines.append(f"{file}:{at}\n")
            if within != "import" and file.startswith("<frozen importlib"):
                within = "import"
            if not _wraps.get(file, True) or not _is_wrapper(code):
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
            # JAX's own function may be traced within the user's line: that is further out.
            if own or code is not AROUND_TRACES:
                break
        elif within != "import" and is_host_callback(code):
            within = "callback"
            break  # the frames further out belong to the program's call, not to this code
        elif within is None and is_tree_map(code):
            within = "tree"
        else:
            of_jax.append(f"{file}:{at}\n")
            if not lines:
                picked = picks(code, picked)
    hashed = _hash(lines)
    return Around(
        _site_of(own[0], in_library=False) if own else innermost(stack),
        hashed,
        _hash([*of_jax, hashed]),
        None if entry is None else _site_of(entry, in_library=False),
        through,
        within,
        picked,
        via,
        tuple([_site_of(line, in_library=False) for line in own[1:][-_MAX_CALLERS:]]),
    )


def _hash(lines: Sequence[str]) -> str:
    written = "".join(lines).encode(errors="replace")
    return hashlib.blake2b(written, digest_size=8).hexdigest()


_RUNNERS = frozenset(
    ("absl", "click", "execnet", "fire", "hydra", "IPython", "ipykernel", "pluggy", "pytest")
) | {"_pytest", "tyro", "typer", "xdist"}
"""Packages that run the user's program: code below them does not belong to them."""


_WRAPPERS = frozenset(("beartype", "decorator", "jaxtyping", "typeguard", "wrapt"))
"""Packages that only wrap functions of others."""
_WRAPPING = {
    "equinox": ("BoundMethod.__call__", "_wrap_method.__call__"),
    "keras": ("filter_traceback.error_handler",),
}
"""Functions of other packages that only wrap: what they call counts instead."""
_packages: dict[str, str | None] = {}


_wraps: dict[str, bool] = {}
"""Whether a library's file may hold wrappers; few do."""


def _is_wrapper(code: CodeType) -> bool:
    """Whether library code only forwards a call, to the user's function or to its own."""
    package = _package(code.co_filename)
    some = package in _WRAPPING
    _wraps[code.co_filename] = found = package in _WRAPPERS or some
    return found and not (some and _without_locals(code) not in _WRAPPING[package])


def _of_library(code: CodeType) -> str | None:
    """`flax:Module.init`, if the code belongs to an installed package that is not a runner."""
    if owner(code.co_filename) is not _LIBRARY:
        return None
    package = _package(code.co_filename)
    return (
        None if package is None or package in _RUNNERS else f"{package}:{_without_locals(code)}"
    )


def _without_locals(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def _package(filename: str) -> str | None:
    """The installed package that a file belongs to; None for the standard library."""
    if filename in _packages:
        return _packages[filename]
    parts = filename.replace(os.sep, "/").split("/")
    found: str | None = None
    for folder in ("site-packages", "dist-packages"):
        if found is None and folder in parts[:-1]:
            found = parts[parts.index(folder) + 1].removesuffix(".py")
    found = found or installed_package(filename)
    if len(_packages) > 10_000:
        _packages.clear()
    _packages[filename] = found
    return found


def _is_of_magic(code: CodeType) -> bool:
    file = code.co_filename
    return file.startswith("<") and code.co_name.startswith("<") and is_timed(file)


def _site_of(line: Line, *, in_library: bool) -> CallSite:
    code, at = line
    return site_of_line(code, line_at(code, at), in_library, at)


_UNTRACEABLE = frozenset(
    ("block_until_ready", "bool", "breakpoint", "device_get", "float", "info", "input", "int")
) | {"item", "next", "open", "perf_counter", "plt", "print", "savefig", "show", "tolist", "tqdm"}
"""Names of operations that fail on tracers, or that under tracing would run only once."""
_STORES = tuple([dis.opmap[name] for name in ("STORE_ATTR", "STORE_GLOBAL")])
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _changes_objects(code: CodeType) -> bool:
    """Whether a function sets attributes, as `self.key` where it draws random numbers.

    Traced, it would set them once, to tracers. `__init__` is no function to be jitted.
    """
    if code.co_name in ("__init__", "<module>"):
        return False
    # Each instruction takes two bytes, its number first; those of its cache are zero.
    instructions = code.co_code[::2]
    return any(one in instructions for one in _STORES)


def site_of_line(
    code: CodeType, line: int, in_library: bool = False, at: int | None = None
) -> CallSite:
    """Return a line of a function as a call site; `at` is the instruction, if it is known."""
    known = _call_sites.get((code.co_filename, line))
    if known is not None and known.function == code.co_qualname:
        return known
    file = code.co_filename
    untraceable = not _UNTRACEABLE.isdisjoint(code.co_names) or (
        bool(code.co_flags & _GENERATOR) or _changes_objects(code)
    )
    found = CallSite(
        shown(file),
        line,
        code.co_qualname,
        source_line(file, line),
        in_library,
        untraceable,
        0 if untraceable or in_library or at is None else _loop_around(code, at),
    )
    if is_cell(file):  # its next run has another number, but possibly the same file
        return found
    if len(_call_sites) > 10_000:
        _call_sites.clear()
    _call_sites[file, line] = found
    return found


_MAX_LOOP_BYTES = 4_000
"""Functions with more bytecode are not searched for loops: 1,000 bytes take about 2 ms."""
_loops: ByObject[tuple[LoopCode, ...]] = ByObject()


def _loop_around(code: CodeType, at: int) -> int:
    """The line of the outermost loop of a function around one of its instructions, or 0.

    A comprehension on the same line, whose result the instruction uses, is not around it.
    """
    # The thread that misses does this, once for each function.
    is_long = len(code.co_code) > _MAX_LOOP_BYTES
    if code.co_name == "<module>" or is_long or lacks(BYTECODE) or not repeats(code):
        return 0
    found = inside(_loops.of(code, lambda: loops(code)), at)
    return min((one.line for one in found), default=0)


def main_package() -> str | None:
    """The folder of the package that was started with `-m`, if any."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or not spec.origin or not spec.parent:
        return None
    top = spec.parent.split(".")[0]
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    return os.path.dirname(file) if file else None

"""Tells classes of the same name apart.

A class that is defined again (a notebook cell run again, a reload, a class inside a function) is
a different class to JAX, however similar the two are: JAX identifies pytree nodes and Enum
members by the class object.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, cast

from retrace.capture.notebook_cells import is_cell, shown
from retrace.capture.objects import own, package, type_name
from retrace.capture.weak import ByObject
from retrace.model import Class

_STABLE = frozenset(("builtins", "collections", "numpy", "ml_dtypes", "jax", "jaxlib"))
"""Packages whose classes are never redefined within a process."""
_MAX_CELLS = 50
_MAX_FILES = 64


class Classes:
    """The classes seen so far, each numbered among the classes of its name."""

    def __init__(self) -> None:
        self._known: ByObject[Class] = ByObject()
        self._counts: dict[str, int] = {}

    def of(self, kind: type) -> Class | None:
        """The description of a class; None if its package never redefines classes."""
        if (known := self._known.get(kind)) is not None:
            return known
        if package(kind) in _STABLE:
            return None
        name = type_name(kind)
        number = self._counts[name] = self._counts.get(name, 0) + 1
        file, line = (None, None) if number == 1 else _place(kind)
        found = Class(name, number, file, line)
        self._known.put(kind, found)
        return found


CLASSES = Classes()
"""The classes of this process, shared so that all recordings give a class the same number."""


def _place(kind: type) -> tuple[str | None, int | None]:
    """Where a class was defined, as far as that is visible without running its module."""
    name, qualname = str(own(kind, "__name__")), str(own(kind, "__qualname__"))
    code = next(_methods(kind), None)
    file = _file(kind, qualname, name) if code is None else code.co_filename
    if file is None:
        return None, None
    if type(line := own(kind, "__dict__").get("__firstlineno__")) is not int:  # since Python 3.13
        found = _definitions(file)
        lines = found.get(qualname) or found.get(f"'{name}'", [])
        line = lines[0] if len(lines) == 1 else None
    return shown(file), line


def _methods(kind: type) -> Iterator[CodeType]:
    """The code of the functions defined in the body of a class."""
    within = f"{own(kind, '__qualname__')}."
    for value in list(cast(dict[str, Any], own(kind, "__dict__")).values()):
        function = value.__func__ if type(value) in (classmethod, staticmethod) else value
        if type(function) is FunctionType:
            code = function.__code__
            # Functions that a decorator generates come from another file, or from none.
            if code.co_qualname.startswith(within) and not code.co_filename.startswith("<string"):
                yield code


def _file(kind: type, qualname: str, name: str) -> str | None:
    module = own(kind, "__module__")
    if type(module) is not str or module == "types":  # set by `make_dataclass`
        return None
    loaded = sys.modules.get(module)
    file: object = None if loaded is None else vars(loaded).get("__file__")
    if type(file) is str:
        return file
    if module != "__main__":
        return None
    cells = [file for file in reversed(list(linecache.cache)) if is_cell(file)][:_MAX_CELLS]
    wanted = {qualname, f"'{name}'"}
    return next((file for file in cells if not wanted.isdisjoint(_definitions(file))), None)


_DEFINITION = re.compile(r"(\s*)(class|def|async\s+def)\s+(\w+)")
_CALLED = re.compile(r"""[^#]*\w\(\s*['"](\w+)['"]""")
_tables: dict[str, tuple[object, dict[str, list[int]]]] = {}


def _definitions(file: str) -> dict[str, list[int]]:
    """The lines of a file that define classes, by qualified name.

    Classes that a call may create, as in `namedtuple("State", ...)`, are listed as `'State'`.
    A line inside a string that looks like a definition is taken for one. Parsing would avoid
    that, but may emit warnings.
    """
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    version = linecache.cache.get(file, ())[:2]
    if (known := _tables.get(file)) is not None and known[0] == version:
        return known[1]
    table: dict[str, list[int]] = {}
    around: list[tuple[int, str]] = []
    for number, text in enumerate(lines, 1):
        if (found := _DEFINITION.match(text)) is not None:
            indent, name = len(found[1].expandtabs()), found[3]
            while around and around[-1][0] >= indent:
                around.pop()
            if found[2] == "class":
                qualname = "".join([*[part for _, part in around], name])
                table.setdefault(qualname, []).append(number)
                around.append((indent, f"{name}."))
            else:
                around.append((indent, f"{name}.<locals>."))
        elif (called := _CALLED.match(text)) is not None:
            table.setdefault(f"'{called[1]}'", []).append(number)
    if len(_tables) >= _MAX_FILES:
        _tables.clear()
    _tables[file] = version, table
    return table

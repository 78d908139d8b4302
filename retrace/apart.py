"""Keeps the modules that retrace imports inside a running program apart from the program's own.

A program may have its own `csv.py`. When retrace needs the standard library's `csv`, it must not
get the program's; and when retrace loads the standard library's first, the program must not get
that one.

This is loaded before the program begins, so it only imports modules that every interpreter has
loaded already.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder
from _imp import is_frozen
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder that contains this package."""

_OF_PYTHON = sys.stdlib_module_names - {*sys.builtin_module_names}
_OURS = _OF_PYTHON | {"retrace", "deepdiff", "orderly_set"}
"""Modules that retrace may import while a program runs; all others are the program's."""


class Apart:
    """A context in which this thread's imports are retrace's; afterwards they are hidden again.

    Other threads import as before. This never blocks: if another thread is in the context,
    imports work the ordinary way.
    """

    def __init__(self, path: Iterable[str]) -> None:
        """Remember the import path.

        Args:
            path: `sys.path` before the program's own folder was added.
        """
        self._python = _folders_of_python()
        rest = [entry for entry in path if entry not in self._python]
        self._path = [*self._python, *rest, ROOT]
        self._places = {*self._path}
        self._kept: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType] = {}
        self._before: dict[str, ModuleType] = {}
        self._requested: set[str] = set()
        self._thread: int | None = None
        self._depth = 0

    def keep(self, module: ModuleType) -> None:
        """Add one of our modules that was loaded out of sight."""
        self._kept[module.__name__] = module

    def __enter__(self) -> None:
        if self._thread is None:
            self._thread = get_ident()
            self._before = dict(sys.modules)
            self._hidden = self._shadows()
            for name in self._hidden:
                sys.modules.pop(name, None)
            for name, module in self._kept.items():
                sys.modules.setdefault(name, module)
            sys.meta_path.insert(0, self)
        if self._thread == get_ident():
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if self._thread != get_ident():
            return
        self._depth -= 1
        if self._depth:
            return
        sys.meta_path.remove(self)
        shown = self._is_importable()
        for name in [*self._kept, *self._requested]:
            module = sys.modules.get(name)
            if module is None or self._before.get(name) is module:
                continue
            if _top(name) not in _OURS or (shown and _top(name) == "retrace"):
                self._kept.pop(name, None)
                continue
            self._kept[name] = module
            del sys.modules[name]
            parent, _dot, last = name.rpartition(".")
            if self._before.get(parent) is not None:
                vars(self._before[parent]).pop(last, None)
        sys.modules.update(self._hidden)
        self._requested.clear()
        self._hidden, self._before = {}, {}
        self._thread = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _: object = None
    ) -> ModuleSpec | None:
        """The spec of a module that retrace imports; None for imports of other threads."""
        if get_ident() != self._thread:
            return None
        self._requested.add(name)
        if name in sys.builtin_module_names or is_frozen(name):
            return None
        if path is not None and _top(name) not in _OURS:
            return None
        # Not by the program's own finders: they would see our modules, and pytest's takes as
        # long for each as loading it.
        spec = PathFinder.find_spec(name, self._path if path is None else path)
        return spec if spec is not None and spec.loader is not None else None

    def give_way(self, folder: str) -> None:
        """Hide loaded modules that share their name with a module in `folder`."""
        tops = {
            top
            for top in {_top(name) for name in sys.modules}
            if top != "__main__"
            and top not in sys.builtin_module_names
            and not is_frozen(top)
            and (spec := PathFinder.find_spec(top, [folder])) is not None
            and spec.loader is not None
            and not self._is_at(sys.modules.get(top), folder)
        }
        for name in list(sys.modules):
            if _top(name) in tops:
                self._kept[name] = sys.modules.pop(name)

    def _is_at(self, module: ModuleType | None, folder: str) -> bool:
        return module is not None and _place(module) == folder

    def _shadows(self) -> dict[str, ModuleType]:
        """The program's modules that share their name with one of ours."""
        tops = {name for name, module in self._before.items() if self._is_foreign(name, module)}
        if not tops:
            return {}
        return {name: module for name, module in self._before.items() if _top(name) in tops}

    def _is_foreign(self, name: str, module: ModuleType) -> bool:
        if name not in _OURS:
            return False
        place = _place(module)
        if place is None:
            return False
        if name == "retrace":
            return place != ROOT
        return place not in (self._python if name in _OF_PYTHON else self._places)

    def _is_importable(self) -> bool:
        """Whether the program's `import retrace` would find this package."""
        known = self._before.get("retrace")
        if known is not None:
            return _place(known) == ROOT
        spec = PathFinder.find_spec("retrace", sys.path)
        if spec is None:
            return False
        return spec.origin == os.path.join(ROOT, "retrace", "__init__.py")


def _folders_of_python() -> list[str]:
    folder = os.path.dirname(os.__file__)
    extensions = [
        entry for entry in sys.path if os.path.basename(entry) in ("lib-dynload", "DLLs")
    ]
    return [folder, *extensions]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _place(module: ModuleType) -> str | None:
    """The folder of a top-level module; None if unknown."""
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None) or getattr(module, "__file__", None)
    if not isinstance(origin, str) or origin in ("built-in", "frozen"):
        return None
    folder = os.path.dirname(origin)
    is_package = os.path.basename(origin).startswith("__init__.")
    return os.path.dirname(folder) if is_package else folder

"""Where the program set JAX's configuration: by `jax.config.update`, or by a `with` statement.

A setting that was made otherwise has no place: nothing of ours runs when a context is entered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import jax

from retrace.capture.place import Owner, call_site, owner, site_of_line, source_lines
from retrace.model import CallSite, Value

_MOST_FILES = 256
_MESH = "mesh"
_UNSET = "NoneType"
_SETS_MESH = frozenset(("set_mesh", "use_mesh"))


class _With(NamedTuple):
    """One item of a `with` statement."""

    first: int
    last: int
    line: int
    function: int
    """The first line of the function that it stands in; 0 for a module."""
    name: str
    """What is called or named there: the end of a dotted name."""
    called: bool


class Settings:
    """The places of what is set, as they become known."""

    def __init__(self) -> None:
        self._updates: dict[str, CallSite] = {}
        self._files: dict[str, tuple[_With, ...]] = {}
        self._named: tuple[object, dict[str, str]] = (None, {})
        """The options of the last key by the names under which they are set; replaced as a
        whole, since another thread may have another key."""

    def updated(self, name: str, frame: FrameType) -> None:
        """`jax.config.update` set an option."""
        if (site := call_site(frame)) is not None:
            self._updates[name] = site

    def of(
        self, frame: FrameType | None, config: tuple[tuple[str, Value], ...]
    ) -> dict[str, CallSite]:
        """Where the options that are in force at a call were set, as far as that can be seen.

        Args:
            frame: of the call.
            config: the options of its key.
        """
        last, options = self._named
        if config is not last:
            options = {name.removeprefix("jax_"): name for name, _ in config}
            mesh = dict(config).get(_MESH)
            if mesh is not None and mesh.type != _UNSET:
                options |= dict.fromkeys(_SETS_MESH, _MESH)
            self._named = (config, options)
        names = options.values()
        found = {name: site for name, site in list(self._updates.items()) if name in names}
        around: dict[str, CallSite] = {}
        while frame is not None:
            code = frame.f_code
            if getattr(code, "co_exceptiontable", b"") and owner(code.co_filename) is Owner.USER:
                for name, site in self._around(frame, code, options):
                    around.setdefault(name, site)  # the innermost counts
            frame = frame.f_back
        return found | around

    def _around(
        self, frame: FrameType, code: CodeType, options: dict[str, str]
    ) -> Iterator[tuple[str, CallSite]]:
        has_mesh = not _SETS_MESH.isdisjoint(options)
        held = [
            name
            for name in code.co_names
            if name in options or (has_mesh and _is_mesh(frame, name))
        ]
        if not held:
            return
        function = 0 if code.co_name == "<module>" else code.co_firstlineno
        line = frame.f_lineno or 0
        for one in reversed(self._withs(code.co_filename)):
            if one.name in held and one.function == function and one.first <= line <= one.last:
                if one.called and one.name in options:
                    yield options[one.name], site_of_line(code, one.line)
                elif not one.called and _is_mesh(frame, one.name):
                    yield _MESH, site_of_line(code, one.line)

    def _withs(self, file: str) -> tuple[_With, ...]:
        found = self._files.get(file)
        if found is None:
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            try:
                found = tuple(_found(ast.parse("".join(source_lines(file))), 0))
            except (SyntaxError, ValueError, RecursionError):  # edited while it ran
                found = ()
            self._files[file] = found
        return found


def _found(tree: ast.AST, function: int) -> Iterator[_With]:
    for node in ast.iter_child_nodes(tree):
        inner = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        elif isinstance(node, ast.With | ast.AsyncWith):
            first, last = node.body[0].lineno, node.end_lineno or node.lineno
            for item in node.items:
                call = isinstance(item.context_expr, ast.Call)
                named: Any = item.context_expr.func if call else item.context_expr  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                name = getattr(named, "attr", None) or getattr(named, "id", None)
                if isinstance(name, str):
                    yield _With(first, last, item.context_expr.lineno, function, name, call)
        yield from _found(node, inner)


def _is_mesh(frame: FrameType, name: str) -> bool:
    # Of the locals none is looked at: Python would keep them until the function returns.
    return isinstance(frame.f_globals.get(name), jax.sharding.Mesh)

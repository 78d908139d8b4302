"""Finds where the program set JAX's configuration: `jax.config.update`, or a `with` statement.

A setting made in another way has no place, since retrace is not called on entering a context.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

import jax

from retrace.capture.line_table import line_at
from retrace.capture.place import (
    Line,
    Owner,
    call_site,
    owner,
    site_of_line,
    source_lines,
)
from retrace.model import CallSite, Value

_USER = Owner.USER
_MAX_FILES = 256
_MESH = "mesh"
_UNSET = "NoneType"
_SETS_MESH = frozenset(("set_mesh", "use_mesh"))


class _With(NamedTuple):
    """One item of a `with` statement."""

    first: int
    last: int
    line: int
    function: int
    """First line of the function that contains it; 0 for a module."""
    name: str
    """Last part of the dotted name that is called or used."""
    called: bool


class Settings:
    """The places where options were set, as far as known."""

    def __init__(self) -> None:
        self._updates: dict[str, CallSite] = {}
        self._files: dict[str, tuple[_With, ...]] = {}
        self._named: tuple[object, dict[str, str]] = (None, {})
        """The last key's configuration, and its options by the names used to set them. Replaced
        as a whole, since another thread may have another key."""

    def updated(self, name: str, frame: FrameType) -> None:
        """`jax.config.update` set an option."""
        if (site := call_site(frame)) is not None:
            self._updates[name] = site

    def later(
        self,
        frame: FrameType | None,
        stack: Sequence[Line],
        config: tuple[tuple[str, Value], ...],
    ) -> Callable[[], Mapping[str, CallSite]]:
        """Return a function that finds, on another thread, where a call's options were set.

        Args:
            frame: the frame of the call.
            stack: the positions of this frame and its callers.
            config: the options in the call's key.
        """
        updates = tuple(self._updates.items()) if self._updates else ()
        last, options = self._named
        if config is not last:
            options = self._options(config)
        if _SETS_MESH.isdisjoint(options):
            return partial(self.of, stack, config, updates)
        # A mesh is found through the global variables, which are not kept otherwise.
        names: list[Mapping[str, Any]] = []
        while frame is not None:
            names.append(frame.f_globals)
            frame = frame.f_back
        return partial(dict[str, CallSite], self.of(stack, config, updates, names))

    def of(
        self,
        stack: Sequence[Line],
        config: tuple[tuple[str, Value], ...],
        updates: Iterable[tuple[str, CallSite]],
        names: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, CallSite]:
        """Return where the options in force at a call were set, as far as can be seen.

        Args:
            stack: the positions of the call and its callers.
            config: the options in the call's key.
            updates: the options set for all threads by then.
            names: the global variables of each frame, if a mesh is in force.
        """
        options = self._options(config)
        known = options.values()
        found = {name: site for name, site in updates if name in known}
        around: dict[str, CallSite] = {}
        for index, (code, at) in enumerate(stack):
            if owner(code.co_filename) is _USER and getattr(code, "co_exceptiontable", b""):
                names_there = names[index] if names else {}
                for name, site in self._around(code, at, names_there, options):
                    around.setdefault(name, site)  # the innermost one wins
        return found | around

    def _options(self, config: tuple[tuple[str, Value], ...]) -> dict[str, str]:
        """The options of a key, by the names used to set them."""
        last, options = self._named
        if config is not last:
            options = {name.removeprefix("jax_"): name for name, _ in config}
            mesh = dict(config).get(_MESH)
            if mesh is not None and mesh.type != _UNSET:
                options |= dict.fromkeys(_SETS_MESH, _MESH)
            self._named = (config, options)
        return options

    def _around(
        self, code: CodeType, at: int, names: Mapping[str, Any], options: dict[str, str]
    ) -> Iterator[tuple[str, CallSite]]:
        has_mesh = not _SETS_MESH.isdisjoint(options)
        held = [
            name
            for name in code.co_names
            if name in options or (has_mesh and _is_mesh(names, name))
        ]
        if not held:
            return
        function = 0 if code.co_name == "<module>" else code.co_firstlineno
        line = line_at(code, at)
        for one in reversed(self._withs(code.co_filename)):
            if one.name in held and one.function == function and one.first <= line <= one.last:
                if one.called and one.name in options:
                    yield options[one.name], site_of_line(code, one.line)
                elif not one.called and _is_mesh(names, one.name):
                    yield _MESH, site_of_line(code, one.line)

    def _withs(self, file: str) -> tuple[_With, ...]:
        found = self._files.get(file)
        if found is None:
            if len(self._files) >= _MAX_FILES:
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


def _is_mesh(names: Mapping[str, Any], name: str) -> bool:
    # Locals are not read: Python would keep them alive until the function returns.
    return isinstance(names.get(name), jax.sharding.Mesh)

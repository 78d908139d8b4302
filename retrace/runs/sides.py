"""One of two recordings: its misses by function, without what is specific to its processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

from retrace.model import (
    JSON,
    Function,
    Key,
    Kind,
    Miss,
    Node,
    Recording,
    Run,
    Value,
    Verdict,
    is_cut,
)
from retrace.model.parts import SETTINGS, Named, by_kind, unchanged

_PLACED = re.compile(r"(?<![^\[ ])[^;\[\]]+?:\d+ ")
_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]", re.DOTALL)
_LINE = re.compile(r"(<function .+? at [^<>]+?):\d+(?::\d+)?>")
"""A function inside a value. Two lambdas of a file look alike without their lines; if one took
the place of the other, their programs differ."""
_MAX_SITE = 4000
_CALLED_AT = re.compile(r" at (.+):\d+(?=$| around )", re.DOTALL)


@dataclass(slots=True)
class Group:
    """The misses of one function, as the user would count functions."""

    function: Function
    file: str | None
    """The user's file; for an eager operation, the file of the line that ran it."""
    line: int | None
    text: str | None
    """For an eager operation, the text of that line."""
    form: str
    """Its definition site without files and lines: `grad of train.<locals>.loss`."""
    order: int
    verdicts: list[Verdict] = field(default_factory=list[Verdict])

    @property
    def seconds(self) -> float:
        """Total seconds of its misses, including nested ones."""
        return sum(verdict.miss.seconds for verdict in self.verdicts)


class Side:
    """A recording and the verdicts on it."""

    def __init__(self, recording: Recording, verdicts: Sequence[Verdict], name: str = "") -> None:
        self.recording = recording
        self.name = name
        """How the user named it."""
        positions = {run.id: _position(run, at) for at, run in enumerate(recording.runs)}
        # In the order each process had its misses; processes of one index are alike.
        self.verdicts = sorted(
            verdicts, key=lambda verdict: (positions[verdict.miss.run], verdict.miss.number)
        )

    @cached_property
    def groups(self) -> list[Group]:
        """Its misses by function."""
        found: dict[str, Group] = {}
        for verdict in self.verdicts:
            function = verdict.miss.function
            if (group := found.get(function.site)) is None:
                group = found[function.site] = _group(verdict.miss, len(found))
            group.verdicts.append(verdict)
        return list(found.values())

    @property
    def runs(self) -> list[Run]:
        """Its processes."""
        return self.recording.runs

    @property
    def python(self) -> set[str]:
        """The minor versions of Python that ran it, because bytecode differs between them."""
        return {".".join(run.python.split(".")[:2]) for run in self.runs}

    @property
    def jax(self) -> set[str]:
        """The JAX versions."""
        return {run.jax for run in self.runs if run.jax}


def _position(run: Run, at: int) -> int:
    return at if run.process_index is None else run.process_index


def _group(miss: Miss, order: int) -> Group:
    function, site = miss.function, miss.entry or miss.call_site
    if function.kind is Kind.OP:
        form = f"op {function.jax_name}"
        text = site.source.strip() if site is not None and site.source else None
        return Group(function, site and site.file, site and site.line, text, form, order)
    if len(function.site) > _MAX_SITE:  # not a real name, and slow to search by pattern
        return Group(function, function.file, function.line, None, function.site, order)
    form, mark, around = function.site.partition(" around ")
    if function.file is not None:
        form = form.replace(f"{function.file}:{function.line} ", "")
        form = _CALLED_AT.sub("", form)
    form = _PLACED.sub("", form)
    if function.qualname.endswith("<lambda>"):
        form = re.sub(r":[0-9a-f]+$", "", form)  # the column
    if mark:
        form += mark + _PLACED.sub("", around)
    return Group(function, function.file, function.line, None, form, order)


class Places:
    """Gives files names that two recordings share, wherever the project was located."""

    def __init__(self, old: Side, new: Side) -> None:
        sides = [_files(side) for side in (old, new)]
        # If both ran in one folder, or no user file is known, paths stay as they are.
        self._roots = ["", ""] if sides[0] & sides[1] else [_root(files) for files in sides]

    def of(self, file: str | None, side: int) -> str | None:
        """A file's name for a comparison; `side` is 0 for the old recording and 1 for the new."""
        if file is None or file.startswith("<"):
            return file
        if _PACKAGES.match(file):
            return _PACKAGES.sub("", file)
        root = self._roots[side]
        return file[len(root) :] if root and file.startswith(root) else file


def _files(side: Side) -> set[str]:
    found = {group.file for group in side.groups if not group.function.in_library}
    return {file for file in found if file and os.path.isabs(file) and not _PACKAGES.match(file)}


def _root(files: Iterable[str]) -> str:
    folders = [os.path.dirname(file) for file in files]
    try:
        return os.path.commonpath(folders) + os.sep if folders else ""
    except ValueError:  # on several drives
        return ""


class Neutral:
    """Removes from misses what is specific to their process: object numbers and equality tokens.

    A token shows what JAX treats as equal within one process. Values of two processes are
    compared by their contents, as far as recorded.
    """

    def __init__(self, old: Side, new: Side) -> None:
        self._shared: dict[str, frozenset[str]] = {}
        if old.jax != new.jax:
            # A setting unknown to one release was not changed by the user.
            keys = [[verdict.miss.key for verdict in side.verdicts] for side in (old, new)]
            self._shared = {
                row.name: _shared([[row.of(key) for key in own] for own in keys])
                for row in SETTINGS
            }
        self._known: dict[int, tuple[object, object]] = {}
        self._misses: dict[str, Miss] = {}

    def of(self, miss: Miss) -> Miss:
        """The miss in a form that can be compared with one of the other recording."""
        if (found := self._misses.get(miss.id)) is None:
            parts = by_kind(
                miss.key,
                arrays=unchanged,
                containers=self._tree,
                values=lambda row, values: self._values(values, self._shared.get(row.name)),
                words=unchanged,
            )
            function = self._function(miss.function)
            found = self._misses[miss.id] = replace(miss, function=function, key=Key(**parts))
        return found

    def forget(self) -> None:
        """Drop cached misses; they are only needed while one function is compared."""
        self._misses.clear()

    def _function(self, function: Function) -> Function:
        known = self._known.get(id(function))
        if known is not None and isinstance(known[1], Function):
            return known[1]
        found = function._replace(
            object=0,
            base=0,
            code=None,
            closure=self._values(function.closure),
            defaults=self._values(function.defaults),
            bound=self._values(function.bound),
            reads=self._values(function.reads),
            receiver=None,
        )
        self._known[id(function)] = function, found
        return found

    def _tree(self, tree: tuple[Node, ...]) -> tuple[Node, ...]:
        known = self._known.get(id(tree))
        if known is None:
            own = tuple(
                node._replace(meta=self._values(node.meta)) if node.meta else node
                for node in tree
            )
            known = self._known[id(tree)] = tree, own
        return known[1]  # pyright: ignore[reportReturnType]

    def _values(self, values: Named, only: frozenset[str] | None = None) -> Named:
        if not values:
            return values
        known = self._known.get(id(values))
        if known is None:
            neutral = tuple(
                (name, _by_content(value) if only is None else _by_text(value))
                for name, value in values
                if only is None or name in only
            )
            known = self._known[id(values)] = values, neutral
        return known[1]  # pyright: ignore[reportReturnType]


def _shared(sides: Sequence[Sequence[Named]]) -> frozenset[str]:
    names = [{name for values in side for name, _ in values} for side in sides]
    return frozenset(names[0] & names[1])


def _by_text(value: Value) -> Value:
    # Each release has its own classes for settings.
    return value._replace(type="", token=None, data=None)


def _by_content(value: Value) -> Value:
    # For a value that was cut off, only the token stands for the rest.
    if is_cut(value.data, value.text, exact=value.exact):
        return value
    if "<function " not in value.text:
        return value._replace(token=None)
    text, data = _LINE.sub(r"\1>", value.text), _without_lines(value.data)
    return value._replace(token=None, text=text, data=data)


def _without_lines(data: JSON) -> JSON:
    """The content without the lines of functions, which move when others are added above."""
    if isinstance(data, str):
        return _LINE.sub(r"\1>", data)
    if isinstance(data, list):
        return [_without_lines(item) for item in cast(list[JSON], data)]
    if isinstance(data, dict):
        fields = cast(dict[str, JSON], data)
        return {name: _without_lines(field) for name, field in fields.items()}
    return data

"""Which changes are one edit of the user's program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias, cast

from retrace.model import Function, Kind
from retrace.model.advice import JitAndPass, JitForEach, LeaveOutValue, OfFunction, ToArray
from retrace.model.parts import OF_ARGUMENTS, OF_CONTEXT
from retrace.plan.history import Column, History
from retrace.reason.fields import NO_CLASS, holder
from retrace.regex import regex

VALUES = (*OF_ARGUMENTS, "meta")
_Field: TypeAlias = tuple[str, str]
"""A class, and the name of a field in it."""


def edit(history: History, column: Column, families: Counter[str]) -> Hashable:
    """A key that is equal for all columns that a single edit by the user affects."""
    function, family = history.function, column.family
    if family == "clear" and column.paths == ("jax.clear_caches",):
        return (family,)
    if family == "again":
        return (family, function.site)
    if family in OF_CONTEXT:
        return (family, column.paths)
    if family in ("function", "code"):
        return (family, *_makers(function, history), _kinds(history), _passed(history))
    if (
        (line := _line(history, column)) is not None
        and family in _OF_LINE
        and families[family] == 1
    ):
        return (family, line)
    return (family, function.site, history.rows[0].miss.derived, column.paths)


class Edits:
    """Merges changes that one edit makes at once.

    An optimizer that is a static argument of `init`, `ask` and `tell` is created once for all of
    them; a state that reaches two functions with Python numbers in it is created once. A static
    field of a class is one for all functions that get its objects.
    """

    def __init__(self, histories: Sequence[History]) -> None:
        self._leaves = {
            fields
            for history in histories
            for column in history.columns
            if any(isinstance(one, ToArray) for one in _on_class(history, column))
            and (fields := _fields(history, column))
        }
        """The static fields that are to become leaves."""
        self._joined: dict[Hashable, Hashable] = {}
        self._owners: dict[Hashable, Hashable] = {}

    def join(self, edit: Hashable, history: History, column: Column) -> None:
        """Note that the edit changes this column; merge edits that change the same thing."""
        for thing in (*_things(history, column), *self._of_class(history, column)):
            owner = self._owners.setdefault(thing, edit)
            if _are_apart(owner, edit):
                continue
            if (one := self.of(owner)) != (other := self.of(edit)):
                self._joined[other] = one

    def _of_class(self, history: History, column: Column) -> Iterator[Hashable]:
        """The static fields that the column is about, if the advice is to edit their class."""
        told = _on_class(history, column)
        fields = _fields(history, column) if told else frozenset[_Field]()
        # What is passed in place of the whole object concerns one function alone.
        own = any(isinstance(one, ToArray) or not one.read_by for one in told)
        if fields and (own or fields in self._leaves):
            yield "field", history.run, fields

    def of(self, edit: Hashable) -> Hashable:
        """The edit that this one was merged into."""
        while (other := self._joined.get(edit)) is not None:
            edit = other
        return edit


def _on_class(history: History, column: Column) -> list[ToArray | LeaveOutValue]:
    """The advice on static fields of a class that a column is about."""
    if column.family != "meta":
        return []
    found: list[ToArray | LeaveOutValue] = []
    for fix in [row.fix for row in history.rows]:
        match fix:
            case ToArray(in_tree=True) | LeaveOutValue() if {*fix.paths} & {*column.paths}:
                found.append(fix)
            case _:
                pass
    return found


def _fields(history: History, column: Column) -> frozenset[_Field]:
    """The classes and the fields in them of a column; empty if it is not about classes alone."""
    found: set[_Field] = set()
    for path in column.paths:
        node = holder(path, history.rows[0].miss.key)
        if node is None or node.type in NO_CLASS:
            return frozenset()
        found.add((node.type, path.removeprefix(node.path)))
    return frozenset(found)


def _are_apart(one: Hashable, other: Hashable) -> bool:
    """Whether both are about one function that is jitted twice, as it is and transformed."""
    first, second = (cast(tuple[Hashable, ...], edit) for edit in (one, other))
    return first[0] == second[0] == "function" and first[:-1] != second[:-1]


def _things(history: History, column: Column) -> Iterator[Hashable]:
    """The objects of the user's program that the column is about, whatever they are passed to."""
    if column.family in VALUES:
        for part in column.parts:
            tokens = {str(history.value(row, part)) for row in range(len(history.rows))}
            objects = [token for token in tokens if _OBJECT.fullmatch(token)]
            yield from ((history.run, token) for token in objects)
            # A state with functions reaches several: they are made once if all are the same.
            functions = column.family == "meta" and all(map(_FUNCTIONS.fullmatch, tokens))
            if functions and len(tokens) > 1:
                yield history.run, frozenset(tokens)
    elif column.family == "bodies":
        for body in {body.site for row in history.rows for body in row.miss.bodies}:
            yield "body", body
    elif column.family == "function" and history.function.kind is not Kind.OP:
        yield "body", history.function.site  # a jitted body is also traced on its own
    elif column.family in _OF_LEAVES and all(map(_MEMBER.search, column.paths)):
        sites = [row.miss.call_site for row in history.rows if row.miss.call_site is not None]
        own = {(site.file, site.function) for site in sites if not site.in_library}
        if len(own) == 1 and not any(row.miss.nested for row in history.rows):
            yield column.family, *own, column.paths


_OBJECT = regex(r"#\d+ #\d+")
"""The token of an object: its class and the object itself."""
_FUNCTIONS = regex(r"[(),]*(?:#\d+[(),]*)+")
"""The tokens of functions, and of tuples of them as those of an optimizer are."""
_OF_LEAVES = ("dtype", "weak_type")
_MEMBER = regex(r"[.\[]")
"""Matches the path of an array inside a container."""
_OF_LINE = ("dtype", "weak_type", "sharding", "tree", "signature")


def _makers(function: Function, history: History) -> Iterator[Hashable]:
    """The factory that creates several functions, or else the function itself."""
    maker = function.qualname.rpartition(".<locals>.")[0]
    callers = {v.miss.call_site.function for v in history.rows if v.miss.call_site is not None}
    yield function.file
    if maker and maker.rpartition(".")[2] not in callers and not function.in_library:
        yield maker
        return
    yield function.site
    yield function.wrappers


def _kinds(history: History) -> frozenset[str]:
    """What is jitted again, such as the function itself or what a transform made of it."""
    return frozenset(
        [row.fix.what.value for row in history.rows if isinstance(row.fix, OfFunction)]
    )


def _passed(history: History) -> frozenset[str]:
    """What is to be passed to the functions: others of the same factory may need other things."""
    found: set[str] = set()
    for row in history.rows:
        if isinstance(fix := row.fix, JitAndPass | JitForEach):
            found.update(fix.traced, fix.static)
    return frozenset(found)


def _line(history: History, column: Column) -> Hashable:
    """The user's line that all misses of the column came from, not counting the first."""
    lines = {
        (verdict.miss.call_site.file, verdict.miss.call_site.line)
        for verdict, value in zip(history.rows, column.values, strict=True)
        if value and verdict.miss.call_site is not None and not verdict.miss.nested
    }
    return next(iter(lines)) if len(lines) == 1 else None

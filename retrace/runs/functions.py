"""Matches the functions of two recordings by place, by code and by program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

from retrace.compare.equation import primitive
from retrace.model import Kind
from retrace.runs.sides import Group, Places, Side

_DEFINED = re.compile(r"^(\s*(?:async\s+)?def\s+)\w+", re.MULTILINE)
_WITHIN = re.compile(r"[.\[]")
_MIN_SIMILARITY = 0.6
"""Minimum similarity of two functions with different names and code to be matched."""
_MIN_NAMESAKE_SIMILARITY = 0.3
"""The same for functions of one name in two files, if neither code nor place matches."""
_MAX_FUNCTIONS = 400
"""Maximum number of functions on each side that are compared by what they compute."""
_MAX_EQUATIONS = 4096

By: TypeAlias = Callable[[Group, int], Hashable | None]


class Same(NamedTuple):
    """A function in both recordings."""

    old: Group
    new: Group
    changed: tuple[str, ...]
    """What differs: `file`, `line`, `name`, `source`."""


class Functions(NamedTuple):
    """All functions of two recordings."""

    both: list[Same]
    gone: list[Group]
    new: list[Group]


class Matching:
    """Finds the pairs, most certain first."""

    def __init__(self, old: Side, new: Side) -> None:
        self._sides = old, new
        self._places = Places(old, new)
        self._same_bytecode = old.python == new.python
        self._old, self._new = list(old.groups), list(new.groups)
        self._pairs: list[tuple[Group, Group]] = []
        self._shapes: dict[tuple[int, int], Counter[str]] = {}

    def found(self) -> Functions:
        """The functions of both sides, matched or not."""
        place, code, line = self._place, self._code, _line
        for by in (
            (place, _form, line, code),
            (place, _form, code),
            (place, _form, line),
            (place, _form),
            (_form, code),
            (code, _kind),
        ):
            self._pair(by)
        self._pair((_form,), _MIN_NAMESAKE_SIMILARITY)
        self._pair((_kind,), _MIN_SIMILARITY)
        pairs = sorted(self._pairs, key=lambda pair: pair[0].order)
        both = [Same(old, new, self._changed(old, new)) for old, new in pairs]
        return Functions(both, self._old, self._new)

    def _pair(self, by: Sequence[By], least: float | None = None) -> None:
        olds, news = (self._keyed(side, by) for side in (0, 1))
        for key in [key for key in olds if key in news]:
            a, b = olds[key], news[key]
            if len(a) == len(b) == 1 and least is None:
                self._take(a[0], b[0])
            elif len(a) <= _MAX_FUNCTIONS and len(b) <= _MAX_FUNCTIONS:
                self._choose(a, b, least)
            else:
                for old, new in zip(a, b, strict=False):
                    self._take(old, new)

    def _keyed(self, side: int, by: Sequence[By]) -> dict[Hashable, list[Group]]:
        found: dict[Hashable, list[Group]] = {}
        for group in (self._old, self._new)[side]:
            parts = [each(group, side) for each in by]
            if None not in parts:
                found.setdefault(tuple(parts), []).append(group)
        return found

    def _choose(self, olds: list[Group], news: list[Group], least: float | None) -> None:
        """Pair candidates by similarity."""
        order = sorted(
            (
                (-self._similarity(old, new), abs(at - other), at, other)
                for at, old in enumerate(olds)
                for other, new in enumerate(news)
            )
        )
        taken: set[tuple[int, int]] = set()
        for similarity, _, at, other in order:
            if (0, at) in taken or (1, other) in taken:
                continue
            if least is not None and -similarity < least:
                break
            taken |= {(0, at), (1, other)}
            self._take(olds[at], news[other])

    def _take(self, old: Group, new: Group) -> None:
        self._pairs.append((old, new))
        self._old.remove(old)
        self._new.remove(new)

    def _place(self, group: Group, side: int) -> str | None:
        return self._places.of(group.file, side)

    def _code(self, group: Group, _: int) -> str | None:
        """Identifies the code: bytecode within one Python version, otherwise the source."""
        if group.function.kind is Kind.OP:
            # For an operation, the user's code is the line that ran it.
            return group.text
        if self._same_bytecode and group.function.code is not None:
            return group.function.code
        return _source(group)

    def _similarity(self, old: Group, new: Group) -> float:
        """How similar their computations and arguments are, from 0 to 1."""
        hashes = [_hashes(group) for group in (old, new)]
        arguments = _overlap(*(_arguments(group) for group in (old, new)))
        if hashes[0] & hashes[1]:
            same = len(hashes[0] & hashes[1]) / min(len(hashes[0]), len(hashes[1]))
            return 0.8 + 0.1 * same + 0.1 * arguments
        computed = _overlap(*(self._computed(group, at) for at, group in enumerate((old, new))))
        if not hashes[0] or not hashes[1]:
            return 0.4 * arguments
        return 0.6 * computed + 0.2 * arguments

    def _computed(self, group: Group, side: int) -> Counter[str]:
        """The primitives of its first program."""
        key = side, group.order
        if (found := self._shapes.get(key)) is None:
            found = self._shapes[key] = Counter()
            listings = self._sides[side].recording.listings
            for verdict in group.verdicts:
                program = verdict.miss.program
                listing = program and listings.get(program.listing or "")
                if listing:
                    found.update(map(primitive, listing.equations[:_MAX_EQUATIONS]))
                    break
        return found

    def _changed(self, old: Group, new: Group) -> tuple[str, ...]:
        if old.function.kind is Kind.OP:
            return ()
        found: list[str] = []
        if self._place(old, 0) != self._place(new, 1):
            found.append("file")
        if old.function.line != new.function.line:
            found.append("line")
        if old.function.qualname != new.function.qualname:
            found.append("name")
        codes = self._code(old, 0), self._code(new, 1)
        if None not in codes and codes[0] != codes[1]:
            found.append("source")
        return tuple(found)


def _form(group: Group, _: int) -> str:
    return group.form


def _line(group: Group, _: int) -> int | None:
    return group.line


def _kind(group: Group, _: int) -> str:
    # An eager operation never matches a user's function.
    return f"op {group.function.jax_name}" if group.function.kind is Kind.OP else "function"


def _source(group: Group) -> str | None:
    """The source without indentation and without the function's name."""
    text = group.function.source
    if not text:
        return None
    lines = [line.strip() for line in text.splitlines()]
    return _DEFINED.sub(r"\1", "\n".join(line for line in lines if line))


def _hashes(group: Group) -> set[str]:
    programs = (verdict.miss.program for verdict in group.verdicts)
    return {program.hash for program in programs if program is not None}


def _arguments(group: Group) -> Counter[str]:
    """The names of its arguments, with the dtypes in them."""
    leaves = group.verdicts[0].miss.key.leaves
    return Counter(f"{_WITHIN.split(leaf.path)[0]} {leaf.dtype}" for leaf in leaves)


def _overlap(old: Counter[str], new: Counter[str]) -> float:
    most = max(old.total(), new.total())
    return (old & new).total() / most if most else 0.0

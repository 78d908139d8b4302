"""Redacts the equations of a program: removes numbers and strings that came from Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from retrace.model import Listing, Stack
from retrace.store.sizes import sizes_of

_PIECES = re.compile(
    r"""(?P<text>b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*")"""
    r"|@(?P<hash>[0-9a-f]{32})"
    r"|(?P<number>(?<![\w.])-?\d[\w.+]*)"
)
"""What a parameter of an equation can contain besides words."""
_VALUES = frozenset(
    ("integer_pow y", "scan length", "slice limit_indices", "slice start_indices")
)
"""Parameters that hold a number which could also be passed as an argument."""
_MAX_AXES = 8
_SHAPES = re.compile(r"\[([0-9]{1,18}(?:,[0-9]{1,18}){0,5})\]")
_SYMBOLIC = re.compile(r"\[([^\][]*[A-Za-z_][^\][]*)\]")
_MAX_SHAPES = 1000
_AXES = tuple(map(str, range(_MAX_AXES)))


class Hash(Protocol):
    """Hashes strings to `size` bytes with the key of a redaction."""

    def __call__(self, size: int, *parts: str) -> str: ...


class Equations:
    """Redacts the equations of one program."""

    def __init__(self, listing: Listing, hashed: Hash, program: Callable[[str], str]) -> None:
        """`program` redacts the hash of another program."""
        self._listing = listing
        self._hash = hashed
        self._program_hash = program
        self._sizes = _numbers_of_sizes(listing)

    def redacted(self) -> list[str]:
        """Return the redacted equations in order."""
        listing = self._listing
        known: dict[tuple[str, str], str] = {}
        found: list[str] = []
        for index, text in enumerate(listing.equations):
            where = _function_of(listing.stacks[listing.places[index]]) if listing.places else ""
            if (text, where) not in known:
                known[text, where] = self._equation(text, where)
            found.append(known[text, where])
        return found

    def _equation(self, text: str, where: str) -> str:
        name, arguments, results, *parameters = text.split("\t")
        taken = [
            one if one == "$" or not one else self.literal(one, where)
            for one in arguments.split(" ")
        ]
        pieces = _PIECES
        if symbols := _symbols(results):
            pieces = re.compile(f"(?P<symbol>{symbols})|{_PIECES.pattern}")
        shown = [self._parameter(name, one, where, pieces) for one in parameters]
        return "\t".join((name, " ".join(taken), results, *shown))

    def literal(self, text: str, where: str = "") -> str:
        """Redact a literal: a number, or the contents of an array.

        Args:
            text: `2.0:f32[]`, `f32[2]=(1.0,2.0):f32[2]`, `<array>f32[3]`.
            where: the function that contains it.
        """
        value, colon, type_ = text.partition(":")
        if not value.startswith("<array>"):
            shape, equals, content = value.partition("=")
            if equals:
                value = f"{shape}=#{self._hash(6, where, content)}"
            elif value not in self._sizes:
                value = f"#{self._hash(6, where, value)}"
        return value + colon + type_

    def _parameter(
        self, equation: str, text: str, where: str, pieces: re.Pattern[str] = _PIECES
    ) -> str:
        name, _, value = text.partition("=")
        max_axes = 0 if f"{equation} {name}" in _VALUES else _MAX_AXES

        def replaced(found: re.Match[str]) -> str:
            if (hash_ := found["hash"]) is not None:
                return f"@{self._program_hash(hash_)}"
            piece = found[0]
            if found.groupdict().get("symbol"):
                return piece
            number = found["number"]
            if number is not None and (number in self._sizes or number in _AXES[:max_axes]):
                return piece
            mark = "~" if number is None else "#"
            return f"{mark}{self._hash(6, where, piece)}"

        return f"{name}={pieces.sub(replaced, value)}"


def _symbols(types: str) -> str:
    """A pattern that matches the symbolic sizes in result types, such as `2*n+1`."""
    found = {
        size
        for shape in _SYMBOLIC.findall(types)
        for size in sizes_of(shape)
        if type(size) is str
    }
    longest = sorted(found, key=len, reverse=True)
    either = "|".join(map(re.escape, longest))
    return rf"(?<![\w.])(?:{either})(?![\w.(])" if either else ""


def _function_of(stack: Stack) -> str:
    return f"{stack[0].file} {stack[0].function}" if stack else ""


def _numbers_of_sizes(listing: Listing) -> set[str]:
    """How sizes of a program's arguments may appear in it as numbers.

    A mean divides by the batch size: that constant belongs to the shape, and shapes are not
    secret. If it were hidden, two such programs would seem to differ in more than shapes.
    """
    shapes = {shape for type_ in listing.inputs for shape in _SHAPES.findall(type_)}
    sizes: set[int] = set()
    for shape in sorted(shapes)[:_MAX_SHAPES]:
        # A mean over some of the axes divides by the product of their sizes.
        products = [1]
        for size in map(int, shape.split(",")):
            products += [size * product for product in products]
        sizes.update(products)
    found: set[str] = set()
    for size in filter(lambda size: size > 1, sizes):
        for number in (size, size - 1, size + 1):
            found |= {str(number), str(float(number))}
        found.add(str(1.0 / size))
    return found

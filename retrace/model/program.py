"""Programs, by what they compute."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Callback(NamedTuple):
    """A place where a program calls back into Python, and does so whenever it runs."""

    primitive: str
    """JAX's name for it: `debug_print`, `pure_callback`."""
    file: str | None
    """The user's line, else the library's; None where none was recorded."""
    line: int | None


class Program(NamedTuple):
    """A jaxpr, by its content."""

    hash: str
    equations: int
    """Those of its sub-programs included."""
    listing: str | None = None
    """Under which its text is kept in the recording."""
    arrays: tuple[int | None, ...] = ()
    """Numbers of the device arrays that it captured; None for one that cannot be known again."""
    held: tuple[int | None, ...] = ()
    """Numbers of what its custom rules hold and no hash could stand for, as `arrays`."""
    callbacks: tuple[Callback, ...] = ()
    """Where it calls back into Python, those of its sub-programs included; the first few."""
    results: str | None = None
    """Digest of the paths of its results, which are part of what XLA is asked; None where it has
    one result that is no container, or where they were not recorded."""


class Frame(NamedTuple):
    """A line that was running when an equation was traced."""

    file: str
    line: int
    function: str
    first_line: int
    """Of the function."""
    in_library: bool


Stack: TypeAlias = tuple[Frame, ...]
"""The innermost frame first, as far as the beginning of the program's own trace."""


class Listing(NamedTuple):
    """The text of a jaxpr, without names of variables.

    Variables are numbered in the order of their definition, the inputs first.
    """

    id: str
    """Of content and source lines."""
    hash: str
    """Of the content alone."""
    size: int
    """Equations, those of its sub-programs included, each time they occur."""
    inputs: tuple[str, ...]
    """Types, those of captured constants first."""
    constants: tuple[str, ...]
    equations: list[str]
    """`primitive`, arguments (`$` for a variable), result types and then each `name=parameter`,
    between tabs; `@HASH` stands for a sub-program."""
    wires: list[int]
    """The variables behind each `$`, in order."""
    places: list[int]
    """For each equation the index of its stack; empty where none were recorded."""
    stacks: tuple[Stack, ...]
    outputs: tuple[str, ...]
    """`$NUMBER` or a literal."""
    inner: dict[str, str]
    """The ids of its sub-programs, by their hash."""

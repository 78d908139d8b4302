"""Programs, identified by what they compute."""

from typing import NamedTuple, TypeAlias


class Callback(NamedTuple):
    """A place where a program calls back into Python whenever it runs."""

    primitive: str
    """JAX's name for it: `debug_print`, `pure_callback`."""
    file: str | None
    """The user's line, or else a library's; None if not recorded."""
    line: int | None


class Program(NamedTuple):
    """A jaxpr, identified by its content."""

    hash: str
    equations: int
    """Including those of its sub-programs."""
    listing: str | None = None
    """The id of its text in the recording."""
    arrays: tuple[int | None, ...] = ()
    """Numbers of the device arrays that it captured; None for one that cannot be identified, and
    for each large array of NumPy, whose content was not hashed."""
    held: tuple[int | None, ...] = ()
    """Like `arrays`, for objects in custom rules that cannot be hashed."""
    callbacks: tuple[Callback, ...] = ()
    """The first few places where it calls back into Python, including in sub-programs."""
    results: str | None = None
    """Digest of the paths of its results, which are part of XLA's input. None if its result is a
    single array, or if they were not recorded."""


class Frame(NamedTuple):
    """A line that was running when an equation was traced."""

    file: str
    line: int
    function: str
    first_line: int
    """The first line of the function."""
    in_library: bool


Stack: TypeAlias = tuple[Frame, ...]
"""Innermost frame first, down to the start of the program's own trace."""


class Listing(NamedTuple):
    """The text of a jaxpr, without names of variables.

    Variables are numbered in the order of their definition, inputs first.
    """

    id: str
    """A hash of content and source lines."""
    hash: str
    """A hash of the content alone."""
    size: int
    """Number of equations; those of sub-programs count each time they occur."""
    inputs: tuple[str, ...]
    """Types; captured constants come first."""
    constants: tuple[str, ...]
    equations: list[str]
    """`primitive`, arguments (`$` for a variable), result types and then each `name=parameter`,
    separated by tabs; `@HASH` stands for a sub-program."""
    wires: list[int]
    """The variables behind each `$`, in order."""
    places: list[int]
    """The index of each equation's stack; empty if none were recorded."""
    stacks: tuple[Stack, ...]
    outputs: tuple[str, ...]
    """`$NUMBER` or a literal."""
    inner: dict[str, str]
    """The ids of its sub-programs by hash."""

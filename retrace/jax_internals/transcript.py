"""What writing down a program gives, and what it is given."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from retrace.model import Listing, Program


class Transcript(NamedTuple):
    """A program as plain data."""

    program: Program
    listings: tuple[Listing, ...]
    """The program and its sub-jaxprs, innermost first."""
    arrays: tuple[Any, ...]
    """The device arrays that it captured, in order; their content was not read."""
    held: tuple[Any, ...] = ()
    """Objects held by its custom rules of which only the type could be recorded."""
    large: tuple[Any, ...] = ()
    """The host arrays that it captured and whose content is too large to be part of its
    hash, in order."""
    host: tuple[str, ...] = ()
    """The texts of all host arrays that it captured, in order, with their content if small: the
    user may change them in place, while the compiled program keeps the earlier content."""
    called: tuple[tuple[Any, Any], ...] = ()
    """The functions that its host callbacks run, if their content was asked for, each with the
    object bound to its first parameter, or None."""
    unknown: tuple[Any, ...] = ()
    """Objects held by its host callbacks of which only the type could be recorded."""
    ruling: tuple[tuple[Any, Any], ...] = ()
    """The functions of its custom rules, which JAX traces only when it derives another program
    from this one; each with the object bound to its first parameter, or None."""


class TooLargeError(Exception):
    """A program has more equations than were to be written down."""


class Known(Protocol):
    """Programs that were written down before, with their sub-jaxprs, innermost first."""

    def get(self, thing: Any) -> tuple[Listing, ...] | None: ...
    def put(self, thing: Any, value: tuple[Listing, ...]) -> object: ...

"""Whose code it is, and which line called it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from retrace.model.key import Value


class Kind(StrEnum):
    """What the user wrote, or what was made of it, when it reached `jax.jit`."""

    DEF = "def"
    LAMBDA = "lambda"
    PARTIAL = "partial"
    TRANSFORM = "transform"
    METHOD = "method"
    CALLABLE = "callable"
    OP = "op"


class Receiver(NamedTuple):
    """The object behind a bound method or a callable instance."""

    type: str
    object: int | None
    """Number of the object in its process; None where it takes no weak reference."""
    equal: str | None
    """Equality token among the receivers of the site, as `Value.token`."""
    value: Value | None = None


class Function(NamedTuple):
    """A function object that was given to JAX, and the place its user wrote it."""

    name: str
    jax_name: str
    qualname: str
    kind: Kind
    file: str | None
    line: int | None
    site: str
    """Definition site: all function objects of one site share one history."""
    object: int
    """Number of this function object in its process; never reused, unlike `id()`."""
    code: str | None = None
    """Content hash of the user's code object."""
    closure: tuple[tuple[str, Value], ...] = ()
    defaults: tuple[tuple[str, Value], ...] = ()
    bound: tuple[tuple[str, Value], ...] = ()
    """What `functools.partial` bound, by parameter name."""
    wrappers: tuple[str, ...] = ()
    """What stands between `jax.jit` and the user's function, outermost first."""
    receiver: Receiver | None = None
    source: str | None = None
    """The user's source text, bounded; None where there is none."""
    in_library: bool = False
    """Written in an installed package: nothing there is the user's to change."""
    reads: tuple[tuple[str, Value], ...] = ()
    """What it would read from outside when it was traced, as it stood then: globals and
    attributes, by name. Part of no key, and bounded: what is not here may be read as well."""
    base: int = 0
    """Number of the user's own function object, where `object` is made around it."""
    decorators: tuple[str, ...] = ()
    """What made a wrapper by `functools.wraps` around it, outermost first."""
    around: tuple[str, ...] = ()
    """The names of the functions in its closure, whose sites are part of its own."""


class CallSite(NamedTuple):
    """The line that asked for the call."""

    file: str
    line: int
    function: str
    source: str | None
    in_library: bool
    """True where no frame of the user's own code was found."""
    untraceable: bool = False
    """Whether its function does what none that is traced can: prints, reads files, turns arrays
    into Python's numbers."""

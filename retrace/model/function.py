"""Functions, and the lines that call them."""

from enum import StrEnum
from typing import NamedTuple

from retrace.model.key import Value


class Kind(StrEnum):
    """What the user passed to `jax.jit`, or what it was wrapped into."""

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
    """Number of the object in its process; None if it cannot be weakly referenced."""
    equal: str | None
    """Equality token among the receivers of the site, as in `Value.token`."""
    value: Value | None = None


class Function(NamedTuple):
    """A function object given to JAX, and where the user wrote it."""

    name: str
    jax_name: str
    qualname: str
    kind: Kind
    file: str | None
    line: int | None
    site: str
    """Definition site: all function objects of one site share a history."""
    object: int
    """Number of this function object in its process; never reused, unlike `id()`."""
    code: str | None = None
    """Content hash of the user's code object."""
    closure: tuple[tuple[str, Value], ...] = ()
    defaults: tuple[tuple[str, Value], ...] = ()
    bound: tuple[tuple[str, Value], ...] = ()
    """What `functools.partial` bound, by parameter name."""
    wrappers: tuple[str, ...] = ()
    """The wrappers between `jax.jit` and the user's function, outermost first."""
    receiver: Receiver | None = None
    source: str | None = None
    """The user's source text, bounded; None if there is none."""
    in_library: bool = False
    """Whether it is defined in an installed package, so that the user cannot change it."""
    reads: tuple[tuple[str, Value], ...] = ()
    """The globals and attributes it would read when it was traced, by name, with their values at
    the time. Not part of the key, and bounded: the function may read more than this."""
    base: int = 0
    """Number of the user's own function object, if `object` wraps it."""
    decorators: tuple[str, ...] = ()
    """The decorators that wrapped it using `functools.wraps`, outermost first."""
    around: tuple[str, ...] = ()
    """The names of the functions in its closure, whose sites are part of its own."""


class CallSite(NamedTuple):
    """The line that made the call."""

    file: str
    line: int
    function: str
    source: str | None
    in_library: bool
    """True if no frame of the user's own code was found."""
    untraceable: bool = False
    """Whether its function does what cannot be traced: prints, reads files, converts arrays to
    Python numbers."""
    loop: int = 0
    """The line of the outermost Python loop around it in a function that may be traceable; 0 if
    there is none."""

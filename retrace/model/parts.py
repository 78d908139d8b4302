"""The table of the key's parts: a row for each field of `Key`, in the same order.

A row says everything about its part that is data. Each room has a function for each kind of row
and applies it to all rows, so that a new part of a known kind needs a field of `Key`, its
component and its row. A new kind is a new class here: the type checker names the rooms that do
not know it. `Values` may have any number of rows; the other kinds describe the arguments of a
call, of which there is one set.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum, auto
from operator import attrgetter
from typing import Any, TypeAlias, assert_never

from retrace.model.key import Key, Leaf, Node, Value
from retrace.model.record import Record


class Component(StrEnum):
    """The part of a key, a function or its program in which a change lies."""

    SHAPE = "shape"
    DTYPE = "dtype"
    WEAK_TYPE = "weak_type"
    TREE = "tree"
    STATIC = "static"
    SIGNATURE = "signature"
    SHARDING = "sharding"
    CONFIG = "config"
    OPTIONS = "options"
    FUNCTION = "function"
    CLOSURE = "closure"
    DEFAULTS = "defaults"
    CODE = "code"
    PROGRAM = "program"


class Hidden(Enum):
    """Which values of a part are hidden in a redacted recording."""

    ALL = auto()
    LISTED = auto()
    """Those that the row lists as secret."""
    NOT_OF_JAX = auto()
    """All but JAX's own words."""


Named: TypeAlias = tuple[tuple[str, Value], ...]
"""Values by name."""
Worded: TypeAlias = tuple[tuple[str, str], ...]
"""Words by name."""


class _Row(Record):
    name: str
    """The field of `Key`; also its name in recordings and in JSON."""
    components: tuple[Component, ...]
    """The components of its changes."""
    traced: frozenset[Component]
    """Those of which a change means that the function is traced again."""
    outweighs: bool = False
    """Whether a change counts more than all others when the nearest key is looked for."""


class Arrays(_Row):
    """The arrays among the arguments. Redacted recordings keep what they are."""


class Containers(_Row):
    """The containers of the arguments. Redaction hides the values of their static fields."""


class Words(_Row):
    """A `Passing` for each parameter. Redaction keeps it."""


class Values(_Row):
    """Python values by name, with one component."""

    title: str
    """What texts call all of them: `static arguments`."""
    one: str
    """What texts call one of them: `static`."""
    absent: str
    """What texts say instead of a value that is not there."""
    hidden: Hidden
    secret: frozenset[str] = frozenset()
    """The names of values that redaction hides, if it keeps the others."""
    of_jax: bool = False
    """Whether they are settings of JAX, whose names and types depend on its release, and not
    arguments of the call."""
    is_context: bool = False
    """Whether it is the configuration of JAX, which holds for all functions alike: dozens of
    values, usually the same at each call. Misses share them, texts show only those that differ,
    and one change by the user sets one for all functions."""
    of_process: frozenset[str] = frozenset()
    """The names of values that always differ between processes."""
    has_devices: bool = False
    """Whether a value may name devices of its process."""

    @property
    def component(self) -> Component:
        """The component of its changes."""
        return self.components[0]

    def of(self, key: Key) -> Named:
        """This part of a key."""
        return getattr(key, self.name)


Part: TypeAlias = Arrays | Containers | Words | Values

PARTS: tuple[Part, ...] = (
    Arrays(
        name="leaves",
        components=(
            *(Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE),
            Component.SHARDING,
        ),
        traced=frozenset((Component.SHAPE, Component.DTYPE, Component.WEAK_TYPE)),
    ),
    Containers(
        name="tree",
        components=(Component.TREE,),
        traced=frozenset((Component.TREE,)),
        outweighs=True,
    ),
    Values(
        name="static",
        components=(Component.STATIC,),
        traced=frozenset((Component.STATIC,)),
        title="static arguments",
        one="static",
        absent="omitted",
        hidden=Hidden.ALL,
    ),
    Words(
        name="signature",
        components=(Component.SIGNATURE,),
        traced=frozenset((Component.SIGNATURE,)),
    ),
    Values(
        name="options",
        components=(Component.OPTIONS,),
        traced=frozenset(),
        title="jit options",
        one="option",
        absent="not given",
        hidden=Hidden.LISTED,
        secret=frozenset(("compiler_options",)),  # may hold anything
        of_jax=True,
        has_devices=True,
    ),
    Values(
        name="config",
        components=(Component.CONFIG,),
        traced=frozenset(),
        title="config",
        one="setting",
        absent="not set",
        hidden=Hidden.NOT_OF_JAX,
        of_jax=True,
        is_context=True,
        of_process=frozenset(("axis_env", "jax_default_device", "mesh", "user_context")),
    ),
)

VALUES = tuple([row for row in PARTS if isinstance(row, Values)])
"""The parts that hold values by name."""
PASSED = tuple([row for row in VALUES if not row.of_jax])
SETTINGS = tuple([row for row in VALUES if row.of_jax])
"""Those that are arguments of the call, and those that are settings of JAX."""
CONTEXT = tuple([row for row in SETTINGS if row.is_context])
OPTIONS = tuple([row for row in SETTINGS if not row.is_context])
"""Those of the settings that hold for all functions alike, and those of one function."""
OF_ARGUMENTS = frozenset([row.component for row in PASSED])
OF_CONTEXT = frozenset([row.component for row in CONTEXT])
OF_OPTIONS = frozenset([row.component for row in OPTIONS])
"""The components of their changes."""
BY_COMPONENT = {row.component: row for row in VALUES}


def by_kind(
    key: Key,
    *,
    arrays: Callable[[tuple[Leaf, ...]], Any],
    containers: Callable[[tuple[Node, ...]], Any],
    values: Callable[[Values, Named], Any],
    words: Callable[[Worded], Any],
) -> dict[str, Any]:
    """For each part of a key, by name, what the function for its kind returns."""
    found: dict[str, Any] = {}
    part: Any  # of the type that belongs to its kind
    for row, part in zip(PARTS, key, strict=True):
        match row:
            case Arrays():
                found[row.name] = arrays(part)
            case Containers():
                found[row.name] = containers(part)
            case Values():
                found[row.name] = values(row, part)
            case Words():
                found[row.name] = words(part)
            case _:
                assert_never(row)
    return found


def unchanged(part: Any) -> Any:
    """For `by_kind`: the part as it is."""
    return part


def passed(key: Key) -> Named:
    """The values that the call passed as arguments, by name."""
    return tuple([pair for row in PASSED for pair in row.of(key)])


_PASSED_OF_KEY = attrgetter(*[row.name for row in PASSED])


def passes_the_same(old: Key, new: Key) -> bool:
    """Whether two calls passed the same values as arguments."""
    return _PASSED_OF_KEY(old) == _PASSED_OF_KEY(new)


_COMPONENTS, _OF_KEY = tuple(BY_COMPONENT), attrgetter(*[row.name for row in VALUES])


def named(key: Key) -> tuple[tuple[Component, Named], ...]:
    """The values by name of a key, with the component of their changes."""
    return tuple(zip(_COMPONENTS, _OF_KEY(key), strict=True))

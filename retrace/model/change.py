"""What differs between two keys: one class for each kind of part, with both sides as they are.

All kinds have a component, a path, both sides, and whether these were compared by content.
`present` words them.
"""

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from retrace.model.function import CallSite, Function
from retrace.model.key import JSON, Dim, Leaf, Node, Value
from retrace.model.parts import Component
from retrace.model.program import Program

Shape: TypeAlias = tuple[Dim, ...]
Sides: TypeAlias = tuple[Shape, Shape]


class ShapeChange(NamedTuple):
    """An array has other sizes, or another number of axes."""

    path: str
    old: Shape
    new: Shape

    component = Component.SHAPE
    exact = True

    @property
    def resized(self) -> tuple[tuple[int, Dim, Dim], ...] | None:
        """The changed axes as (axis, old, new), or None if the number of axes differs."""
        return resized(self.old, self.new)


def resized(old: Shape, new: Shape) -> tuple[tuple[int, Dim, Dim], ...] | None:
    """The axes of which the size differs, as `ShapeChange.resized`."""
    if len(old) != len(new):
        return None
    pairs = enumerate(zip(old, new, strict=True))
    return tuple([(axis, a, b) for axis, (a, b) in pairs if a != b])


class DtypeChange(NamedTuple):
    """An array has another dtype."""

    path: str
    old: str
    new: str

    component = Component.DTYPE
    exact = True


class WeakTypeChange(NamedTuple):
    """An array became weakly typed, or no longer is."""

    path: str
    old: bool
    new: bool

    component = Component.WEAK_TYPE
    exact = True


class ShardingChange(NamedTuple):
    """An array is on another device, or is now bound to its device."""

    path: str
    old: Leaf
    new: Leaf

    component = Component.SHARDING
    exact = True


Subtree: TypeAlias = tuple[Node | Leaf, ...]
"""A container or an array with everything below it; empty if there is none."""


class TreeChange(NamedTuple):
    """The topmost container that differs: another one, none, or an array in its place."""

    path: str
    old: Subtree
    new: Subtree

    component = Component.TREE

    @property
    def exact(self) -> bool:
        """Whether the static fields of both sides were recorded completely."""
        parts = [side[0] for side in (self.old, self.new) if side]
        return all(v.exact for part in parts if isinstance(part, Node) for _, v in part.meta)


class FieldChange(NamedTuple):
    """A static field of an otherwise equal container has another value."""

    path: str
    old: Value | None
    new: Value | None
    exact: bool
    name: str = ""
    """The name of the field; empty for a container's single unnamed datum."""

    component = Component.TREE


class NamedChange(NamedTuple):
    """A value differs in a part of the key that holds values by name (`model/parts`)."""

    component: Component
    path: str
    old: Value | None
    new: Value | None
    exact: bool
    default: str | None = None
    """In words, the value that applies if an argument is omitted."""
    as_array: bool = False
    """Whether the call without such an argument passes an array there, as `filter_jit` allows."""
    set_at: tuple[CallSite | None, CallSite | None] = (None, None)
    """The lines that set a setting, if known."""


class HeldChange(NamedTuple):
    """Something that the function itself holds or reads has another value."""

    component: Component
    """`CLOSURE` or `DEFAULTS`."""
    path: str
    old: Value | None
    new: Value | None
    exact: bool
    is_bound: bool = False
    """Bound in a partial or to a method; a cell of the closure may have the same name."""
    is_read: bool = False
    """Read from outside, and not part of the key."""


class PassingChange(NamedTuple):
    """A parameter is passed differently: by name, by position, or omitted (see `Passing`)."""

    path: str
    old: str
    new: str

    component = Component.SIGNATURE
    exact = True


class ObjectChange(NamedTuple):
    """The function object is a different one."""

    old: Function
    new: Function
    body: str | None = None
    """The name, if it is the body of a loop or condition."""

    component = Component.FUNCTION
    path = None
    exact = False


class CodeChange(NamedTuple):
    """The function's code changed."""

    old: str | None
    new: str | None
    """A hash of the code, or None if unknown."""

    component = Component.CODE
    path = None

    @property
    def exact(self) -> bool:
        """Whether both are known."""
        return self.old is not None and self.new is not None


class ProgramChange(NamedTuple):
    """The program changed."""

    old: Program
    new: Program

    component = Component.PROGRAM
    path = None
    exact = True


class SettingChange(NamedTuple):
    """A setting of a whole process, such as a flag or version, differs from another process."""

    path: str
    old: JSON
    new: JSON

    component = Component.CONFIG
    exact = True


ValueChange: TypeAlias = FieldChange | NamedChange | HeldChange
"""A change of a Python value."""
Change: TypeAlias = (
    ShapeChange
    | DtypeChange
    | WeakTypeChange
    | ShardingChange
    | TreeChange
    | ValueChange
    | PassingChange
    | ObjectChange
    | CodeChange
    | ProgramChange
    | SettingChange
)
"""One difference between a miss and its closest earlier key."""
component_of: Callable[[Change], Component] = attrgetter("component")
"""The component of a change."""
_sides_of: Callable[[ShapeChange], Sides] = itemgetter(1, 2)


class Changes(tuple[Change, ...]):  # noqa: SLOT001 - what follows is kept in its dict
    """All changes of a miss, with what follows from them and is asked several times."""

    @cached_property
    def components(self) -> frozenset[Component]:
        """The parts of the key and the function that changed."""
        return frozenset(map(component_of, self))

    @cached_property
    def shapes(self) -> list[ShapeChange]:
        """The changes of shapes."""
        if Component.SHAPE not in self.components:
            return []
        return [change for change in self if type(change) is ShapeChange]

    @cached_property
    def sides(self) -> frozenset[Sides]:
        """The distinct pairs of an earlier and a later shape: a batch changes together."""
        return frozenset(map(_sides_of, self.shapes))


def together(changes: tuple[Change, ...]) -> Changes:
    """The same changes, with what follows from them."""
    return changes if isinstance(changes, Changes) else Changes(changes)

"""Which earlier key to compare a new one with.

It is the one that differs in the fewest (component, path) pairs, where a changed tree counts more
than anything else. Among equally near keys, those of the same function object come first, then
those whose objects look the same or differ in the fewest fields, then the latest. Functions are
otherwise not compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from retrace.compare.alike import Bundles, Place
from retrace.compare.columns import Column, least
from retrace.compare.equality import identity, placement
from retrace.compare.keys import NOT_IN_KEY
from retrace.compare.likeness import Contents, held_values, looks
from retrace.compare.tree import Arguments, field_path, walk
from retrace.model import (
    Change,
    Component,
    Key,
    Kind,
    Leaf,
    Leaves,
    Miss,
    Node,
    Passing,
    Stage,
    by_column,
)
from retrace.model.parts import PARTS, Arrays, named

Form: TypeAlias = tuple[str, str, tuple[str, ...], str, int]
Skeleton: TypeAlias = tuple[tuple[Form, ...], tuple[str, ...]]

TRACED = frozenset(part for row in PARTS for part in row.traced)
"""Components that can only differ if the function was traced again."""
OUTWEIGHING = tuple([part for row in PARTS if row.outweighs for part in row.components])
"""Components of which a change counts more than all others. In a tuple, one is found quickly."""

_ABSENT = object()


class Distance(NamedTuple):
    """How far apart two keys are: changes of the tree weigh more than all others."""

    tree: int
    others: int


class Nearest(NamedTuple):
    """The earlier miss to compare with."""

    miss: Miss
    distance: Distance


def distance(changes: Iterable[Change]) -> Distance:
    """The distance between two keys that differ by these changes."""
    pairs = {(c.component, c.path) for c in changes if c.component not in NOT_IN_KEY}
    tree = sum(component in OUTWEIGHING for component, _ in pairs)
    return Distance(tree, len(pairs) - tree)


def was_lowered(miss: Miss) -> bool:
    """Whether the call reached lowering, so that JAX has an entry for its placement."""
    lowered = (Stage.LOWER, Stage.COMPILE)
    return miss.in_flight in lowered or any(stage in miss.stages for stage in lowered)


class Index:
    """The earlier keys of one site, arranged so that thousands of them do not slow a lookup."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}
        self._skeletons: dict[Skeleton, int] = {}
        """The number of each structure."""
        self._numbers: dict[tuple[int, int], tuple[int, Key]] = {}
        self._numbers_by_paths: dict[tuple[int, tuple[str, ...]], int] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, miss: Miss) -> None:
        """Make a miss a candidate. The caller leaves out those that raised."""
        skeleton = self._skeleton(miss.key)
        group = self._groups.pop(skeleton, None) or _Group(miss)
        # The group of the latest miss goes last, and is searched first.
        self._groups[skeleton] = group
        group.add(miss, self._size)
        self._size += 1

    def nearest(self, miss: Miss, *, lowered: bool = False) -> Nearest | None:
        """Find the nearest earlier miss; with `lowered`, only among those that were lowered."""
        skeleton = self._skeleton(miss.key)
        best: _Found | None = None
        own = self._groups.get(skeleton)
        if own is not None:
            best = own.search(miss, lowered)
        if best is None or best.distance.tree:
            arguments = Arguments(miss.key)
            for group in reversed(self._groups.values()):
                if group is own or (best is not None and not group.may_beat(best, miss)):
                    continue
                found = group.search_across(miss, arguments, lowered)
                if found is not None and (best is None or found.rank > best.rank):
                    best = found
        return None if best is None else Nearest(best.miss, best.distance)

    def _skeleton(self, key: Key) -> int:
        # Misses read from a file share their parts, so identity is enough. The key is kept
        # as well, so that the ids are not reused for other parts.
        known = self._numbers.get((id(key.tree), id(key.leaves)))
        if known is not None:
            return known[0]
        paths = by_column(key.leaves).paths
        same = self._numbers_by_paths.get((id(key.tree), paths))
        if same is None:
            skeleton = tuple(sorted(map(_form, key.tree))), tuple(sorted(paths))
            same = self._skeletons.setdefault(skeleton, len(self._skeletons))
            self._numbers_by_paths[id(key.tree), paths] = same
        self._numbers[id(key.tree), id(key.leaves)] = same, key
        return same


class _Found(NamedTuple):
    miss: Miss
    distance: Distance
    rank: tuple[int, int, bool, bool, int]
    """Greater means nearer: fewer changes, the same function object, later."""


class _Group:
    """The earlier keys of one tree structure; their static fields may still differ."""

    def __init__(self, first: Miss) -> None:
        self._arguments = Arguments(first.key)
        self._first = first.key
        self._leaves = by_column(first.key.leaves)
        self._bundles = Bundles(self._leaves)
        self._names = dict(_named_places(first.key))
        self._fields = dict(_field_places(first.key.tree))
        self._holders = {
            field_path(node, name): node.path for node in first.key.tree for name, _ in node.meta
        }
        self._columns: dict[Place, Column] = {}
        self._misses: list[Miss] = []
        self._orders: list[int] = []
        self._rows_by_object: dict[int, int] = {}
        self._rows_by_code: dict[str | None, int] = {}
        self._held_values: dict[Hashable, Column] = {}
        """What the functions of the rows hold, by name."""
        self._looks: dict[Hashable, int] = {}
        """The rows with objects that only equal themselves, by what these look like."""
        self._contents = Contents()
        self._compared: tuple[Miss, dict[Place, Hashable]] | None = None
        self._lowered = 0
        self._nested = 0

    def add(self, miss: Miss, order: int) -> None:
        row = len(self._misses)
        bit = 1 << row
        self._misses.append(miss)
        self._orders.append(order)
        for place, value in self._places_of(miss).items():
            column = self._columns.get(place)
            if column is None:
                column = self._columns[place] = Column()
            column.add(value, row)
        function = miss.function
        self._rows_by_object[function.object] = self._rows_by_object.get(function.object, 0) | bit
        self._rows_by_code[function.code] = self._rows_by_code.get(function.code, 0) | bit
        for name, value in held_values(miss):
            self._held_values.setdefault(name, Column()).add(value, row)
        for look in looks(miss.key):
            self._looks[look] = self._looks.get(look, 0) | bit
        self._contents.add(miss, row)
        if was_lowered(miss):
            self._lowered |= bit
        if miss.nested:
            self._nested |= bit

    def _places_of(self, miss: Miss) -> dict[Place, Hashable]:
        # A miss is first looked up, then added; compare it with the first key only once.
        if self._compared is None or self._compared[0] is not miss:
            self._compared = miss, dict(self._different(miss.key, not miss.nested))
        return self._compared[1]

    def may_beat(self, best: _Found, miss: Miss) -> bool:
        """Whether a key of this group can be nearer to `miss`, which has another structure."""
        same_function = miss.function.object in self._rows_by_object
        return (-1, 0, same_function, True, self._orders[-1]) > best.rank

    def search(self, miss: Miss, lowered: bool) -> _Found | None:
        """Find the nearest of these keys to one with the same structure."""
        different = self._places_of(miss)
        return self._search(miss, different, 0, set(), lowered)

    def search_across(self, miss: Miss, arguments: Arguments, lowered: bool) -> _Found | None:
        """Find the nearest of these keys to one with another structure."""
        self._bundles.split_all(self._columns)
        self._compared = None
        found = walk(self._arguments, arguments)
        different: dict[Place, Hashable] = dict(self._different_names(miss.key))
        for first, leaf in found.pairs:
            if first.shape != leaf.shape:
                different[Component.SHAPE, leaf.path] = leaf.shape
            different.update(_but_shape(first, leaf, not miss.nested))
        for field in found.meta:
            value = _ABSENT if field.new is None else identity(field.new)
            different[Component.TREE, field.path] = value
        covered: set[str] = set()
        # Only places that differ within this group can lie below a differing node.
        for path in found.parts if self._columns else ():
            covered |= self._arguments.below(path)
        return self._search(miss, different, len(found.parts), covered, lowered)

    def _search(
        self,
        miss: Miss,
        different: dict[Place, Hashable],
        parts: int,
        covered: set[str],
        lowered: bool,
    ) -> _Found | None:
        everyone = (1 << len(self._misses)) - 1
        among = self._lowered if lowered else everyone
        if not among:
            return None
        # Many leaves differ in the same rows, and a value never seen before differs in all
        # rows: such places are counted together.
        trees: dict[int, int] = {}
        others: dict[int, int] = {}
        unseen = different.keys() - self._columns.keys()
        traced = 0
        sizes = self._bundles.sizes
        for place, column in (*self._columns.items(), *((place, None) for place in unseen)):
            component = place[0]
            if covered and self._owner(place) in covered:
                continue
            if place not in different:
                rows = 0 if column is None else column.others
            elif column is not None and (held := column.holding(different[place])):
                rows = everyone ^ held
            else:
                rows = everyone
            if component is Component.SHARDING:
                rows = 0 if miss.nested else rows & ~self._nested
            if lowered and component in TRACED:
                traced |= rows
            counts = trees if component in OUTWEIGHING else others
            counts[rows] = counts.get(rows, 0) + sizes.get(place, 1)
        if lowered and not parts and (served := among & ~traced):
            among = served
        tree, among = least(trees, among, everyone)
        other, among = least(others, among, everyone)
        function = miss.function
        same = among & self._rows_by_object.get(function.object, 0)
        alike = 0
        if not same and function.kind is Kind.LAMBDA:
            # Lambdas of one notebook share a site: if the code differs, it is another lambda.
            alike = among & self._rows_by_code.get(function.code, 0)
        latest = self._misses[(alike or among).bit_length() - 1].function
        if not same and latest.code == function.code and (held := held_values(miss)):
            # What a function holds is not part of the key, but explains what differs.
            own = among & self._rows_by_code.get(function.code, 0)
            differing: dict[int, int] = {}
            for name, value in held:
                column = self._held_values.get(name)
                rows = everyone ^ (0 if column is None else column.holding(value))
                differing[rows] = differing.get(rows, 0) + 1
            number, among = least(differing, own, everyone)
            alike = alike & among if number else among
        pool = same or alike or among
        if pool & (pool - 1):
            # A value that looks the same, or nearly so, tells more than the latest one.
            for look in looks(miss.key):
                pool = pool & self._looks.get(look, 0) or pool
            pool = self._contents.most_alike(miss, pool, everyone)
        row = pool.bit_length() - 1
        tree += parts
        rank = (-tree, -other, bool(same), bool(same or alike), self._orders[row])
        return _Found(self._misses[row], Distance(tree, other), rank)

    def _owner(self, place: Place) -> str | None:
        component, path = place
        if component is Component.TREE:
            return self._holders.get(path, path)
        return path if component in _LEAF_COMPONENTS else None

    def _different(self, key: Key, placed: bool) -> Iterator[tuple[Place, Hashable]]:
        first = self._leaves
        if key.leaves is not self._first.leaves:
            leaves = by_column(key.leaves)
            # Leaves passed by keyword can be in another order.
            if leaves.paths != first.paths:
                by_path = {leaf.path: leaf for leaf in leaves}
                leaves = Leaves([by_path[path] for path in first.paths])
            yield from self._bundles.differing(leaves.shapes, self._columns).items()
            if leaves.others != first.others:
                for a, b in zip(first, leaves, strict=True):
                    if a[2:] != b[2:]:
                        yield from _but_shape(a, b, placed)
        if key.tree is not self._first.tree and key.tree != self._first.tree:
            yield from _different(self._fields, dict(_field_places(key.tree)))
        yield from self._different_names(key)

    def _different_names(self, key: Key) -> Iterator[tuple[Place, Hashable]]:
        _, _, *own = key
        _, _, *first = self._first
        if own != first:
            yield from _different(self._names, dict(_named_places(key)))


def _form(node: Node) -> Form:
    """A node without its static fields."""
    name, number = ("", 0) if node.made is None else node.made[:2]
    return node.path, node.type, node.children, name, number


_LEAF_COMPONENTS = frozenset(
    part for row in PARTS if isinstance(row, Arrays) for part in row.components
)


def _different(
    first: dict[Place, Hashable], new: dict[Place, Hashable]
) -> Iterator[tuple[Place, Hashable]]:
    for place, value in new.items():
        if first.get(place, _ABSENT) != value:
            yield place, value
    for place in first:
        if place not in new:
            yield place, _ABSENT


def _but_shape(first: Leaf, new: Leaf, placed: bool) -> Iterator[tuple[Place, Hashable]]:
    path = new.path
    if first.dtype != new.dtype:
        yield (Component.DTYPE, path), new.dtype
    if first.weak_type != new.weak_type:
        yield (Component.WEAK_TYPE, path), new.weak_type
    if placed and (where := placement(new)) != placement(first):
        yield (Component.SHARDING, path), where


def _field_places(tree: tuple[Node, ...]) -> Iterator[tuple[Place, Hashable]]:
    for node in tree:
        for name, value in node.meta:
            yield (Component.TREE, field_path(node, name)), identity(value)


def _named_places(key: Key) -> Iterator[tuple[Place, Hashable]]:
    for component, values in named(key):
        for name, value in values:
            yield (component, name), identity(value)
    for name, passing in key.signature:
        if passing != Passing.OMITTED:
            yield (Component.SIGNATURE, name), str(passing)

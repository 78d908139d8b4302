"""The misses of one definition site as a table: one row per miss, one column per varying thing.

Parts that always change together share a column: `batch['x']` and `batch['y']` of one length, or
a hundred arrays all committed at once. A fix removes a column or maps its values to fewer.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.compare.equality import identity, placement
from retrace.compare.tree import field_path
from retrace.model import Function, Key, Kind, Leaf, Miss, Passing, Verdict
from retrace.model.log import OF_LOG
from retrace.model.parts import OF_ARGUMENTS, named
from retrace.plan.defaults import ABSENT, with_defaults
from retrace.plan.renamed import renamed
from retrace.plan.together import Together
from retrace.plan.told_apart import told_apart


class Part(NamedTuple):
    """One part of a key."""

    family: str
    """A component of the key, or what else distinguishes misses: `again` is a lost entry, `state`
    a new program for the same key."""
    path: str
    axis: int = -1
    """An axis of a shape; -1 for the whole shape, when the number of axes varies."""


Parts: TypeAlias = dict[Part, Hashable]


class Column(NamedTuple):
    """Parts of the key that always change together."""

    family: str
    parts: tuple[Part, ...]
    values: list[int]
    """The number of the value in each row; 0 is the first row's value."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the column's parts, as the user names them."""
        return tuple(dict.fromkeys(part.path for part in self.parts if part.path))


class History:
    """The misses of one site in one process, in the order they started."""

    def __init__(self, run: str, rows: list[Verdict]) -> None:
        self.run, self.rows = run, rows
        self.columns: list[Column] = []
        self.cells: list[Parts] = []
        """For each row, the parts that differ from the first row."""
        self.varying: frozenset[Part] = frozenset()
        """The parts that differ from the first row in some row."""
        self.first: Parts = {}
        """The first row's values of the parts that vary."""
        self.together = Together()
        """The arrays that change together: only the first of them has cells."""
        self._sizes: dict[Part, tuple[int, ...]] = {}

    @property
    def function(self) -> Function:
        """The function of the first row."""
        return self.rows[0].miss.function

    def value(self, row: int, part: Part) -> Hashable:
        """The value of a part in a row."""
        part = self._with_cells(part)
        return self.cells[row].get(part, self.first.get(part, ABSENT))

    def sizes(self, part: Part) -> tuple[int, ...]:
        """The length of an axis in each row; 0 if it is absent, -1 if it is symbolic."""
        part = self._with_cells(part)
        if (known := self._sizes.get(part)) is None:
            first = self.first.get(part, ABSENT)
            values = [cell.get(part, first) for cell in self.cells]
            known = tuple([one if isinstance(one, int) else -(one != ABSENT) for one in values])
            self._sizes[part] = known
        return known

    def _with_cells(self, part: Part) -> Part:
        of_leaf = part.family in _OF_LEAVES
        return part._replace(path=self.together.first(part.path)) if of_leaf else part

    def alike(self, part: Part) -> list[Part]:
        """The same part of all arrays that change together with its array."""
        paths = self.together.paths(part.path) if part.family in _OF_LEAVES else (part.path,)
        return [part._replace(path=path) for path in paths]


def table(run: str, rows: list[Verdict]) -> History:
    """Build the table of these misses."""
    history = History(run, rows)
    if len(rows) > 1:
        _fill(history)
        history.columns = list(_columns(history))
    return history


def _fill(history: History) -> None:
    first = history.rows[0].miss
    keys = [renamed(row.miss.key, first.key) for row in history.rows]
    history.together = together = Together([key.leaves for key in keys])
    numbered = _Numbered()
    base = _without_arrays(first, numbered, history.rows[0].cause)
    first_leaves = together.firsts(first.key.leaves)
    base_leaves = {leaf.path: leaf for leaf in first_leaves}
    own_leaves = set(base_leaves)
    tree = _tree(first.key)
    named, apart = _named(first.key), told_apart(history.rows)
    for verdict, key in zip(history.rows, keys, strict=True):
        miss = verdict.miss
        cell: Parts = {}
        own = base if _is_alike(miss, first) else _without_arrays(miss, numbered, verdict.cause)
        _add_differences(base, own, cell)
        if first.key[_NAMED] != miss.key[_NAMED]:
            for before, after in zip(named, _named(miss.key), strict=True):
                _add_differences(before, after, cell)
        for name, value in miss.key.static if apart and miss is not first else ():
            if identity(value) in apart.get(name, ()):
                cell[Part("static", name)] = miss.number  # equal to itself alone
        if key.tree is not first.key.tree and key.tree != first.key.tree:
            _add_differences(tree, _tree(key), cell)
        if key.leaves is not first.key.leaves:
            placed = not (miss.nested or first.nested)
            _leaves(base_leaves, first_leaves, together.firsts(key.leaves), placed, cell)
        if not OF_LOG.isdisjoint(miss.unseen):
            # The log does not show what else was new: no change it shows would avoid this miss.
            cell[Part("repeat", "not shown by the log")] = miss.number
        elif verdict.cause is Cause.CACHE_CLEARED and verdict.avoidable == "no":
            cell[Part("repeat", "compiled in any case")] = miss.number
        history.cells.append(cell)
    history.varying = varying = frozenset(part for cell in history.cells for part in cell)
    for one in named:
        base |= one
    history.first = {part: value for part, value in (base | tree).items() if part in varying}
    for part in varying:
        if part not in history.first and (leaf := base_leaves.get(part.path)) is not None:
            is_later = part.family == "tree" and part.path not in own_leaves
            history.first[part] = ABSENT if is_later else _of_leaf(leaf, part)
    _fill_in_defaults(history)
    _number_lost(history)


class _Numbered:
    """Numbers function objects that share the same code, so that edited code stays distinct."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[int, int]] = {}

    def of(self, function: Function) -> int:
        known = self._known.setdefault((function.site, function.code), {})
        return known.setdefault(function.object, len(known))


def _without_arrays(miss: Miss, numbered: _Numbered, cause: Cause) -> Parts:
    """Everything except the arrays and their tree."""
    function = miss.function
    found: Parts = {Part("clear", "jax.clear_caches"): miss.epoch}
    if function.kind is Kind.OP:
        bodies = miss.bodies
        found[Part("code", "bodies")] = tuple((body.site, body.code) for body in bodies)
        found[Part("bodies", "")] = tuple(map(numbered.of, bodies))
        if not bodies and cause is not Cause.CONTROL_FLOW_RECREATED:
            found[Part("function", "")] = function.object
    else:
        found[Part("code", "")] = function.code
        found[Part("function", "")] = numbered.of(function)
        found[Part("clear", f"{function.name}.clear_cache")] = miss.function_epoch
    return found


def _is_alike(miss: Miss, first: Miss) -> bool:
    """Whether a miss is surely the same as the first, except for its arguments and settings."""
    if miss is first:
        return True
    epochs = miss.epoch, miss.function_epoch
    is_same = miss.function is first.function and miss.function.kind is not Kind.OP
    return is_same and epochs == (first.epoch, first.function_epoch)


_NAMED = slice(2, None)
"""The slice of a key without its arrays and containers."""


def _named(key: Key) -> tuple[Parts, ...]:
    """What a key holds by name: values, and ways of passing."""
    values = [
        {Part(component.value, name): identity(value) for name, value in values}
        for component, values in named(key)
    ]
    words = [(name, str(how)) for name, how in key.signature if how != Passing.OMITTED]
    return (*values, {Part("signature", name): how for name, how in words})


def _tree(key: Key) -> Parts:
    found: Parts = {}
    for node in key.tree:
        found[Part("tree", node.path)] = (node.type, node.children, node.made)
        for name, value in node.meta:
            found[Part("meta", field_path(node, name))] = identity(value)
    return found


def _add_differences(first: Parts, other: Parts, cell: Parts) -> None:
    if first is other:
        return
    for part, value in other.items():
        if first.get(part, ABSENT) != value:
            cell[part] = value
    for part in first.keys() - other.keys():
        cell[part] = ABSENT


def _leaves(
    by_path: dict[str, Leaf],
    first: tuple[Leaf, ...],
    own: tuple[Leaf, ...],
    placed: bool,
    cell: Parts,
) -> None:
    later = by_path.keys() - {leaf.path for leaf in first} if len(by_path) > len(first) else ()
    in_order = len(first) == len(own) and all(
        a is b or a.path == b.path for a, b in zip(first, own, strict=True)
    )
    pairs = zip(first, own, strict=True) if in_order else ((by_path.get(b.path), b) for b in own)
    for a, b in pairs:
        if a is not None and (a is b or a == b) and b.path not in later:
            continue
        if a is None:
            # A leaf that only later rows have is compared with its first occurrence.
            cell[Part("tree", b.path)] = "present"
            a = by_path.setdefault(b.path, b)
        elif b.path in later:
            cell[Part("tree", b.path)] = "present"
        if a.shape != b.shape and not _are_both_keys(a, b):
            if len(a.shape) != len(b.shape):
                cell[Part("shape", b.path)] = b.shape
            else:
                for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
                    if x != y:
                        cell[Part("shape", b.path, axis)] = y
        if a.dtype != b.dtype:
            cell[Part("dtype", b.path)] = b.dtype
        if a.weak_type != b.weak_type:
            cell[Part("weak_type", b.path)] = b.weak_type
        if placed and placement(a) != placement(b):
            cell[Part("sharding", b.path)] = placement(b)
    if not in_order:
        for path in {leaf.path for leaf in first} - {leaf.path for leaf in own}:
            cell[Part("tree", path)] = ABSENT


def _are_both_keys(one: Leaf, other: Leaf) -> bool:
    """Whether they are as many PRNG keys, typed and raw: these have one axis more."""
    typed, raw = (one, other) if one.dtype.startswith("key<") else (other, one)
    return typed.dtype.startswith("key<") and (typed.shape, "uint32") == (
        raw.shape[:-1],
        raw.dtype,
    )


def _of_leaf(leaf: Leaf, part: Part) -> Hashable:
    match part.family:
        case "shape":
            return leaf.shape if part.axis < 0 else leaf.shape[part.axis]
        case "dtype":
            return leaf.dtype
        case "weak_type":
            return leaf.weak_type
        case "sharding":
            return placement(leaf)
        case _:
            return "present"


def _fill_in_defaults(history: History) -> None:
    """Give static arguments that were left out the value of their default."""
    every = (part for cell in history.cells for part in cell)
    for part in dict.fromkeys(part for part in every if part.family in OF_ARGUMENTS):
        if (filled := with_defaults(history.rows, part.path)) is None:
            continue
        history.first[part] = filled[0]
        for cell, content in zip(history.cells, filled, strict=True):
            cell.pop(part, None)
            if content != history.first[part]:
                cell[part] = content


def _number_lost(history: History) -> None:
    """Number the misses whose key already had an entry: no other column distinguishes them."""
    seen: dict[Hashable, int] = {}
    families = {Cause.CACHE_EVICTED: "again", Cause.JAXPR_CHANGED: "state"}
    states = 0
    for verdict, cell in zip(history.rows, history.cells, strict=True):
        if verdict.cause is Cause.JAXPR_CHANGED:
            states += 1
        if states:
            # Later rows have the later state, so an earlier program would not serve them.
            cell[Part("state", "")] = states
        key = (verdict.miss.nested, frozenset(cell.items()))
        if (number := seen.get(key)) is not None and verdict.miss.raised is None:
            cell[Part(families.get(verdict.cause, "repeat"), "")] = number
        if verdict.miss.raised is None:
            seen[key] = seen.get(key, 0) + 1


def _columns(history: History) -> Iterator[Column]:
    grouped: dict[Hashable, list[Part]] = {}
    parts = sorted({part for cell in history.cells for part in cell})
    tops = _topmost(part.path for part in parts if part.family == "tree")
    parameters = {part.path for part in parts if part.family == "signature"}
    values: dict[Part, list[Hashable]] = {}
    for part in parts:
        first = history.first.get(part, ABSENT)
        values[part] = [cell.get(part, first) for cell in history.cells]
        grouped.setdefault(_group(part, values[part], tops, parameters), []).append(part)
    leaders = dict(_led_groups(history, grouped, values))
    for key, members in grouped.items():
        if key in leaders:
            continue
        also = [part for led, leader in leaders.items() if leader == key for part in grouped[led]]
        family = min((part.family for part in members), key=_family_rank)
        numbers: dict[Hashable, int] = {}
        rows = zip(*(values[part] for part in members), strict=True)
        yield Column(
            family,
            (*sorted(one for part in members for one in history.alike(part)), *also),
            [numbers.setdefault(row, len(numbers)) for row in rows],
        )


def _led_groups(
    history: History, grouped: dict[Hashable, list[Part]], values: dict[Part, list[Hashable]]
) -> Iterator[tuple[Hashable, Hashable]]:
    """Groups about an array that some rows lack, if another group decides them elsewhere."""
    rows = range(len(history.rows))
    partial: dict[Hashable, list[int]] = {}
    for key, (part, *_) in grouped.items():
        there = Part("tree", part.path)
        if part.family in _OF_LEAVES and there in values:
            partial[key] = [row for row in rows if values[there][row] != ABSENT]
    for key, present in partial.items():
        part = grouped[key][0]
        for other, members in grouped.items():
            if other in partial or members[0].family != part.family:
                continue
            pairs = {(values[members[0]][row], values[part][row]) for row in present}
            if len(pairs) == len({first for first, _ in pairs}):
                yield key, other
                break


_OF_LEAVES = ("shape", "dtype", "weak_type", "sharding")


def _family_rank(family: str) -> int:
    return -1 if family == "signature" else 0


def _group(
    part: Part, values: list[Hashable], tops: dict[str, str], parameters: set[str]
) -> Hashable:
    """A key that is equal for the parts that share a column."""
    family, path = part.family, part.path
    is_given = family in OF_ARGUMENTS and ABSENT in values and len({*values}) == 2
    if (family in ("tree", "meta") or is_given) and _root(path, parameters) is not None:
        # Its presence depends on how a parameter is passed.
        return "signature"
    if family == "signature":
        return family
    if family == "tree":
        return (family, tops[path])
    if family in ("function", "code", "bodies", "clear"):
        return part
    numbers: dict[Hashable, int] = {}
    return (family, tuple([numbers.setdefault(value, len(numbers)) for value in values]))


def _root(path: str, among: set[str]) -> str | None:
    """The path among the given ones that contains this path, or is it."""
    if path in among:
        return path
    return next((one for one in among if path.startswith((f"{one}[", f"{one}."))), None)


def _topmost(paths: Iterable[str]) -> dict[str, str]:
    """Map each path to the outermost given path that contains it."""
    found: dict[str, str] = {}
    last: list[str] = []
    for path in sorted(set(paths)):
        last = [one for one in last if one == "" or path.startswith((f"{one}[", f"{one}."))]
        found[path] = last[0] if last else path
        last.append(path)
    return found

"""Which values of a column could share one program."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import cast

from retrace.compare.equality import same_content
from retrace.compare.keys import read_changes
from retrace.compare.programs import compare
from retrace.compare.tree import field_path
from retrace.model import JSON, Component, Function, HeldChange, Listing, Miss, Value
from retrace.model.advice import ToArgument
from retrace.model.parts import OF_ARGUMENTS, passed
from retrace.plan.defaults import ABSENT
from retrace.plan.history import Column, History, Part
from retrace.plan.replay import Mapped
from retrace.reason.evidence import is_arrays
from retrace.reason.held import is_below
from retrace.reason.sharing import shared
from retrace.reason.values import is_amount
from retrace.regex import regex

_MAX_COMPARED = 8
"""Maximum number of different programs of a column that are compared with a new one."""

_NONE = ("None", (), None)
"""What the table of a function's misses has for None."""
_SERVED = ("identical", "constants-only")


class Classes:
    """Values that could share a program, as a union-find structure."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self.alike = False
        """Whether the only values joined were separate objects with the same contents."""
        self.programs: dict[int, dict[Hashable, set[int]]] = {}
        """The programs of each value, by what else varied."""

    def of(self, value: int) -> int:
        """The representative of all values that share a program with this one."""
        while (above := self._above.get(value, value)) != value:
            value = above
        return value

    def join(self, a: int, b: int) -> None:
        """Note that one program could serve both."""
        low, high = sorted((self.of(a), self.of(b)))
        self._above[high] = low


def classes(
    history: History, column: Column, listings: Mapping[str, Listing]
) -> tuple[Classes, bool]:
    """Group the values of a column by program; also tell whether programs differ in constants.

    Values are joined if two rows that differ in nothing else have the same program, or programs
    that differ only in constants, which could be arguments.
    """
    programs, constants = _served(history, column, listings)
    found = Classes()
    found.programs = programs
    for first, *rest in shared(programs):
        for value in rest:
            found.join(first, value)
            for place, own in programs[value].items():
                programs[first].setdefault(place, set()).update(own)
    if column.family in ("function", "bodies"):
        _join_unseen(history, column, found, programs)
    elif column.family in OF_ARGUMENTS or column.family == "meta":
        _join_passed(history, column, found, programs)
        if constants:
            _join_constants(found, programs)
        apart = all(found.of(value) == value for value in column.values)
        found.alike = _join_alike(history, column, found, programs) and apart
    return found, constants


def have_own_programs(history: History, column: Column, listings: Mapping[str, Listing]) -> bool:
    """Whether two values are known to have different programs, all else being equal.

    An array that one call omits is a constant there, and can be passed in each.
    """
    if not any(_is_static(history, part) for part in column.parts):
        return False
    programs, _ = _served(history, column, listings)
    found = list(programs.values())
    return any(are_apart(one, other) for at, one in enumerate(found) for other in found[at + 1 :])


def _is_static(history: History, part: Part) -> bool:
    """Whether the part of a column is more than an array that some calls omit."""
    if part.family == "tree":
        values = {history.value(row, part) for row in range(len(history.rows))}
        # The same as None, which other calls pass instead.
        return not all(one in (ABSENT, "present", _NONE) for one in values)
    return part.family != "signature"


def _served(
    history: History, column: Column, listings: Mapping[str, Listing]
) -> tuple[dict[int, dict[Hashable, set[int]]], bool]:
    """The programs of each value, by what else varies, and whether constants differ."""
    others = _others(history, column)
    rows = Classes()
    latest: dict[Hashable, dict[int, int]] = {}
    """By what else varies: the latest row of each program."""
    hashes: dict[Hashable, int] = {}
    raised: list[int] = []
    constants = False
    for row, verdict in enumerate(history.rows):
        program = verdict.miss.program
        earlier = latest.setdefault(others[row], {})
        if program is None:
            if verdict.miss.raised is not None:
                raised.append(row)
        elif (same := hashes.setdefault((others[row], program.hash), row)) != row:
            rows.join(same, row)
        else:
            for one in list(earlier.values())[-_MAX_COMPARED:]:
                if _kind(history, one, row, listings) in _SERVED:
                    constants = constants or column.values[one] != column.values[row]
                    rows.join(one, row)
                    break
        if program is not None:
            earlier[rows.of(row)] = row
    programs: dict[int, dict[Hashable, set[int]]] = {}
    for row, value in enumerate(column.values):
        own = programs.setdefault(value, {})
        if history.rows[row].miss.program is not None:
            own.setdefault(others[row], set()).add(rows.of(row))
    if raised:  # and would raise for any value
        for value in {column.values[0], *(column.values[row] for row in raised)}:
            programs[value]["raised"] = {0}
    return programs, constants


def _others(history: History, column: Column) -> list[Hashable]:
    # Clearing a cache does not change the program.
    rest = [
        other.values
        for other in history.columns
        if other is not column and other.family not in ("clear", "again")
    ]
    nested = [verdict.miss.nested for verdict in history.rows]
    return list(zip(nested, *rest, strict=True))


def _kind(history: History, old: int, new: int, listings: Mapping[str, Listing]) -> str | None:
    verdict, before = history.rows[new], history.rows[old].miss
    if verdict.nearest is before and verdict.program is not None:
        return verdict.program.kind
    return _between(before, verdict.miss, listings)


def _between(old: Miss, new: Miss, listings: Mapping[str, Listing]) -> str | None:
    a, b = old.program, new.program
    if a is None or b is None:
        return None
    if a.hash == b.hash:
        return "identical"
    before, after = listings.get(a.listing or ""), listings.get(b.listing or "")
    return None if before is None or after is None else compare(before, after, listings).kind


def with_same_contents(
    history: History, column: Column, mapped: Mapped, left_out: Collection[str] = ()
) -> Mapped:
    """Values that share a program and whose contents are equal, as a comparison by value finds.

    Args:
        history: the misses.
        column: its static values or tree fields.
        mapped: what the values become if the program alone decides.
        left_out: paths of what is not compared.
    """
    first: dict[Hashable, int] = {}
    found: list[int] = []
    for value, shared_with in enumerate(mapped):
        miss = history.rows[column.values.index(value)].miss
        held = tuple(_compared(miss, part, left_out) for part in column.parts)
        # Device arrays in them are not read: the program shows which ones it captured.
        arrays = () if miss.program is None else miss.program.arrays
        found.append(first.setdefault((shared_with, held, arrays), value))
    return tuple(found)


def _compared(miss: Miss, part: Part, left_out: Collection[str]) -> Hashable:
    """The contents of a static value or tree field without what is not compared."""
    value = value_at(miss, part)
    if value is None or part.path in left_out:
        return None
    data = value.data
    inside = [path.removeprefix(part.path) for path in left_out if is_below(path, (part.path,))]
    for path in inside:
        data = _without(data, [name or key or index for name, key, index in _NAMES.findall(path)])
    return value.type, "" if inside else value.text, repr(data)


_NAMES = regex(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")


def _without(data: JSON, place: list[str]) -> JSON:
    """Plain contents without the part at this place."""
    if not place:
        return None
    name, *rest = place
    if isinstance(data, dict):
        parts = cast(dict[str, JSON], data)
        return {**parts, name: _without(parts[name], rest)} if name in parts else parts
    if not isinstance(data, list):
        return data
    items = cast(list[JSON], data)
    return [_without(one, rest) if str(i) == name else one for i, one in enumerate(items)]


def _join_unseen(
    history: History,
    column: Column,
    found: Classes,
    programs: Mapping[int, Mapping[Hashable, set[int]]],
) -> None:
    """Join function objects whose programs cannot be compared because their arguments differ."""
    first: dict[int, Function] = {}
    for verdict, value in zip(history.rows, column.values, strict=True):
        miss = verdict.miss
        first.setdefault(value, (miss.bodies or (miss.function,))[0])
    tops = [value for value in first if found.of(value) == value]
    for position, value in enumerate(tops):
        for other in tops[:position][:_MAX_COMPARED]:
            mine, theirs = programs[value], programs[found.of(other)]
            if are_apart(mine, theirs):
                continue
            if _passable(first[other], first[value]):
                found.join(other, value)
                break


def _join_passed(
    history: History,
    column: Column,
    found: Classes,
    programs: Mapping[int, dict[Hashable, set[int]]],
) -> None:
    """Join values that changed along with others if all of those are constants of the program.

    Each can then be an argument, whatever the others are, though no calls show it in isolation.
    """
    known = {verdict.miss.id: row for row, verdict in enumerate(history.rows)}
    for row, verdict in enumerate(history.rows):
        advised, near = verdict.fix, verdict.nearest
        if near is None or near.id not in known or not isinstance(advised, ToArgument):
            continue
        changed = [
            other
            for other in history.columns
            if other.values[row] != other.values[known[near.id]]
        ]
        named = {*advised.paths, *advised.unread}
        if (
            advised.sure != "clear"
            or advised.others
            or not any(other is column for other in changed)
            or not all(
                other.family in OF_ARGUMENTS and named.issuperset(other.paths)
                for other in changed
            )
        ):
            continue
        pair = column.values[row], column.values[known[near.id]]
        one, other = sorted(map(found.of, pair))
        if one != other and not are_apart(programs[one], programs[other]):
            found.join(one, other)
            for place, own in programs[other].items():
                programs[one].setdefault(place, set()).update(own)


def _join_constants(found: Classes, programs: Mapping[int, dict[Hashable, set[int]]]) -> None:
    """Join values that were only constants, but never with the same other arguments.

    A rate of which the last values came with another type of something else decides nothing.
    """
    tops = [value for value in programs if found.of(value) == value]
    joined = {found.of(value) for value in programs if found.of(value) != value}
    for position, value in enumerate(tops):
        for other in tops[:position]:
            one, two = found.of(value), found.of(other)
            if one == two or one not in joined or two not in joined:
                continue
            if not are_apart(programs[one], programs[two]):
                low, high = sorted((one, two))
                found.join(low, high)
                for place, own in programs[high].items():
                    programs[low].setdefault(place, set()).update(own)


def are_apart(one: Mapping[Hashable, set[int]], other: Mapping[Hashable, set[int]]) -> bool:
    """Whether the two values had different programs while everything else was equal."""
    return any(one[place].isdisjoint(other[place]) for place in one.keys() & other)


def _join_alike(
    history: History,
    column: Column,
    found: Classes,
    programs: Mapping[int, Mapping[Hashable, set[int]]],
) -> bool:
    """Join values with equal contents that JAX treats as different: one object would serve both.

    Their programs do not show this if each value was called with arguments of its own.

    Returns:
        Whether there were such values.
    """
    tops: dict[Hashable, int] = {}
    joined = False
    for row, value in enumerate(column.values):
        if found.of(value) != value:
            continue
        held = tuple(_held(history.rows[row].miss, part) for part in column.parts)
        if None in held:
            continue
        first = tops.setdefault(held, value)
        mine, theirs = programs[value], programs[first]
        if first != value and not are_apart(mine, theirs):
            found.join(first, value)
            joined = True
    return joined


def _held(miss: Miss, part: Part) -> Hashable:
    """The contents of a static value or tree field, or None if unknown."""
    value = value_at(miss, part)
    return None if value is None else (value.type, value.text, repr(value.data))


def value_at(miss: Miss, part: Part) -> Value | None:
    """The static value or tree field that the part is about."""
    if part.family in OF_ARGUMENTS:
        return dict(passed(miss.key)).get(part.path)
    fields = ((field_path(n, name), v) for n in miss.key.tree for name, v in n.meta)
    return next((value for path, value in fields if path == part.path), None)


def _passable(old: Function, new: Function) -> bool:
    """Whether everything that differs between the two functions could be an argument.

    What they read of other objects, such as `self.k`, could not.
    """
    if read_changes(old, new):
        return False
    for before, after in (
        (old.closure, new.closure),
        (old.bound, new.bound),
        (old.defaults, new.defaults),
    ):
        named = dict(before)
        if named.keys() != dict(after).keys():
            return False
        if not all(_is_passable(named[name], value) for name, value in after):
            return False
    return True


def _is_passable(old: Value, new: Value) -> bool:
    if same_content(old, new):
        return True
    change = HeldChange(Component.CLOSURE, "", old, new, False)
    return is_arrays(change) or is_amount(change)

"""Which values of a column one program could serve."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from retrace.compare.equality import described, same_content
from retrace.compare.programs import compare
from retrace.model import Change, Component, Function, Listing, Miss, Value
from retrace.plan.history import Column, History
from retrace.reason.evidence import is_arrays
from retrace.reason.program import Comparison
from retrace.reason.values import is_amount

_MOST = 8
"""So many programs of one column are compared with a new one, beside equal ones."""

_SERVED = ("identical", "constants-only")


class Classes:
    """Values that could share a program, joined one pair after the other."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def of(self, value: int) -> int:
        """What stands for all that share a program with this one."""
        while (above := self._above.get(value, value)) != value:
            value = above
        return value

    def join(self, a: int, b: int) -> None:
        """One program could serve both."""
        low, high = sorted((self.of(a), self.of(b)))
        self._above[high] = low


def classes(
    history: History, column: Column, listings: Mapping[str, Listing]
) -> tuple[Classes, bool]:
    """The values of a column by program, and whether constants alone were seen to differ.

    Values are joined where two rows that differ in nothing else have one program, or programs
    that differ in constants alone, which an argument can stand for.
    """
    found = Classes()
    others = _others(history, column)
    by_key: dict[Hashable, list[int]] = {}
    hashes: dict[Hashable, int] = {}
    apart: set[tuple[int, int]] = set()
    constants = False
    for row, verdict in enumerate(history.rows):
        miss, value = verdict.miss, column.values[row]
        program = miss.program
        if program is None:
            if miss.raised is not None:  # and would raise with any value
                found.join(column.values[0], value)
            by_key.setdefault(others[row], []).append(row)
            continue
        same = hashes.setdefault((others[row], program.hash), value)
        earlier = by_key.setdefault(others[row], [])
        if same != value:
            found.join(same, value)
        elif earlier:
            representatives = {found.of(column.values[one]): one for one in earlier}
            representatives.pop(found.of(value), None)
            for one in list(representatives.values())[-_MOST:]:
                if _kind(history, one, row, listings) in _SERVED:
                    constants = True
                    found.join(column.values[one], value)
                    break
                apart.add((column.values[one], value))
        earlier.append(row)
    if column.family in ("function", "bodies"):
        _join_unseen(history, column, found, apart)
    return found, constants


def _others(history: History, column: Column) -> list[Hashable]:
    # A cleared cache makes no other program.
    rest = [
        other.values
        for other in history.columns
        if other is not column and other.family not in ("clear", "again")
    ]
    nested = [verdict.miss.nested for verdict in history.rows]
    return list(zip(nested, *rest, strict=True))


def _kind(history: History, old: int, new: int, listings: Mapping[str, Listing]) -> str | None:
    verdict, before = history.rows[new], history.rows[old].miss
    if verdict.nearest is before and isinstance(verdict.program, Comparison):
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


def _join_unseen(
    history: History, column: Column, found: Classes, apart: set[tuple[int, int]]
) -> None:
    """Join function objects whose programs cannot be compared: all had other arguments."""
    first: dict[int, Function] = {}
    for verdict, value in zip(history.rows, column.values, strict=True):
        miss = verdict.miss
        first.setdefault(value, (miss.bodies or (miss.function,))[0])
    differing = {(found.of(a), found.of(b)) for a, b in apart}
    tops = [value for value in first if found.of(value) == value]
    for position, value in enumerate(tops):
        for other in tops[:position][:_MOST]:
            pairs = {(found.of(other), value), (value, found.of(other))}
            if not (pairs & differing) and _passable(first[other], first[value]):
                found.join(other, value)
                break


def _passable(old: Function, new: Function) -> bool:
    """Whether all that the two hold otherwise could be passed as arguments."""
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
    change = Change(Component.CLOSURE, None, "", described(old), described(new), False)
    return is_arrays(change) or is_amount(change)

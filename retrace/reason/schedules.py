"""Numbers that a schedule of an optax optimizer holds.

`optax.inject_hyperparams` calls a schedule again at each update, and overwrites what was set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from retrace.compare.values import differences
from retrace.model import JSON, Change
from retrace.model.advice import (
    Advice,
    DefineBodyOnce,
    InjectHyperparams,
    JitAndPass,
    JitForEach,
)
from retrace.reason.evidence import values_of

_OWN = ("init", "update")
"""The functions of an optimizer itself; those of several are in lists."""


def injects(advised: Advice) -> bool:
    """Whether advice puts what differs into the state of an optimizer."""
    match advised:
        case InjectHyperparams() | JitForEach(injects=True):
            return True
        case JitAndPass(inject=found) | DefineBodyOnce(inject=found):
            return bool(found)
        case _:
            return False


def scheduled(changes: Iterable[Change]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of changed numbers that a schedule holds: `init_value`, and `decay_steps`."""
    found = dict([named for change in changes for named in _scheduled(change)])
    return (
        tuple([name for name, is_count in found.items() if not is_count]),
        tuple([name for name, is_count in found.items() if is_count]),
    )


def _scheduled(change: Change) -> Iterator[tuple[str, bool]]:
    old, new = values_of(change)
    if old is None or new is None:
        return
    for one in differences(old, new):
        *around, name = one.place or ("",)
        if one.kind == "changed" and isinstance(name, str) and _is_scheduled(new.data, around):
            yield name, {type(one.old), type(one.new)} == {int}


def _is_scheduled(data: JSON, place: Iterable[str | int]) -> bool:
    """Whether the way to a value leads into an optimizer, and there into another function."""
    inside, several = _type(data).startswith("optax."), False
    for name in place:
        several = isinstance(data, list)
        data = _inner(data, name)
        if inside and _type(data).startswith("<") and name not in _OWN and not several:
            return True
        inside = inside or _type(data).startswith("optax.")
    return False


def _inner(data: JSON, name: str | int) -> JSON:
    if isinstance(data, list):
        return cast(list[JSON], data)[int(name)]
    parts = _parts(data)
    return parts.get(str(name))


def _type(data: JSON) -> str:
    return str(_parts(data).get("$type", ""))


def _parts(data: JSON) -> dict[str, JSON]:
    return cast(dict[str, JSON], data) if isinstance(data, dict) else {}

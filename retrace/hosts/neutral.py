"""Removes process-specific parts from a miss, so that processes can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from retrace.model import Function, Key, Leaf, Listing, Miss, Node, Value
from retrace.model.parts import Named, Values, by_kind, unchanged

_DEVICES = re.compile(r" on \[[^]]*\]")
_DEVICE = re.compile(r"\b([a-z]\w*):\d+(?=[,\])}]|$)")
_MAX_PROGRAMS = 200
"""Maximum number of nested programs compared without their devices."""


def neutral(miss: Miss) -> Miss:
    """The miss with values reduced to their contents and without object identities.

    Tokens and numbers identify objects within one process: in another process the same number
    may stand for something else.
    """
    local = miss.processes is None
    parts = by_kind(
        miss.key,
        arrays=lambda leaves: tuple(map(placeless, leaves)) if local else leaves,
        containers=lambda tree: tuple(map(_node, tree)),
        values=lambda row, values: neutral_values(row, values, local),
        words=unchanged,
    )
    return replace(miss, function=_function(miss.function), key=Key(**parts))


def neutral_values(row: Values, values: Named, local: bool) -> Named:
    """The values of a part without those that always differ between processes.

    If the program is `local` to one process, its devices are left out as well.
    """
    found = _values([each for each in values if each[0] not in row.of_process])
    if local and row.has_devices:
        found = tuple([(name, v._replace(text=without_devices(v.text))) for name, v in found])
    return found


def placeless(leaf: Leaf) -> Leaf:
    """An array without the specific devices it lies on."""
    if leaf.sharding is None:
        return leaf
    return leaf._replace(sharding=without_devices(leaf.sharding))


def without_devices(text: str) -> str:
    """Turn `SingleDevice(cpu:2048)` into `SingleDevice(cpu:*)`."""
    return _DEVICE.sub(r"\1:*", _DEVICES.sub("", text))


def same_but_devices(old: Listing, new: Listing, listings: Mapping[str, Listing]) -> bool:
    """Whether two programs differ only in the devices of their processes."""
    waiting, seen = [(old, new)], set[tuple[str, str]]()
    while waiting:
        a, b = waiting.pop()
        if a.hash == b.hash:
            continue
        if len(seen) > _MAX_PROGRAMS or len(a.equations) != len(b.equations):
            return False
        inside = list(zip(a.inner.items(), b.inner.items(), strict=False))
        if len(a.inner) != len(b.inner):
            return False
        known = {one: f"@{number}" for number, ((one, _), _) in enumerate(inside)}
        other = {one: f"@{number}" for number, (_, (one, _)) in enumerate(inside)}
        if (a.inputs, a.outputs, a.wires) != (b.inputs, b.outputs, b.wires):
            return False
        if any(
            _text(x, known) != _text(y, other)
            for x, y in zip(a.equations, b.equations, strict=True)
        ):
            return False
        for (_, x), (_, y) in inside:
            if (x, y) in seen:
                continue
            seen.add((x, y))
            left, right = listings.get(x), listings.get(y)
            if left is None or right is None:
                return False
            waiting.append((left, right))
    return True


def _text(equation: str, inside: Mapping[str, str]) -> str:
    for hash_, stand_in in inside.items():
        equation = equation.replace(f"@{hash_}", stand_in)
    return without_devices(equation)


def _values(values: Iterable[tuple[str, Value]]) -> Named:
    return tuple([(name, value._replace(token=None, classes=())) for name, value in values])


def _node(node: Node) -> Node:
    made = node.made and node.made._replace(number=1, file=None, line=None)
    return node._replace(meta=_values(node.meta), made=made)


def _function(function: Function) -> Function:
    receiver = function.receiver
    if receiver is not None:
        value = receiver.value and receiver.value._replace(token=None, classes=())
        receiver = receiver._replace(object=None, equal=None, value=value)
    return function._replace(
        object=0,
        base=0,
        closure=_values(function.closure),
        defaults=_values(function.defaults),
        bound=_values(function.bound),
        reads=_values(function.reads),
        receiver=receiver,
    )

"""Values from outside that functions read, then and now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from retrace.capture.kept import Static
from retrace.capture.snapshot import snapshot
from retrace.model import JSON, Function, Reading, Value

_TYPE = "$type"


def changed_in_place(reads: tuple[Reading, ...]) -> frozenset[str]:
    """What arrays hold now that are read and are another content than at the trace."""
    held = [
        new.data
        for _, old, new, *_ in reads
        if new is not None and old.type == new.type == "numpy.ndarray" and old.text == new.text
    ]
    return frozenset(
        [str(cast(dict[str, object], data).get("content")) for data in held if type(data) is dict]
    )


def changed_parts(read: Reading) -> list[str]:
    """The names of what has changed in a value: `config.rate` of `config`."""
    old, new = read.old, read.new
    if new is None or old.type != new.type:
        return [read.name]
    return list(_parts(read.name, old.data, new.data)) or [read.name]


def _parts(name: str, old: JSON, new: JSON) -> Iterator[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield name
        return
    before, after = cast(dict[str, JSON], old), cast(dict[str, JSON], new)
    if before.get(_TYPE) != after.get(_TYPE):
        yield name
        return
    for key in before | after:
        # `repr`, since 1 == 1.0 == True.
        if (key in before) != (key in after) or repr(before.get(key)) != repr(after.get(key)):
            yield from _parts(f"{name}.{key}", before.get(key), after.get(key))


def matters(reads: tuple[Reading, ...]) -> bool:
    """Whether any of the values is not one that its function writes itself."""
    return any(not reading.written for reading in reads)


def is_written(name: str, written: set[str]) -> bool:
    """Whether a function reads what it writes itself, or what contains that."""
    name = name.partition("[")[0]
    last = name.rpartition(".")[2]
    return any(
        place.startswith(f"{name}.")
        or name.startswith(f"{place}.")
        or place.rpartition(".")[2] == last
        for place in written
    )


def is_same(old: Value, new: Value) -> bool:
    """Whether a value that was read is as it was."""
    # Equality is not enough: 1 == 1.0 == True.
    return (old.type, old.token, old.text, repr(old.data)) == (
        new.type,
        new.token,
        new.text,
        repr(new.data),
    )


def is_read_in_part(name: str, now: dict[str, Value]) -> bool:
    """Whether something is not gone: an attribute that it has by now is read instead of it."""
    return any(one.startswith((f"{name}.", f"{name}[")) for one in now)


def changed_since(one: Static) -> Value | None:
    """The new value of a static argument; None if it is unchanged or gone."""
    if (given := one.object()) is None:
        return None
    now = snapshot(given, _no_token)
    if repr(now.data) == repr(one.value.data):
        return None
    return one.value._replace(data=now.data, text=now.text)


def _no_token(_: object) -> str | None:
    return None


def values_of(function: Function) -> dict[str, Value]:
    """The values that a function holds and reads, by name."""
    return dict((*function.closure, *function.defaults, *function.bound, *function.reads))

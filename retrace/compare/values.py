"""The difference between two values, field by field.

Values with the same fields are walked here. Only where fields or items came or went is
deepdiff loaded, which takes as long as a whole report.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, cast

from retrace.model import JSON, Value

Kind: TypeAlias = Literal["changed", "added", "removed"]
Place: TypeAlias = tuple[str | int, ...]
"""Names of fields, keys and indices, from the value inwards."""

_SMALL = 10_000
"""Characters of both values together, up to which they are compared in depth."""
_TYPE = "$type"


class Difference(NamedTuple):
    """One field in which two values differ."""

    path: str
    """As one would write it behind the value: `.lr`, `['lr']`, `[0]`; empty for all of it."""
    kind: Kind
    old: JSON
    """None where it was added."""
    new: JSON
    """None where it was removed."""


class _Found(NamedTuple):
    place: Place
    kind: Kind
    old: JSON
    new: JSON


def differences(old: Value, new: Value) -> tuple[Difference, ...]:
    """Where the plain contents of two values differ.

    Args:
        old: The value of the nearest earlier key.
        new: The value of the key that missed.

    Returns:
        One entry for each differing field, the public ones alone where one of them
        differs; none where the contents are equal, are not known as plain data, or
        are too large to be worth it.
    """
    a, b = old.data, new.data
    if a is None or b is None or _equal(a, b):
        return ()
    if old.type != new.type or not _alike(a, b):
        return (Difference("", "changed", a, b),)
    found = _walk(a, b, ())
    if found is None:
        if len(repr(a)) + len(repr(b)) > _SMALL:
            return ()
        found = _deep(a, b)
    # What a library keeps beside the fields of the user's is of no interest beside them.
    public = [one for one in found if not any(str(name).startswith("_") for name in one.place)]
    is_object = not _is_mapping(new)
    return tuple(
        Difference(_written(one.place, (a, b), is_object), one.kind, one.old, one.new)
        for one in public or found
    )


def _equal(a: JSON, b: JSON) -> bool:
    # `1 == True == 1.0`, yet JAX takes them for three values.
    return type(a) is type(b) and repr(a) == repr(b)


def _alike(a: JSON, b: JSON) -> bool:
    """Whether both are containers of one type, of which parts can be held against each other."""
    if type(a) not in (dict, list) or type(a) is not type(b):
        return False
    return _parts(a).get(_TYPE) == _parts(b).get(_TYPE)


def _walk(a: JSON, b: JSON, place: Place) -> list[_Found] | None:
    """The differences of two values with the same places; None where they have others."""
    if not _alike(a, b):
        return [] if _equal(a, b) else [_Found(place, "changed", a, b)]
    before, after = _parts(a), _parts(b)
    if before.keys() != after.keys():
        return None
    found: list[_Found] = []
    for name, part in before.items():
        within = _walk(part, after[name], (*place, name))
        if within is None:
            return None
        found += within
    return found


def _parts(value: JSON) -> dict[str | int, JSON]:
    """What lies in a value by name or index; nothing in what is no container."""
    if isinstance(value, dict):
        return cast(dict[str | int, JSON], value)
    return dict(enumerate(cast(list[JSON], value))) if isinstance(value, list) else {}


def _deep(a: JSON, b: JSON) -> list[_Found]:
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    # Without a threshold of 0, two dicts that share few keys come out as one change.
    tree: Any = DeepDiff(a, b, threshold_to_diff_deeper=0, view="tree")
    found: list[_Found] = []
    for levels in tree.values():
        for level in levels:
            place = tuple(level.path(output_format="list"))
            if level.t1 is notpresent:
                found.append(_Found(place, "added", None, level.t2))
            elif level.t2 is notpresent:
                found.append(_Found(place, "removed", level.t1, None))
            else:
                found.append(_Found(place, "changed", level.t1, level.t2))
    return sorted(found, key=lambda one: tuple(map(_ordered, one.place)))


def _ordered(name: str | int) -> tuple[int, str]:
    """Indices by number, names by letter."""
    return (name, "") if isinstance(name, int) else (-1, name)


def _is_mapping(value: Value) -> bool:
    """Whether the value is a dict, of which `data` does not tell an object at its top."""
    name = value.type.rpartition(".")[2]
    return value.text.startswith(("{", f"{name}({{"))


def _written(place: Place, sides: tuple[JSON, ...], is_object: bool) -> str:
    """A place as one would write it after the value."""
    text = ""
    for name in place:
        if isinstance(name, int):
            text += f"[{name}]"
        elif not is_object:
            text += f"[{name!r}]"
        else:
            text += name if name.startswith("[") else f".{name}"
        sides = tuple([_parts(side).get(name) for side in sides])
        is_object = any(_TYPE in _parts(side) for side in sides)
    return text

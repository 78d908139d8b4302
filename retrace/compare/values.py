"""The difference between two values, field by field.

Only aligned lists, which `show` asks for, need deepdiff. Loading it takes as long as a whole
report, because it imports optional packages such as pandas if they are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias, cast

from retrace.compare.deep import item_pairs
from retrace.model import JSON, Value
from retrace.model.row import Row
from retrace.regex import regex

Kind: TypeAlias = Literal["changed", "added", "removed"]
Place: TypeAlias = tuple[str | int, ...]
"""Names of fields, keys and indices, from the value inwards."""
Parts: TypeAlias = dict[str | int, JSON]
"""The parts of a value by name or index."""

_MAX_DEEP_CHARACTERS = 10_000
"""Maximum length of two values together whose lists are aligned."""
_TYPE = "$type"
_DIGEST = regex("[0-9a-f]{16}")


class Difference(Row):
    """One field in which two values differ."""

    path: str
    """As written after the value: `.lr`, `['lr']`, `[0]`; empty for the whole value."""
    kind: Kind
    old: JSON
    """None if it was added."""
    new: JSON
    """None if it was removed."""
    place: Place = ()
    """The path, name by name."""


def of_array(path: str, old: JSON, new: JSON) -> str:
    """The path of the NumPy array whose contents are another, else the path itself."""
    if all(isinstance(side, str) and _DIGEST.fullmatch(side) for side in (old, new)):
        return path.removesuffix("['content']").removesuffix(".content")
    return path


class _Found(Row):
    place: Place
    kind: Kind
    old: JSON
    new: JSON


def differences(old: Value, new: Value, *, aligned: bool = False) -> tuple[Difference, ...]:
    """Find where the plain contents of two values differ.

    Args:
        old: The value of the nearest earlier key.
        new: The value of the key that missed.
        aligned: whether to find inserted and removed items in lists of different
            lengths; otherwise such a list is one difference.

    Returns:
        One entry for each differing field, only public ones if any of them differs;
        empty if the contents are equal or not known as plain data.
    """
    a, b = old.data, new.data
    if a is None or b is None or _equal(a, b):
        return ()
    if old.type != new.type or not _alike(a, b):
        return (Difference("", "changed", a, b),)
    aligned = aligned and len(repr(a)) + len(repr(b)) <= _MAX_DEEP_CHARACTERS
    found = _walk(a, b, (), aligned=aligned)
    if aligned:
        found.sort(key=lambda one: tuple(map(_ordered, one.place)))
    found, a, b, is_object = _public(found, a, b, not _is_mapping(new))
    return tuple(
        Difference(_written(one.place, (a, b), is_object), one.kind, one.old, one.new, one.place)
        for one in found
    )


def places(value: Value, matches: Callable[[str], bool]) -> tuple[str, ...]:
    """Where a value holds a string that matches, written as after the value."""
    found = _held(value.data, (), matches)
    is_object = not _is_mapping(value)
    return tuple([_written(place, (value.data,), is_object) for place in found])


def leaves(data: JSON, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """The parts of a container that are none themselves, as text; none of any other value."""
    for name, part in _parts(data).items():
        if type(part) in (dict, list):
            yield from leaves(part, (*place, name))
        else:
            yield (*place, name), repr(part)


def _held(data: JSON, place: Place, matches: Callable[[str], bool]) -> list[Place]:
    if isinstance(data, str):
        return [place] if matches(data) else []
    if matches(str(_parts(data).get(_TYPE))):
        return [place]
    return [
        found
        for name, part in _parts(data).items()
        if name != _TYPE
        for found in _held(part, (*place, name), matches)
    ]


def _public(
    found: list[_Found], a: JSON, b: JSON, is_object: bool
) -> tuple[list[_Found], JSON, JSON, bool]:
    """Leave out a library's private fields if public ones differ.

    A library's mapping keeps its items in a private dict: return the differences of that dict.
    """
    public = [one for one in found if not one.place or not str(one.place[0]).startswith("_")]
    if public or not is_object:
        return public or found, a, b, is_object
    items = [one for one in found if len(one.place) > 1]
    roots = {one.place[0] for one in items}
    if len(roots) != 1:
        return found, a, b, is_object
    (root,) = roots
    before, after = _parts(a)[root], _parts(b)[root]
    if type(before) is not dict or _TYPE in _parts(cast(JSON, before)):
        return found, a, b, is_object
    within = [one._replace(place=one.place[1:]) for one in items]
    return within, cast(JSON, before), after, False


def _equal(a: JSON, b: JSON) -> bool:
    # `1 == True == 1.0`, but to JAX these are three different values.
    return type(a) is type(b) and repr(a) == repr(b)


def _alike(a: JSON, b: JSON) -> bool:
    """Whether both are containers of the same type, so that their parts can be compared."""
    if type(a) not in (dict, list) or type(a) is not type(b):
        return False
    return _parts(a).get(_TYPE) == _parts(b).get(_TYPE)


def _walk(a: JSON, b: JSON, place: Place, *, aligned: bool) -> list[_Found]:
    """The differences of two values, place by place."""
    before, after = _parts(a), _parts(b)
    if (types := _array_types(before, after)) is not None:
        return [_Found(place, "changed", *types)]
    # Names come and go one by one; without alignment, all items of a list shift.
    moved = len(before) != len(after) and 0 in {*before, *after}
    if (moved and not aligned) or not _alike(a, b):
        return [] if _equal(a, b) else [_Found(place, "changed", a, b)]
    found: list[_Found] = []
    for old, new in _pairs(before, after, aligned=aligned and isinstance(a, list)):
        if old is None:
            assert new is not None
            found.append(_Found((*place, new), "added", None, after[new]))
        elif new is None:
            found.append(_Found((*place, old), "removed", before[old], None))
        else:
            found += _walk(before[old], after[new], (*place, old), aligned=aligned)
    return found


def _array_types(a: Parts, b: Parts) -> tuple[JSON, JSON] | None:
    """The types of two NumPy arrays, if these differ: then their contents say nothing more."""
    if not a.keys() == b.keys() == _OF_ARRAY or a["array"] == b["array"]:
        return None
    types = a["array"], b["array"]
    return types if all(isinstance(one, str) and _ARRAY.fullmatch(one) for one in types) else None


_OF_ARRAY = {"array", "content"}
_ARRAY = regex(r"\w+\[[^\[\]]*\]")


def _pairs(
    before: Parts, after: Parts, *, aligned: bool
) -> Iterable[tuple[str | int | None, str | int | None]]:
    """The names of parts to compare; None where a side lacks the part."""
    if aligned:
        texts = ([repr(item) for item in side.values()] for side in (before, after))
        return item_pairs(*texts)
    names = dict.fromkeys((*before, *after))
    return [(n if n in before else None, n if n in after else None) for n in names]


def _parts(value: JSON) -> Parts:
    """The parts of a value by name or index; empty if it is not a container."""
    if isinstance(value, dict):
        return cast(Parts, value)
    return dict(enumerate(cast(list[JSON], value))) if isinstance(value, list) else {}


def _ordered(name: str | int) -> tuple[int, str]:
    """Sort indices by number, names alphabetically."""
    return (name, "") if isinstance(name, int) else (-1, name)


def _is_mapping(value: Value) -> bool:
    """Whether the value is a dict; at the top level, `data` looks the same for an object."""
    name = value.type.rpartition(".")[2]
    return value.text.startswith(("{", f"{name}({{"))


def _written(place: Place, sides: tuple[JSON, ...], is_object: bool) -> str:
    """A place as written after the value."""
    text = ""
    for name in place:
        if isinstance(name, int):
            text += f"[{name}]"
        elif name.startswith("["):
            text += name
        else:
            text += f".{name}" if is_object else f"[{name!r}]"
        sides = tuple([_parts(side).get(name) for side in sides])
        is_object = any(_TYPE in _parts(side) for side in sides)
    return text

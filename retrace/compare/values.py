"""The difference between two values, field by field.

Only `show` asks for it, for values already known to differ: it may load deepdiff,
which takes as long as a whole report.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from retrace.model import JSON, Value

_SMALL = 20_000
"""Characters of both values together, up to which they are compared in depth."""


class Difference(NamedTuple):
    """One field in which two values differ."""

    path: str
    """As one would write it after the value: `['lr']`, `[0]`; empty for the value itself."""
    kind: Literal["changed", "added", "removed"]
    old: JSON
    """None where it was added."""
    new: JSON
    """None where it was removed."""


def differences(old: Value, new: Value) -> tuple[Difference, ...]:
    """Where the plain contents of two values differ.

    Args:
        old: The value of the nearest earlier key.
        new: The value of the key that missed.

    Returns:
        One entry for each differing field, by path; none where the contents are equal,
        are not known as plain data, or are too large to be worth it.
    """
    a, b = old.data, new.data
    if a is None or b is None or _equal(a, b):
        return ()
    if type(a) is not type(b) or not _is_container(a):
        return (Difference("", "changed", a, b),)
    flat = _flat(a, b)
    if flat is not None:
        return flat
    if len(repr(a)) + len(repr(b)) > _SMALL:
        return ()
    return _deep(a, b)


def _is_container(value: JSON) -> bool:
    return isinstance(value, dict | list)


def _equal(a: JSON, b: JSON) -> bool:
    # `1 == True == 1.0`, yet JAX takes them for three values.
    return type(a) is type(b) and repr(a) == repr(b)


def _flat(a: JSON, b: JSON) -> tuple[Difference, ...] | None:
    """The differences of two containers of plain scalars with the same places, or None."""
    before, after = _places(a), _places(b)
    if before.keys() != after.keys():
        return None
    pairs = [(path, before[path], after[path]) for path in before]
    if any(_is_container(side) for _, *sides in pairs for side in sides):
        return None
    return tuple(Difference(path, "changed", x, y) for path, x, y in pairs if not _equal(x, y))


def _places(container: JSON) -> dict[str, JSON]:
    if isinstance(container, dict):
        fields = cast(dict[str, JSON], container)
        return {f"[{name!r}]": value for name, value in fields.items()}
    return {f"[{index}]": value for index, value in enumerate(cast(list[JSON], container))}


def _deep(a: JSON, b: JSON) -> tuple[Difference, ...]:
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    # Without a threshold of 0, two dicts that share few keys come out as one change.
    tree: Any = DeepDiff(a, b, threshold_to_diff_deeper=0, view="tree")
    found: list[Difference] = []
    for levels in tree.values():
        for level in levels:
            path = level.path(root="")
            if level.t1 is notpresent:
                found.append(Difference(path, "added", None, level.t2))
            elif level.t2 is notpresent:
                found.append(Difference(path, "removed", level.t1, None))
            else:
                found.append(Difference(path, "changed", level.t1, level.t2))
    return tuple(sorted(found, key=lambda difference: difference.path))

"""Parses what `jax_explain_cache_misses` logs below `TRACING CACHE MISS`.

The text itself is kept as JAX's words. Parsed are the function, whether JAX has seen that
function object before, and whether anything but array types differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from retrace.logs.message import starts
from retrace.model import Leaf
from retrace.store.sizes import sizes_of

MAX_LINES = 60
"""Maximum number of lines kept of one explanation; JAX lists every closest key."""


class Difference(NamedTuple):
    """One array whose type differs: `at x, now f32[3] and before f32[4]`."""

    path: str
    now: str
    before: str


class Words(NamedTuple):
    """One explanation."""

    name: str
    file: str | None
    line: int | None
    seen: bool
    """Whether JAX knew this function object; otherwise it says `never seen function`."""
    types_alone: bool
    """Whether only array types differ from the closest earlier key."""
    redefined: bool = False
    """Whether JAX has seen a different function object of this definition."""
    closest: tuple[tuple[Difference, ...], ...] = ()
    """The arrays that differ from each closest earlier key."""
    types: tuple[tuple[str, str], ...] = ()
    """All arrays by name, if this release lists them (0.6 to 0.8)."""
    static_in_tree: bool = False
    """Whether this release compares static arguments with the pytree (0.9, 0.10)."""
    text: str = ""


_NEVER = re.compile(r"^\s+(.+?) id=\d+(?: defined at (.+?)(?::(\d+))?)?\s*$", re.MULTILINE)
_NEVER_SEEN = "never seen function:"
_REDEFINED = "but seen another function defined on the same line"
_SEEN = re.compile(r"^  for (.+?)(?: defined at (.+?)(?::(\d+))?)?\s*$", re.MULTILINE)
_AT = re.compile(r"^\s*\* at (.+?), now (\S+) and before (\S+?)(?:https://\S*)?$", re.MULTILINE)
_KEY = re.compile(r"^  \* key with ", re.MULTILINE)
_TYPES_NOW = re.compile(r"^\s*types now: (.*)$", re.MULTILINE)
_ONE_TYPE = re.compile(r"(.+?): (\w+(?:<\w+>)?\[[^\]]*\]\S*?)(?:, |$)")
_SHORT = re.compile(r"(\w+?)(?:<\w+>)?\[([^\]]*)\](?:\{weak_type=(True|False)\})?(.*)")
_PREFIXES = {"f": "float", "i": "int", "u": "uint", "s": "int", "bf": "bfloat", "c": "complex"}


@lru_cache(maxsize=256)
def parse(text: str) -> Words | None:
    """Parse the lines below `TRACING CACHE MISS`; None for other text."""
    if starts(text):
        return None  # it contains another message
    known = _NEVER_SEEN not in text
    found = (_SEEN if known else _NEVER).search(text)
    if found is None or (found[2] and not found[3]) or _NEVER_SEEN in found[1]:
        return None  # torn
    file, line = found[2], int(found[3][:9]) if found[3] else None
    words = Words(found[1], file, line, known, False, text=text)
    if not known:
        return words._replace(redefined=_REDEFINED in text)
    by_key = [m.start() for m in _KEY.finditer(text)]
    static_in_tree = "tree_util.Static'>" in text
    if by_key:  # 0.6 to 0.8: all differences from every closest key
        parts = [text[a:b] for a, b in zip(by_key, [*by_key[1:], len(text)], strict=True)]
        of_types = [part.startswith("  * key with different input types") for part in parts]
        listed = _TYPES_NOW.search(text)
        return words._replace(
            types_alone=all(of_types),
            closest=tuple(_differences(part) for part in parts),
            types=tuple(_ONE_TYPE.findall(listed[1])) if listed else (),
        )
    of_types = re.search(r"^\s*different input types:", text, re.MULTILINE) is not None
    return words._replace(
        types_alone=of_types,
        closest=(_differences(text),) if of_types else (),
        static_in_tree=static_in_tree,
    )


def _differences(text: str) -> tuple[Difference, ...]:
    return tuple(Difference(*row) for row in _AT.findall(text))


def names_of(
    differences: Sequence[Difference], new: Sequence[Leaf], old: Sequence[Leaf]
) -> dict[int, str] | None:
    """The names of the arguments that differ, by position; None if the two do not agree.

    `Compiling` lists types without names, JAX's words name those that differ, both in order.
    """
    if len(new) != len(old):
        return None
    apart = [i for i, (a, b) in enumerate(zip(new, old, strict=True)) if a[1:4] != b[1:4]]
    if len(apart) != len(differences) or not apart:
        return None
    for at, one in zip(apart, differences, strict=True):
        if not (_has_type(one.now, new[at]) and _has_type(one.before, old[at])):
            return None
    return {at: one.path for at, one in zip(apart, differences, strict=True)}


def _has_type(short: str, leaf: Leaf) -> bool:
    """Whether a short type such as `f32[3,8]` is that of an argument."""
    found = _SHORT.fullmatch(short)
    if found is None or long_name(found[1]) != leaf.dtype:
        return False
    shape = tuple(sizes_of(re.sub(r"@[^,]*", "", found[2])))
    return shape == leaf.shape and found[3] in (None, str(leaf.weak_type))


def long_name(dtype: str) -> str:
    """Turn `f32` into `float32`."""
    found = re.fullmatch(r"([a-z]+?)(\d.*)", dtype)
    if found is None or found[1] not in _PREFIXES:
        return dtype
    rest = found[2]
    if found[1] == "f" and rest.startswith("8_"):
        return f"float{rest}"
    return f"{_PREFIXES[found[1]]}{rest}"

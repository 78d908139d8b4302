"""Parses the arguments of a program in `Compiling ... with global shapes and types`.

JAX lists only the arguments that the program uses, so a position here need not be the position
in the call.
"""

from __future__ import annotations

import re
from functools import lru_cache

from retrace.model import Leaf
from retrace.store.sizes import sizes_of

_ONE = re.compile(
    r"\w*Array\(([^\[\]()]*)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]((?:[^()]|\([^()]*\))*)\)"
)
_WEAK = re.compile(r"weak_type=True")
_SPACE = re.compile(r"<([\w ]+)>$")
_OPEN = ("UnspecifiedValue", "AUTO", "UNSPECIFIED", "None")
_MEMORIES = ("host", "device", "pinned_host", "unpinned_host")
_MAX_ARGUMENTS = 100_000
"""Maximum number of arguments of one program."""
_MAX_CACHED = 1 << 16
"""Results for longer texts are not cached: that would cost more than it saves."""


def leaves_of(types: str, mapping: str) -> tuple[Leaf, ...] | None:
    """The arguments in order, named `args[0]`, `args[1]` and so on; None if not readable.

    Args:
        types: the text after `types`: `(ShapedArray(float32[3]),)`.
        mapping: the text after `Argument mapping:`, one sharding for each argument.
    """
    if len(types) + len(mapping) > _MAX_CACHED:
        return _leaves(types, mapping)
    return _cached(types, mapping)


def _leaves(types: str, mapping: str) -> tuple[Leaf, ...] | None:
    places = (
        None if mapping.count("UnspecifiedValue") == types.count("Array(") else split(mapping)
    )
    found: list[Leaf] = []
    end = 1
    for match in _ONE.finditer(types):
        if types[end : match.start()].strip(" ,"):
            return None
        end = match.end()
        dtype, shape, rest = match[1], match[2], match[3]
        kind = None
        # `float32<host>` names a memory, `key<fry>` a type of its own.
        if (space := _SPACE.search(dtype)) and space[1] in _MEMORIES:
            dtype, kind = dtype[: space.start()], space[1]
        index = len(found)
        if index >= _MAX_ARGUMENTS:
            return None
        place = None
        if places is not None and index < len(places):
            place = None if places[index].startswith(_OPEN) else places[index]
        # Explicit shardings are part of the sizes: `float32[8@x,4]`.
        where, sizes = (f"{shape}", re.sub(r"@[^,]*", "", shape)) if "@" in shape else ("", shape)
        found.append(
            Leaf(
                path=f"args[{index}]",
                shape=tuple(sizes_of(sizes)),
                dtype=dtype,
                weak_type=_WEAK.search(rest) is not None,
                sharding=f"{where} {place or ''}".strip() or None if where else place,
                committed=place is not None,
                memory_kind=kind,
            )
        )
    if types[end:].strip(" ,)]"):
        return None
    return tuple(found)


_cached = lru_cache(maxsize=512)(_leaves)


def split(text: str) -> list[str]:
    """Split `(a, b(c, d), e)` at its outermost commas."""
    text = text.strip()
    if text[:1] in "([" and text[-1:] in ")]":
        text = text[1:-1]
    found: list[str] = []
    depth, start = 0, 0
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    found.append(text[start:].strip())
    return [part for part in found if part]

"""The difference between two sides of a change, in a few words for people."""

from __future__ import annotations

from retrace.compare.equality import same_content
from retrace.model import Leaf, Node, Value

UNEQUAL = "unequal by `==`"
EQUAL_FIELDS = f"equal field by field, {UNEQUAL}"
"""What is said of two values that only an equality of their own tells apart."""

_LONGEST = 60
_LEAD = 20


def array(leaf: Leaf) -> str:
    """An array as JAX writes its type: `float32[3,4]`, `weak int32[]`."""
    axes = ",".join(map(str, leaf.shape))
    return f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}[{axes}]"


def shape(old: tuple[int, ...], new: tuple[int, ...]) -> str:
    """Which axes changed, or the rank where that changed."""
    if len(old) != len(new):
        return f"rank {len(old)} -> {len(new)}"
    pairs = enumerate(zip(old, new, strict=True))
    return ", ".join(f"axis {axis}: {a} -> {b}" for axis, (a, b) in pairs if a != b)


def placed(old: Leaf, new: Leaf) -> str:
    """What of an array's placement changed."""
    said: list[str] = []
    if old.committed != new.committed:
        said.append("uncommitted -> committed" if new.committed else "committed -> uncommitted")
    # An open placement has neither memory kind nor layout: they follow with the sharding.
    settled = old.sharding is not None and new.sharding is not None
    for name in ("sharding", "memory_kind", "layout"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b and (settled or name == "sharding" or old.sharding == new.sharding):
            said.append(f"{name.replace('_', ' ')}: {a or 'open'} -> {b or 'open'}")
    return ", ".join(said)


def short(text: str) -> str:
    """A repr cut to what fits into a sentence."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def type_name(full: object) -> str:
    """A type's name as its user writes it: without the module that is being run."""
    return str(full).removeprefix("__main__.")


def value(old: Value | None, new: Value | None, absent: str = "absent") -> str:
    """From what to what a value changed, or why two that look the same count as two."""
    if old is None or new is None:
        sides = (absent if side is None else short(side.text) for side in (old, new))
        return " -> ".join(sides)
    type_ = type_name(new.type)
    if same_content(old, new):
        if old.token is None or new.token is None:
            return f"looks the same; whether this {type_} equals the earlier one cannot be told"
        if by_content(new) and not new.exact:
            return f"another {type_}, alike as far as it was recorded"
        if is_nan(new):
            return "a NaN is equal to itself alone, and this one is another object"
        if new.exact:
            return f"a new {type_}, {EQUAL_FIELDS}"
        return f"a new {type_} that looks the same, {UNEQUAL}"
    if old.text == new.text:
        if old.type != new.type:
            return f"{type_name(old.type)} {short(old.text)} -> {type_} {short(new.text)}"
        return f"another {type_}, printed alike: {short(new.text)}"
    return " -> ".join(_shortened(old.text, new.text))


def by_content(value: Value) -> bool:
    """Whether Python compares such values by what they print, so that a cut one may differ."""
    return value.type in ("str", "bytes", "int")


def is_nan(value: Value) -> bool:
    """Whether the value is no number."""
    return value.text == "nan" or value.text.endswith("(nan)")


def _shortened(old: str, new: str) -> tuple[str, str]:
    """Two texts cut to what fits into a sentence, and to where they differ."""
    if short(old) != short(new):
        return short(old), short(new)
    pairs = enumerate(zip(old, new, strict=False))
    common = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(0, common - _LEAD)
    return short(f"...{old[start:]}"), short(f"...{new[start:]}")


def is_none(node: Node) -> bool:
    """Whether the node is JAX's empty container for None."""
    return node.type in ("None", "NoneType")


def subtree(part: Node | Leaf | None) -> str:
    """A part of the arguments in a word or two."""
    if part is None:
        return "absent"
    if isinstance(part, Leaf):
        return array(part)
    return "None" if is_none(part) else f"{part.type} of {len(part.children)}"


def structure(old: Node | Leaf | None, new: Node | Leaf | None) -> str:
    """How the topmost differing node differs."""
    if isinstance(old, Node) and isinstance(new, Node) and old.type == new.type:
        if sorted(old.children) == sorted(new.children):
            return "the same children in another order"
        if all(label.startswith("['") for label in (*old.children, *new.children)):
            added = [label[1:-1] for label in new.children if label not in set(old.children)]
            removed = [label[1:-1] for label in old.children if label not in set(new.children)]
            said = [
                f"keys {verb}: {short(', '.join(keys))}"
                for verb, keys in (("added", added), ("removed", removed))
                if keys
            ]
            return "; ".join(said)
    return f"{subtree(old)} -> {subtree(new)}"

"""Words a change briefly: "axis 0: 32 -> 17", "weak -> strong"."""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never, cast

from retrace.compare.equality import remade, same_content, type_name
from retrace.compare.values import Difference, differences, of_array
from retrace.model import (
    JSON,
    Change,
    Class,
    CodeChange,
    Dim,
    DtypeChange,
    FieldChange,
    HeldChange,
    Leaf,
    NamedChange,
    Node,
    ObjectChange,
    PassingChange,
    ProgramChange,
    SettingChange,
    ShapeChange,
    ShardingChange,
    TreeChange,
    Value,
    ValueChange,
    WeakTypeChange,
    is_cut,
)
from retrace.model.parts import BY_COMPONENT
from retrace.reason.evidence import same_but_scope
from retrace.reason.fields import is_function
from retrace.regex import regex

_UNEQUAL = "but not equal (by `==` or `hash`)"
"""Said of two values that only their own equality distinguishes."""

_MAX_LENGTH = 60
_MAX_LEAD = 20
_MAX_WHOLE = 40
"""Maximum length of both sides of a value that is shown whole although it has fields."""
_MAX_FIELDS = 3
_ARRAY = regex(r"\w+(?:<\w+>)?\[[\d,]*\]")
_PLAIN_WORD = regex(r"(?!(?:True|False|None|nan|inf)$)[A-Za-z_][^\s,:]*|<.*>")


def detail(change: Change) -> str:
    """What changed; the path is shown next to it."""
    match change:
        case ShapeChange():
            return shape(change.old, change.new)
        case DtypeChange():
            return f"{change.old} -> {change.new}"
        case WeakTypeChange():
            return "weak -> strong" if change.old else "strong -> weak"
        case ShardingChange():
            return placed(change.old, change.new)
        case TreeChange():
            return structure(*[side[0] if side else None for side in (change.old, change.new)])
        case PassingChange():
            return f"{change.old} -> {change.new}"
        case ObjectChange():
            return _object(change)
        case CodeChange():
            if change.exact:
                return "the source was edited"
            return "the code object is unknown on one side"
        case ProgramChange():
            return _program(change)
        case SettingChange():
            sides = ("not set" if one is None else str(one) for one in (change.old, change.new))
            return " -> ".join(sides)
        case _:
            return _of_value(change)


def _of_value(
    change: ValueChange,
) -> str:
    old, new = change.old, change.new
    match change:
        case NamedChange():
            absent = BY_COMPONENT[change.component].absent
            if change.default is not None:
                absent += f" ({short(change.default)})"
            return value(old, new, "an array" if change.as_array else absent)
        case FieldChange():
            text = value(old, new)
            if change.name:
                # `info['step']: 1 -> 2`, and `rate: 0.1 -> 0.2`
                colon = "" if text.startswith((".", "[")) else ": "
                text = f"static field {change.name}{colon}{text}"
            return text
        case HeldChange():
            # JAX never compares captured values, so nothing is said about `==`.
            return value(old, new, unequal=_UNEQUAL if change.is_read else "another object")
        case _:
            assert_never(change)


def _object(change: ObjectChange) -> str:
    text = f"a new {change.new.kind.value} object"
    if change.old.wrappers != change.new.wrappers:
        text += f", made by {' of '.join(change.new.wrappers) or 'nothing'}"
    return text if change.body is None else f"the body `{change.body}`: {text}"


def _program(change: ProgramChange) -> str:
    old, new = change.old.equations, change.new.equations
    if old == new:
        return f"another program of {new:,} equations"
    return f"{old:,} -> {new:,} equations"


def array(leaf: Leaf) -> str:
    """An array as JAX writes its type: `float32[3,4]`, `weak int32[]`."""
    axes = ",".join(map(str, leaf.shape))
    return f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}[{axes}]"


@lru_cache(maxsize=4096)  # the leaves of a batch change together
def shape(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> str:
    """Which axes changed, or the rank if that changed."""
    if len(old) != len(new):
        return f"rank {len(old)} -> {len(new)}"
    pairs = enumerate(zip(old, new, strict=True))
    return ", ".join([f"axis {axis}: {_resized(a, b)}" for axis, (a, b) in pairs if a != b])


def _resized(old: Dim, new: Dim) -> str:
    if same_but_scope(old, new):
        return f"another symbolic `{str(new).partition('@')[0]}`, from its own scope"
    return " -> ".join([str(size).partition("@")[0] for size in (old, new)])


def placed(old: Leaf, new: Leaf) -> str:
    """What changed in an array's placement."""
    texts: list[str] = []
    if old.committed != new.committed:
        texts.append("uncommitted -> committed" if new.committed else "committed -> uncommitted")
    # An undecided placement has neither memory kind nor layout: they come with the sharding.
    settled = old.sharding is not None and new.sharding is not None
    for name in ("sharding", "memory_kind", "layout"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b and (settled or name == "sharding" or old.sharding == new.sharding):
            texts.append(f"{name.replace('_', ' ')}: {a or 'open'} -> {b or 'open'}")
    return ", ".join(texts)


def short(text: str, limit: int = _MAX_LENGTH) -> str:
    """A repr cut to what fits into a sentence."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def value(
    old: Value | None, new: Value | None, absent: str = "absent", unequal: str = _UNEQUAL
) -> str:
    """The old and the new value, or why two that look the same are different."""
    if old is None or new is None:
        sides = (absent if side is None else short(side.text) for side in (old, new))
        return " -> ".join(sides)
    if (known := remade(old, new)) is not None:
        text = another_class(known)
        return text if same_content(old, new) else f"{_value(old, new, unequal)}, of {text}"
    return _value(old, new, unequal)


def another_class(known: Class) -> str:
    """Which class differs from an earlier one with the same name."""
    text = f"another class `{known.name.rpartition('.')[2]}`"
    if known.number == 1:
        return f"{text}, the earlier one"
    # For a class inside a function the name tells where; for others, a line is easier to find.
    line = "" if known.line is None else f":{known.line}"
    place = "" if known.file is None else f" at {known.file.rpartition('/')[2]}{line}"
    return f"{text}, defined again{place}"


def _value(old: Value, new: Value, unequal: str) -> str:
    type_ = _short_type(new.type)
    if old.text == new.text and _is_unread_array(new):
        return f"another {new.text} array; its contents were not compared"
    if same_content(old, new):
        if old.token is None or new.token is None:
            return f"same contents; whether this {type_} equals the earlier one is unknown"
        if is_cut(new.data, new.text, exact=new.exact):
            return f"another {type_}, the same as far as it was recorded"
        if is_nan(new):
            return "NaN only equals itself, and this one is another object"
        if new.exact:
            return f"a new {type_}, equal field by field, {unequal}"
        return f"a new {type_} with the same contents, {unequal}"
    holds = isinstance(new.data, dict) and is_function(new.text)
    is_long = holds or len(old.text) + len(new.text) > _MAX_WHOLE
    if is_long and (text := fields(differences(old, new))):
        return text
    if old.text == new.text:
        if old.type != new.type:
            return f"{type_name(old.type)} {short(old.text)} -> {type_} {short(new.text)}"
        return f"another {type_} with the same repr: {short(new.text)}"
    return " -> ".join(_shortened(old.text, new.text))


def _short_type(full: str) -> str:
    """A type's name, without a private module, which says nothing."""
    *modules, name = type_name(full).split(".")
    return name if any(part.startswith("_") for part in modules) else ".".join([*modules, name])


def _is_unread_array(value: Value) -> bool:
    # For a NumPy array, the contents are in the data.
    return _ARRAY.fullmatch(value.text) is not None and not isinstance(value.data, dict)


def fields(found: tuple[Difference, ...]) -> str:
    """Which fields of a value changed, and how: `.lr: 0.1 -> 0.2, .depth: 2 -> 3`."""
    if not found or not found[0].path:
        return ""
    limit = _MAX_LENGTH // min(len(found), _MAX_FIELDS)
    texts = [_field(one, limit) for one in found[:_MAX_FIELDS]]
    if (more := len(found) - _MAX_FIELDS) > 0:
        texts.append(f"and {more:,} more field{'' if more == 1 else 's'}")
    return ", ".join(texts)


def _field(one: Difference, limit: int) -> str:
    # The end of a long path says most.
    path = one.path if len(one.path) <= _MAX_LENGTH else f"...{one.path[3 - _MAX_LENGTH :]}"
    if one.kind == "added":
        return f"{path} added: {short(_plain(one.new), limit)}"
    if one.kind == "removed":
        return f"{path} removed"
    if (array := of_array(path, one.old, one.new)) != path:
        return f"{array}: other contents"
    return f"{path}: {' -> '.join(_shortened(_plain(one.old), _plain(one.new), limit))}"


def _plain(value: JSON) -> str:
    """Plain contents as Python would write them."""
    if isinstance(value, str):
        return value if _PLAIN_WORD.fullmatch(value) else repr(value)
    if isinstance(value, list):
        items = list(map(_plain, cast(list[JSON], value)))
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        parts = cast(dict[str, JSON], value).copy()
        name = parts.pop("$type", None)
        if str(name).startswith("<"):
            return str(name)
        if name is None:
            inside = [f"{key!r}: {_plain(part)}" for key, part in parts.items()]
            return f"{{{', '.join(inside)}}}"
        inside = [f"{key}={_plain(part)}" for key, part in parts.items()]
        return f"{str(name).rpartition('.')[2]}({', '.join(inside)})"
    return repr(value)


def is_nan(value: Value) -> bool:
    """Whether the value is NaN."""
    return value.text == "nan" or value.text.endswith("(nan)")


def _shortened(old: str, new: str, limit: int = _MAX_LENGTH) -> tuple[str, str]:
    """Two texts, cut around where they differ to fit into a sentence."""
    if short(old, limit) != short(new, limit):
        return short(old, limit), short(new, limit)
    pairs = enumerate(zip(old, new, strict=False))
    common = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(0, common - min(_MAX_LEAD, limit // 3))
    return short(f"...{old[start:]}", limit), short(f"...{new[start:]}", limit)


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
    if isinstance(old, Node) and isinstance(new, Node) and old.made != new.made:
        if (known := new.made) is not None and old.made is not None:
            if known.name != old.made.name:
                return f"{type_name(old.made.name)} -> {type_name(known.name)}"
            texts = another_class(known)
            if old.children == new.children:
                return texts
            return f"{texts}, of {len(new.children)} in place of {len(old.children)}"
    elif isinstance(old, Node) and isinstance(new, Node) and old.type == new.type:
        if sorted(old.children) == sorted(new.children):
            return "the same children in another order"
        if all(label.startswith("['") for label in (*old.children, *new.children)):
            added = [label[1:-1] for label in new.children if label not in set(old.children)]
            removed = [label[1:-1] for label in old.children if label not in set(new.children)]
            texts = [
                f"keys {verb}: {short(', '.join(keys))}"
                for verb, keys in (("added", added), ("removed", removed))
                if keys
            ]
            return "; ".join(texts)
    return f"{subtree(old)} -> {subtree(new)}"

"""Compare two equations: do they really differ, or only in numbers?"""

from typing import NamedTuple

from retrace.model import Dim
from retrace.regex import regex
from retrace.store.sizes import SIZE, sizes_of

_SIZES = regex(r"\[([^\]]*)\]")
_NUMBER = regex(r"(?<![\w.])-?\d+(?![\w.])|#[0-9a-f]{12}")
"""A number, or what replaces it in a redacted recording."""
_SMALL_ARRAY = regex(r"(\w+\[[\d,]*\])=\(([^()]*)\)")
"""A small array captured by a program: `int32[1]=(32)`."""
_INNER = regex(r"@[0-9a-f]{32}")
_RULE = regex(r"<\w+ '[0-9a-f]{16}'>")
"""The rule of a `custom_jvp` or `custom_vjp`, with a hash of what it holds."""

CUSTOM_RULE = "custom_jvp"
"""Prefix of the primitives whose rules may capture an array (those of `custom_vjp` may not)."""
_VALUES = frozenset(
    (
        ("integer_pow", "y"),
        ("slice", "limit_indices"),
        ("slice", "start_indices"),
    )
)
"""Parameters that hold a number which could also be passed as an argument."""


class Relation(NamedTuple):
    """What differs between two equations of the same form."""

    dims: tuple[tuple[Dim, Dim], ...] = ()
    """Sizes of axes, old and new."""
    numbers: tuple[tuple[str, str], ...] = ()
    """Parameters that must follow a size; otherwise the equations differ."""
    constants: tuple[tuple[str, str], ...] = ()
    """Literals and captured constants, old and new."""
    inner: tuple[tuple[str, str], ...] = ()
    """Hashes of sub-programs, old and new."""
    trips: tuple[tuple[int, int] | None, ...] = ()
    """Trip counts of a JAX loop, old and new; None if unknown."""
    fixed: tuple[str, ...] = ()
    """Primitives that have such a constant as a parameter, where no array is possible."""
    types: tuple[str, ...] = ()
    """The types of literals that changed: `bf16[]`."""


SAME = Relation()


def relate(old: str, new: str) -> Relation | None:
    """What differs between two equations; None if their forms differ."""
    if old == new:
        return SAME
    a, b = old.split("\t"), new.split("\t")
    if len(a) != len(b) or len(a) < 3 or a[0] != b[0]:
        return None
    found = _Found()
    same = (
        _arguments(a[1].split(" "), b[1].split(" "), found)
        and _types(a[2], b[2], found)
        and all(_parameter(a[0], x, y, found) for x, y in zip(a[3:], b[3:], strict=True))
    )
    return found.relation() if same else None


def relate_types(old: str, new: str) -> Relation | None:
    """What differs between two types or two captured constants."""
    found = _Found()
    return found.relation() if _types(old, new, found) else None


def primitive(text: str) -> str:
    """The name of an equation's primitive."""
    return text.partition("\t")[0]


def inner(text: str) -> list[str]:
    """The hashes of an equation's sub-programs."""
    return [found[1:] for found in _INNER.findall(text)] if "@" in text else []


class _Found:
    def __init__(self) -> None:
        self.dims: list[tuple[Dim, Dim]] = []
        self.numbers: list[tuple[str, str]] = []
        self.constants: list[tuple[str, str]] = []
        self.inner: list[tuple[str, str]] = []
        self.trips: list[tuple[int, int] | None] = []
        self.fixed: list[str] = []
        self.types: list[str] = []

    def relation(self) -> Relation:
        return Relation(
            tuple(self.dims),
            tuple(self.numbers),
            tuple(self.constants),
            tuple(self.inner),
            tuple(self.trips),
            tuple(self.fixed),
            tuple(self.types),
        )


def _types(old: str, new: str, found: _Found) -> bool:
    if old == new:
        return True
    old_type, _, old_value = old.partition("=")
    new_type, _, new_value = new.partition("=")
    sizes = _SIZES.findall(old_type), _SIZES.findall(new_type)
    if _SIZES.sub("[]", old_type) != _SIZES.sub("[]", new_type):
        return False
    changed = False
    for before, after in zip(*sizes, strict=True):
        if before == after:
            continue
        x, y = sizes_of(before), sizes_of(after)
        if len(x) != len(y):
            return False
        found.dims += [_without_axis(p, q) for p, q in zip(x, y, strict=True) if p != q]
        changed = True
    # An array of another size has other contents as well.
    if old_value != new_value and not changed:
        found.constants.append((old, new))
    return True


def _arguments(old: list[str], new: list[str], found: _Found) -> bool:
    if len(old) != len(new):
        return False
    for a, b in zip(old, new, strict=True):
        if a == b:
            continue
        if a == "$" or b == "$":
            return False
        x, _, x_type = a.partition(":")
        y, _, y_type = b.partition(":")
        if not _types(x_type, y_type, found):
            return False
        if x != y:
            found.constants.append((x, y))
            found.types.append(y_type)
    return True


def _parameter(equation: str, old: str, new: str, found: _Found) -> bool:
    if old == new:
        return True
    name, _, a = old.partition("=")
    other, _, b = new.partition("=")
    if name != other:
        return False
    inside = _INNER.findall(a), _INNER.findall(b)
    if len(inside[0]) != len(inside[1]):
        return False
    found.inner += [(x[1:], y[1:]) for x, y in zip(*inside, strict=True) if x != y]
    a, b = _INNER.sub("@", a), _INNER.sub("@", b)
    if a == b:
        return True
    if equation.startswith(CUSTOM_RULE) and _RULE.sub("", a) == _RULE.sub("", b):
        # The rule may hold the constant that changed in the program, or anything else.
        found.fixed.append(equation)
        return True
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return _differ_only_in_sizes(a, b, found)
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    if (equation, name) == ("scan", "length"):
        # It is not a number in a redacted or damaged recording.
        known = SIZE.fullmatch(a) and SIZE.fullmatch(b)
        found.trips.append((int(a), int(b)) if known else None)
        return True
    changed = [(x, y) for x, y in pairs if x != y]
    if (equation, name) in _VALUES:
        found.constants += changed
        found.fixed.append(equation)
    else:
        found.numbers += changed
    return True


def _without_axis(old: Dim, new: Dim) -> tuple[Dim, Dim]:
    """`8@data` and `4@data`, sizes sharded over the same mesh axis, become 8 and 4."""
    a, _, axis = str(old).partition("@")
    b, _, other_axis = str(new).partition("@")
    if axis and axis == other_axis and SIZE.fullmatch(a) and SIZE.fullmatch(b):
        return int(a), int(b)
    return old, new


def _differ_only_in_sizes(old: str, new: str, found: _Found) -> bool:
    """Whether two tuples differ only in sizes, some of them symbolic."""
    if not (old[:1] == new[:1] == "(" and old[-1:] == new[-1:] == ")"):
        return False
    a, b = sizes_of(old[1:-1]), sizes_of(new[1:-1])
    return len(a) == len(b) and all(
        x == y or (x, y) in found.dims for x, y in zip(a, b, strict=True)
    )


def follows(old: str, new: str, dims: set[tuple[Dim, Dim]]) -> bool:
    """Whether a constant changed with the size of an axis, by the same ratio or amount.

    `jnp.array(x.shape)` is an array of such numbers.
    """
    before, after = _SMALL_ARRAY.fullmatch(old), _SMALL_ARRAY.fullmatch(new)
    if before and after and before[1] == after[1]:
        items = before[2].split(","), after[2].split(",")
        return all(a == b or _follows(a, b, dims) for a, b in zip(*items, strict=False))
    return _follows(old, new, dims)


def _follows(old: str, new: str, dims: set[tuple[Dim, Dim]]) -> bool:
    try:
        a, b = float(old), float(new)
    except ValueError:
        return False
    return any(
        _close(a * m, b * n) or _close(a * n, b * m) or b - a == m - n
        for n, m in dims
        if isinstance(n, int) and isinstance(m, int)
    )


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))

"""The constants in which two programs differ: their types, who made them, what compilers fold.

A compiler folds a constant with others, and an argument in its place rounds otherwise. Measured
on CPU: jax 0.6 and 0.10 make `(x * a) * b` one product, `(x + a) + b` one sum, and a division by
a number a product; jax 0.12 makes the sum of products with a constant one product; all releases
compute functions of constants and some powers of a constant in another way than those of an
argument. The last bits of results differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import isclose

from retrace.compare.equation import Relation, inner, primitive, relate
from retrace.compare.source_lines import Listings
from retrace.model import Frame, Listing
from retrace.model.row import Row

_FAMILIES = {"mul": "scale", "div": "scale", "add": "shift", "sub": "shift"}
_MAX_DEPTH = 40


class _Equation(Row):
    primitive: str
    arguments: tuple[str, ...]
    taken: tuple[int, ...]
    """The variables among its arguments."""

    @property
    def has_number(self) -> bool:
        """Whether one of its two operands is a number."""
        return len(self.taken) < len(self.arguments)


def folds(old: Listing, new: Listing, listings: Listings) -> bool:
    """Whether a compiler may fold a constant in which two programs of one form differ."""
    wired: dict[str, tuple[list[_Equation], dict[int, int], dict[int, list[int]]]] = {}
    for listing, at, _ in _differing(old, new, listings):
        if listing.id not in wired:
            wired[listing.id] = _wired(listing)
        if _is_folded(at, *wired[listing.id]) or _is_folded_inside(listing, at, listings):
            return True
    return False


def _is_folded_inside(listing: Listing, at: int, listings: Listings) -> bool:
    """Whether a program inside, which gets a number, computes with it what may round."""
    if (text := listing.equations[at]).partition("\t")[0] not in _CALLS:
        return False
    called = [listings.get(listing.inner.get(hash_, "")) for hash_ in inner(text)]
    return not called or any(
        one is None or not _EXACT.issuperset(map(primitive, one.equations)) for one in called
    )


_CALLS = ("pjit", "jit", "closed_call", "remat2", "checkpoint", "custom_jvp_call")
"""Equations with a program inside, for which a number is a constant all the same."""
_EXACT = frozenset(
    (
        *("abs", "and", "broadcast_in_dim", "clamp", "convert_element_type", "copy", "eq"),
        *("ge", "gt", "le", "lt", "max", "min", "ne", "neg", "not", "or", "reshape"),
        *("select_n", "sign", "squeeze", "stop_gradient", "transpose"),
    )
)
"""What does not round."""


def makers(old: Listing, new: Listing, listings: Listings) -> tuple[Frame, ...]:
    """The functions of installed packages that a constant, in which two programs differ, came by.

    Python computed it there, and may have compared it.
    """
    found: dict[Frame, None] = {}
    for listing, at, _ in _differing(old, new, listings):
        stack = listing.stacks[listing.places[at]] if listing.places else ()
        inside = tuple(takewhile(lambda frame: frame.in_library, stack))
        if inside and len(inside) < len(stack):
            found[inside[0]] = None
    return tuple(found)


def types(old: Listing, new: Listing, listings: Listings) -> frozenset[str]:
    """The types of the numbers in which two programs differ: `bf16[]`."""
    pairs = _differing(old, new, listings)
    return frozenset(type_ for _, _, found in pairs for type_ in found.types)


def _differing(
    old: Listing, new: Listing, listings: Listings, depth: int = 0
) -> Iterator[tuple[Listing, int, Relation]]:
    """The equations of two programs of one form that have another constant.

    Yields:
        The earlier program, or one inside it, the position of the equation, and what differs.
    """
    if len(old.equations) != len(new.equations) or depth > _MAX_DEPTH:
        return
    for at, (a, b) in enumerate(zip(old.equations, new.equations, strict=True)):
        if a == b or not (found := relate(a, b)):
            continue
        if found.constants:
            yield old, at, found
        for before, after in found.inner:
            one, other = (
                listings.get(side.inner.get(hash_, ""))
                for side, hash_ in ((old, before), (new, after))
            )
            if one is not None and other is not None:
                yield from _differing(one, other, listings, depth + 1)


def folds_number(listing: Listing, number: str) -> bool:
    """Whether a compiler may fold this number, wherever the program has it as a constant."""
    if _value(number) is None:
        return False
    wired = _wired(listing)
    return any(
        _is_same(argument.partition(":")[0], number) and _is_folded(at, *wired)
        for at, equation in enumerate(wired[0])
        for argument in equation.arguments
        if argument != "$"
    )


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_same(text: str, number: str) -> bool:
    """Whether two texts are one number, the first perhaps with 32 bits."""
    own, other = _value(text), _value(number)
    return own is not None and other is not None and isclose(own, other, rel_tol=1e-6)


def _wired(listing: Listing) -> tuple[list[_Equation], dict[int, int], dict[int, list[int]]]:
    """The equations, by which each variable is made, and which read it."""
    equations: list[_Equation] = []
    made_by: dict[int, int] = {}
    read_by: dict[int, list[int]] = {}
    wires, variables = iter(listing.wires), len(listing.inputs)
    for at, text in enumerate(listing.equations):
        name, arguments, results, *_ = f"{text}\t\t".split("\t", 3)
        given = tuple(arguments.split(" ")) if arguments else ()
        taken = tuple(next(wires, -1) for one in given if one == "$")
        equations.append(_Equation(name, given, taken))
        for wire in taken:
            read_by.setdefault(wire, []).append(at)
        for _ in results.split(" ") if results else ():
            made_by[variables] = at
            variables += 1
    return equations, made_by, read_by


def _is_constant(wire: int, equations: list[_Equation], made_by: dict[int, int]) -> bool:
    """Whether nothing that a program takes is in a variable: an `iota`, and what follows."""
    waiting, done = [wire], set[int]()
    while waiting:
        if (at := made_by.get(waiting.pop())) is None:
            return False
        if at not in done:
            done.add(at)
            waiting += equations[at].taken
    return True


def _is_folded(
    at: int, equations: list[_Equation], made_by: dict[int, int], read_by: dict[int, list[int]]
) -> bool:
    own = equations[at]
    if own.primitive == "pow":
        return True
    if all(_is_constant(wire, equations, made_by) for wire in own.taken):
        return True
    if own.primitive == "div" and own.arguments[-1] != "$":
        return True
    if (family := _FAMILIES.get(own.primitive)) is None:
        return False
    results = [variable for variable, maker in made_by.items() if maker == at]
    readers = [reader for variable in results for reader in read_by.get(variable, ())]
    if family == "scale" and any(equations[one].primitive == "reduce_sum" for one in readers):
        return True
    beside = [made_by[wire] for wire in own.taken if wire in made_by] + readers
    return any(
        equations[one].has_number and _FAMILIES.get(equations[one].primitive) == family
        for one in beside
    )

"""Which constants a compiler folds with others: an argument in their place rounds otherwise.

Measured on CPU: jax 0.6 and 0.10 make `(x * a) * b` one product, `(x + a) + b` one sum, and a
division by a number a product; all releases compute functions of constants and some powers of a
constant in another way than those of an argument. The last bits of results differ.
"""

from __future__ import annotations

from math import isclose

from retrace.compare.equation import relate
from retrace.compare.source_lines import Listings
from retrace.model import Listing
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


def folds(old: Listing, new: Listing, listings: Listings, depth: int = 0) -> bool:
    """Whether a compiler may fold a constant in which two programs of one form differ."""
    if len(old.equations) != len(new.equations) or depth > _MAX_DEPTH:
        return False
    pairs = enumerate(zip(old.equations, new.equations, strict=True))
    differing = [(at, found) for at, (a, b) in pairs if a != b and (found := relate(a, b))]
    if not differing:
        return False
    equations, made_by, read_by = _wired(old)
    for at, found in differing:
        if found.constants and _is_folded(at, equations, made_by, read_by):
            return True
        for before, after in found.inner:
            sides = [
                listings.get(one.inner.get(hash_, ""))
                for one, hash_ in ((old, before), (new, after))
            ]
            if (
                sides[0] is not None
                and sides[1] is not None
                and folds(sides[0], sides[1], listings, depth + 1)
            ):
                return True
    return False


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


def _is_folded(
    at: int, equations: list[_Equation], made_by: dict[int, int], read_by: dict[int, list[int]]
) -> bool:
    own = equations[at]
    if not own.taken or own.primitive == "pow":
        return True
    if own.primitive == "div" and own.arguments[-1] != "$":
        return True
    if (family := _FAMILIES.get(own.primitive)) is None:
        return False
    results = [variable for variable, maker in made_by.items() if maker == at]
    beside = [made_by[wire] for wire in own.taken if wire in made_by]
    beside += [reader for variable in results for reader in read_by.get(variable, ())]
    return any(
        equations[one].has_number and _FAMILIES.get(equations[one].primitive) == family
        for one in beside
    )

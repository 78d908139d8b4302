"""Whether a program would compute the same with a strongly typed input as with a weak one.

A Python number takes the dtype of what it is combined with; an array of the same dtype may give
the result its own. JAX converts the weak side before an operation is recorded, so the program
shows where that happened: only where a weak value, or a weak result of it, is converted.
"""

from __future__ import annotations

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import Listings
from retrace.model import Listing
from retrace.regex import regex

_BY_POSITION = frozenset(("pjit", "jit", "closed_call", "scan", "remat", "checkpoint"))
"""Equations whose arguments are the inputs of their one sub-program, one by one."""
_CONSTANTS = regex(r"\t(cond|body)_nconsts=([0-9]{1,6})(?=\t|$)")
_MAX_DEPTH = 40
_MAX_EQUATIONS = 20_000
_WIDER = {"i": ("f", "c"), "u": ("f", "c"), "f": ("c",)}
"""By kind of number, the other kinds to which an array of it is converted beside one of them."""
_DTYPE = regex(r"~?b?([a-z])([0-9]+)(?=\[)")


def computes_the_same(listing: Listing, position: int, listings: Listings) -> bool:
    r"""Whether a strongly typed input of the same dtype gives the same operations.

    Args:
        listing: a program, in which the input is weakly typed.
        position: that of the input among all inputs.
        listings: the programs in it, by id.

    Returns:
        False also if it cannot be told: a sub-program is unknown, or takes its inputs in another
        order.

    Example:
        >>> inputs, product = ("~f32[]", "f32[3]"), "mul\t$ $\tf32[3]"
        >>> program = Listing("1", "", 1, inputs, (), [product], [0, 1], [], (), ("$2",), {})
        >>> computes_the_same(program, 0, {})
        True
    """
    return _Walk(listings).is_same(listing, frozenset((position,)))


class _Walk:
    """Follows weak values through a program and its sub-programs."""

    def __init__(self, listings: Listings) -> None:
        self._listings = listings
        self._known: dict[tuple[str, frozenset[int]], bool] = {}
        self._left = _MAX_EQUATIONS

    def is_same(self, listing: Listing, weak: frozenset[int], depth: int = 0) -> bool:
        """Whether these inputs, weak here, could be strong."""
        key = listing.id, weak
        if key not in self._known:
            self._left -= len(listing.equations)
            self._known[key] = (
                depth < _MAX_DEPTH and self._left > 0 and self._follow(listing, weak, depth)
            )
        return self._known[key]

    def _follow(self, listing: Listing, inputs: frozenset[int], depth: int) -> bool:
        weak, types = set(inputs), list(listing.inputs)
        wires = iter(listing.wires)
        for text in listing.equations:
            _, arguments, results, *_ = f"{text}\t\t".split("\t", 3)
            taken = [
                next(wires, -1) if argument == "$" else -1 for argument in arguments.split(" ")
            ]
            at = [index for index, wire in enumerate(taken) if wire in weak]
            made = results.split(" ") if results else []
            if at:
                if not self._keeps(listing, text, [types[taken[i]] for i in at], at, depth):
                    return False
                first = len(types)
                weak |= {first + i for i, type_ in enumerate(made) if type_.startswith("~")}
            types += made
        return True

    def _keeps(
        self, listing: Listing, text: str, types: list[str], at: list[int], depth: int
    ) -> bool:
        """Whether an equation that takes weak values at these places does the same."""
        if primitive(text) == "convert_element_type":
            results = text.split("\t", 3)[2]
            return _is_converted_anyway(types[0], results)
        if "@" not in text:
            return True
        programs = [self._listings.get(listing.inner.get(one, "")) for one in inner(text)]
        places = _places(primitive(text), text, at, len(programs))
        if places is None or len(places) != len(programs):
            return False
        return all(
            program is not None
            and max(where, default=0) < len(program.inputs)
            and self.is_same(program, where, depth + 1)
            for program, where in zip(programs, places, strict=True)
        )


def _places(name: str, text: str, at: list[int], number: int) -> list[frozenset[int]] | None:
    """The inputs of each sub-program that an equation's arguments become; None if unknown."""
    if name in _BY_POSITION and number == 1:
        return [frozenset(at)]
    if name == "cond":  # the first argument chooses the branch
        return None if 0 in at else [frozenset(index - 1 for index in at)] * number
    constants = {which: int(count) for which, count in _CONSTANTS.findall(text)}
    if name != "while" or len(constants) != 2 or number != 2:
        return None
    cond, body = constants["cond"], constants["body"]
    of_cond = {i if i < cond else i - body for i in at if not cond <= i < cond + body}
    of_body = {i - cond for i in at if i >= cond}
    return [frozenset(of_cond), frozenset(of_body)]


def _is_converted_anyway(old: str, new: str) -> bool:
    """Whether an array of the old type is converted to the new one as well as a number is."""
    if old.lstrip("~") == new.lstrip("~"):
        return True
    before, after = _DTYPE.match(old), _DTYPE.match(new)
    if before is None or after is None:
        return False
    if before[1] == after[1]:
        return int(before[2]) < int(after[2])
    return after[1] in _WIDER.get(before[1], ())

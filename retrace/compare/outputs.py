"""What a program takes and returns: the types of its results, and its unused inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import Listings, place
from retrace.model import Frame, Listing
from retrace.model.row import Row
from retrace.regex import regex

_VARIABLE = regex(r"\$[0-9]{1,18}")
_HASH = regex(r"@[0-9a-f]{32}")
_CALLS = frozenset(("pjit", "jit"))
"""Equations whose arguments are the inputs of their one sub-program, one by one."""
_MAX_DEPTH = 40
_MAX_EQUATIONS = 100_000
"""Maximum number of equations compared; those of a sub-program count at each call."""


class Output(Row):
    """One result of a program."""

    type: str
    """`f32[3]`, with a leading `~` if it is weakly typed."""
    place: Frame | None
    """The line that computed it; None if it is an input, a literal, or unknown."""

    @property
    def is_weak(self) -> bool:
        """Whether its type came from a Python number."""
        return self.type.startswith("~")


def outputs(listing: Listing) -> tuple[Output, ...]:
    """The results of a program, in order."""
    made: list[tuple[str, int | None]] = [(type_, None) for type_ in listing.inputs]
    for index, text in enumerate(listing.equations):
        parts = text.split("\t", 3)
        types = parts[2].split(" ") if len(parts) > 2 else []
        made += [(type_, index) for type_ in types]
    found: list[Output] = []
    for text in listing.outputs:
        if _VARIABLE.fullmatch(text) and int(text[1:]) < len(made):
            type_, index = made[int(text[1:])]
            found.append(Output(type_, None if index is None else place(listing, index)))
        else:  # a literal: `2.0:f32[]`
            found.append(Output(text.rpartition(":")[2], None))
    return tuple(found)


def arithmetic(listing: Listing, listings: Listings) -> Counter[tuple[str, ...]] | None:
    """Count the operations of a program by primitive and types, ignoring weak types.

    Conversions are left out, and called sub-programs are inlined. None if a sub-program is
    unknown.
    """
    found: Counter[tuple[str, ...]] = Counter()
    waiting, done = [listing], 0
    while waiting:
        one = waiting.pop()
        done += len(one.equations)
        types, wires = list(one.inputs), iter(one.wires)
        for text in one.equations:
            name, arguments, results, *_ = f"{text}\t\t".split("\t", 3)
            taken = [_type(argument, types, wires) for argument in arguments.split(" ")]
            types += results.split(" ") if results else []
            for hash_ in inner(text):
                known = listings.get(one.inner.get(hash_, ""))
                if known is None or done > _MAX_EQUATIONS:
                    return None
                waiting.append(known)
            if name not in _CALLS and name != "convert_element_type":
                found[(name, results.replace("~", ""), *taken)] += 1
    return found


def _type(argument: str, types: list[str], wires: Iterator[int]) -> str:
    if argument != "$":
        return argument.rpartition(":")[2].replace("~", "")
    wire = next(wires, len(types))
    return types[wire].replace("~", "") if wire < len(types) else ""


def unused_inputs(listing: Listing, listings: Listings, depth: int = 0) -> frozenset[int]:
    """The positions of the inputs that no equation uses and that are not returned.

    An input passed on to a called function only counts as used if that function uses it.
    """
    used = {int(text[1:]) for text in listing.outputs if _VARIABLE.fullmatch(text)}
    position = 0
    for text in listing.equations:
        arguments = text.split("\t", 2)[1].split(" ")
        taken = arguments.count("$")
        wires = iter(listing.wires[position : position + taken])
        position += taken
        called = _called(listing, text, listings) if depth < _MAX_DEPTH else None
        idle = (
            unused_inputs(called, listings, depth + 1)
            if called is not None and len(called.inputs) == len(arguments)
            else frozenset[int]()
        )
        for index, argument in enumerate(arguments):
            if argument == "$" and (wire := next(wires, None)) is not None and index not in idle:
                used.add(wire)
    return frozenset(range(len(listing.inputs))) - used


def same_but_inputs(old: Listing, new: Listing, listings: Listings, depth: int = 0) -> bool:
    """Whether two programs do the same, ignoring the types of unused inputs."""
    if old.hash == new.hash:
        return True
    if (
        depth > _MAX_DEPTH
        or old.wires != new.wires
        or old.constants != new.constants
        or old.outputs != new.outputs
        or len(old.inputs) != len(new.inputs)
        or len(old.equations) != len(new.equations)
    ):
        return False
    for a, b in zip(old.equations, new.equations, strict=True):
        if a == b:
            continue
        before, after = _called(old, a, listings), _called(new, b, listings)
        if before is None or after is None or _HASH.sub("@", a) != _HASH.sub("@", b):
            return False
        if not same_but_inputs(before, after, listings, depth + 1):
            return False
    return True


def _called(listing: Listing, text: str, listings: Listings) -> Listing | None:
    """The single sub-program that an equation calls directly."""
    hashes = inner(text) if primitive(text) in _CALLS else []
    return listings.get(listing.inner.get(hashes[0], "")) if len(hashes) == 1 else None

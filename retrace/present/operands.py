"""Names the operands of an equation: an argument, or the primitive that computed it.

A recorded program has no variable names, because they are numbered anew with each trace; it only
says which variable is used where.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrace.model import Leaf, Listing, Miss


class Operands:
    """The operands of equations in a few programs.

    Args:
        inputs: the arguments; ignored if their number or ranks do not match the program's.
    """

    def __init__(self, inputs: Sequence[Leaf] = ()) -> None:
        self._inputs = inputs
        self._known: dict[int, tuple[Listing, list[int], list[str]]] = {}

    @classmethod
    def of(cls, miss: Miss) -> Operands:
        """For a miss, whose arguments are the inputs of its program."""
        return cls(miss.key.leaves)

    def names(self, listing: Listing, index: int) -> list[str]:
        """The operands of one equation."""
        starts, names = self._of(listing)
        _, arguments, *_ = listing.equations[index].split("\t")
        found: list[str] = []
        wire = starts[index]
        for text in arguments.split(" ") if arguments else ():
            if text != "$":
                found.append(text)
                continue
            # A damaged recording may lack some.
            variable = listing.wires[wire] if wire < len(listing.wires) else -1
            found.append(names[variable] if 0 <= variable < len(names) else "?")
            wire += 1
        return found

    def _of(self, listing: Listing) -> tuple[list[int], list[str]]:
        known = self._known.get(id(listing))
        if known is None:
            names = self._named(listing)
            starts: list[int] = []
            wire = 0
            for text in listing.equations:
                name, arguments, results = (*text.split("\t", 3), "", "")[:3]
                starts.append(wire)
                wire += arguments.split(" ").count("$")
                names += [name] * len(results.split(" "))
            known = self._known[id(listing)] = listing, starts, names
        return known[1:]

    def _named(self, listing: Listing) -> list[str]:
        captured = len(listing.constants)
        types = listing.inputs[captured:]
        paths = [f"input {number}" for number in range(1, len(types) + 1)]
        ranks = [len(leaf.shape) for leaf in self._inputs]
        if ranks == [_rank(type_) for type_ in types]:
            paths = [leaf.path or path for leaf, path in zip(self._inputs, paths, strict=True)]
        return ["captured array"] * captured + paths


def _rank(type_: str) -> int:
    """The rank of a type, such as 2 for `f32[8,3]`."""
    sizes = type_.rpartition("[")[2].rstrip("]")
    return len(sizes.split(",")) if sizes else 0

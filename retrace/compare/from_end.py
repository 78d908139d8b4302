"""Where `jnp` counts negative indices from the end: the size is in the program, nothing needs it.

f:bool[9] = lt e 0:i32[]
g:i32[9] = add e 9:i32[]
h:i32[9] = select_n f e g
"""

from __future__ import annotations

from retrace.compare.paired import arity
from retrace.model import Listing

_KEEPING = frozenset(
    (
        "add",
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "copy",
        "min",
        "mul",
        "reshape",
        "slice",
        "squeeze",
        "transpose",
    )
)
"""Operations whose results are not negative if none of what they take is."""
_COUNTING = frozenset(("argmax", "argmin", "iota"))


def indices_from_end(listing: Listing) -> dict[int, bool]:
    """The equations that add a size to indices, and whose result is used only where negative.

    Each with whether an index may be negative, for all that the equations before it show.
    """
    made, position = len(listing.inputs), 0
    negative: dict[int, int] = {}
    added: dict[int, tuple[int, int]] = {}
    used: set[int] = set()
    other: set[int] = {int(one[1:]) for one in listing.outputs if one.startswith("$")}
    natural: set[int] = set()
    for number, text in enumerate(listing.equations):
        taken, results = arity(text)
        wires = listing.wires[position : position + taken]
        position += taken
        primitive, _, rest = text.partition("\t")
        arguments = rest.partition("\t")[0]
        for wire in wires:
            if (known := added.get(wire)) is not None:
                by_sign = primitive == "select_n" and negative.get(wires[0]) == known[1]
                (used if by_sign and wires[1:] == [known[1], wire] else other).add(wire)
        if taken == 1 and primitive == "lt" and arguments.startswith("$ 0:"):
            negative[made] = wires[0]
        elif taken == 1 and primitive == "add":
            added[made] = number, wires[0]
        if primitive in _COUNTING or (
            primitive in _KEEPING and natural.issuperset(wires) and " -" not in f" {arguments}"
        ):
            natural.update(range(made, made + len(results)))
        made += len(results)
    return {added[wire][0]: added[wire][1] not in natural for wire in used - other}

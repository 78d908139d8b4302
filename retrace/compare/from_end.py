"""Where `jnp` counts negative indices from the end: the size is in the program, nothing needs it.

f:bool[9] = lt e 0:i32[]
g:i32[9] = add e 9:i32[]
h:i32[9] = select_n f e g
"""

from __future__ import annotations

from retrace.compare.axes import arity
from retrace.model import Listing


def is_index_from_end(listing: Listing, index: int) -> bool:
    """Whether an equation adds a size to indices, which are used so only where negative."""
    if listing.equations[index].partition("\t")[0] != "add":
        return False
    made, position = len(listing.inputs), 0
    negative: dict[int, int] = {}
    own = result = -1
    used = False
    for number, text in enumerate(listing.equations):
        taken, results = arity(text)
        wires = listing.wires[position : position + taken]
        position += taken
        primitive, arguments = text.split("\t", 2)[:2]
        if primitive == "lt" and taken == 1 and arguments.startswith("$ 0:"):
            negative[made] = wires[0]
        if number == index:
            if taken != 1:
                return False
            own, result = wires[0], made
        elif result in wires:
            chosen = primitive == "select_n" and wires[1:] == [own, result]
            if not chosen or negative.get(wires[0]) != own:
                return False
            used = True
        made += len(results)
    return used and f"${result}" not in listing.outputs

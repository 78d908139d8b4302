"""What became of each source line, whichever functions stand on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrace.model.slow import Kernel


def by_line(kernels: Iterable[Kernel]) -> list[Kernel]:
    """By line, the most expensive first: what a `lambda` on a line became is the line's, too."""
    found: dict[tuple[str, int], Kernel] = {}
    for one in kernels:
        at = one.file, one.line
        found[at] = _both(found[at], one) if at in found else one
    return sorted(found.values(), key=lambda one: (-one.seconds, -one.instructions))


def _both(one: Kernel, other: Kernel) -> Kernel:
    """By the name of the function around, which is the shorter."""
    operations = Counter(dict(one.operations))
    operations.update(dict(other.operations))
    most = max(len(one.operations), len(other.operations))
    return Kernel(
        one.file,
        one.line,
        min(one.function, other.function, key=len),
        one.instructions + other.instructions,
        one.kernels + other.kernels,
        one.seconds + other.seconds,
        tuple(operations.most_common(most)),
    )

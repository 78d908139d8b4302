"""What each source line was compiled to, whichever functions are on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrace.model.slow import Kernel


def by_line(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Merge kernels by line, most expensive first; a `lambda` counts for its line."""
    found: dict[tuple[str, int], Kernel] = {}
    for one in kernels:
        at = one.file, one.line
        found[at] = _merged(found[at], one) if at in found else one
    return sorted(found.values(), key=lambda one: (-one.seconds, -one.instructions))


def _merged(one: Kernel, other: Kernel) -> Kernel:
    """Merge two kernels under the shorter name, which is that of the outer function."""
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

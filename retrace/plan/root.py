"""Eager operations that have one cause."""

from __future__ import annotations

from typing import Literal, TypeAlias

from retrace.model import CallSite, Verdict
from retrace.model.advice import Advice, Sure
from retrace.model.record import Record

Line: TypeAlias = tuple[str, int]
"""A file and a line in it."""
Family: TypeAlias = Literal[
    "eager", "eager-sizes", "eager-callback", "eager-init", "eager-import", "eager-disabled"
]

_MIN_SAVED = 0.05
"""Seconds that must certainly be saved for a step to be worthwhile."""


class Root(Record):
    """Eager operations with one cause, in all processes."""

    family: Family
    site: CallSite
    verdicts: tuple[Verdict, ...]
    certain: tuple[Verdict, ...]
    """The misses that are certainly gone if the advice is followed."""
    advice: Advice | None = None
    function: str | None = None
    """The user's function that contains the lines; None for a single line or a library."""
    lines: int = 1
    """The number of the user's lines that run the operations."""
    loops: tuple[Line, ...] = ()
    """The Python loops inside the function that run them."""
    traced: bool = False
    """Whether one of the lines also runs inside a trace, where NumPy does not work."""
    only_jax: bool = False
    """Whether an operation is a loop or something else that NumPy does not have."""

    @property
    def worth(self) -> bool:
        """Whether the certain saving is large enough.

        While `jit` is disabled nothing shows what belongs to a jitted function, but there is
        nothing else to change either.
        """
        counted = self.verdicts if self.family == "eager-disabled" else self.certain
        return sum(verdict.miss.seconds for verdict in counted) >= _MIN_SAVED

    @property
    def sure(self) -> Sure:
        """How sure it is that the advice works as promised."""
        if self.advice is not None:
            return self.advice.sure
        return "likely" if self.family == "eager-sizes" and not self.only_jax else "ask"

"""What to do about a miss, as data: one class for each advice. The words are `present`'s.

Each class has the fields that its sentence needs, and no more; `code` is what other programs
know it by. What an advice rests on stands in `proof`: one that rests on nothing but what the
program means is asked, never told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

Sure: TypeAlias = Literal["clear", "likely", "ask"]


class Proof(StrEnum):
    """What shows that an advice removes the miss and leaves the results as they were."""

    PROGRAM = "program"
    """Both calls made the same program, so one entry can serve both."""
    CONSTANTS = "constants"
    """The programs differ in numbers alone, which an argument can bring."""
    UNUSED = "unused"
    """No equation takes what changed."""
    KEY = "key"
    """It is the one part of the key that changed; results are as before if it is done as said."""
    MEANING = "meaning"
    """Nothing: the results may become others. Only who wrote the program knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What all kinds of advice have."""

    code: ClassVar[str] = ""
    paths: tuple[str, ...] = ()
    """The arguments, values or settings that it is about."""
    proof: Proof = Proof.KEY
    others: tuple[tuple[str, str], ...] = ()
    """What it leaves to be done before the call is served: paths and what changed of them."""
    remade: str | None = None
    """The function whose object is new as well, so that it must be jitted once besides."""

    @property
    def sure(self) -> Sure:
        """How sure it is that following it does what is said."""
        if self.proof is Proof.MEANING:
            return "ask"
        return "likely" if self.proof is Proof.KEY else "clear"

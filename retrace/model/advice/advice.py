"""What to do about a miss, as data: one class for each kind of advice. `present` words it.

Each class has exactly the fields that its sentence needs; `code` identifies it to other programs.
`proof` tells what the advice is based on. Advice that depends on what the program means is
phrased as a question.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from retrace.model.record import Record

Sure: TypeAlias = Literal["clear", "likely", "ask"]

REUSED = "reused"
"""What `others` says of an object that is new and equal field by field: to be created once."""


class Proof(StrEnum):
    """What shows that the advice removes the miss and keeps the results unchanged."""

    PROGRAM = "program"
    """Both calls gave the same program, so one entry can serve both."""
    CONSTANTS = "constants"
    """The programs differ only in numbers, which can be passed as arguments."""
    UNUSED = "unused"
    """No equation uses what changed."""
    KEY = "key"
    """Only this part of the key changed; results stay the same if the advice is followed."""
    MEANING = "meaning"
    """Nothing: results may change. Only the author of the program knows."""


class Advice(Record):
    """What all kinds of advice have."""

    code: ClassVar[str] = ""
    paths: tuple[str, ...] = ()
    """The arguments, values or settings that it is about."""
    proof: Proof = Proof.KEY
    others: tuple[tuple[str, str], ...] = ()
    """What else must be fixed before the call is served: paths and which part of them changed, or
    `REUSED` for objects that are new and equal field by field."""
    passed_by: str = ""
    """The library's function, as `package:name`, that passes what it is about to another of its
    own."""
    jitted_by: str = ""
    """The package that jits the function and so decides what is static, if the advice needs
    that changed."""
    remade: str | None = None
    another: str = ""
    """The class of the objects that it is a method of, if each call has another one of which
    nothing is known."""
    """The function whose object is new as well, so that it must also be jitted once."""
    holding: tuple[str, ...] = ()
    """What that function holds that is not the same and can be passed."""
    calling: tuple[str, ...] = ()
    """The functions among what it holds that is not the same. JAX takes no function as an
    argument, and a static one that is new each time would miss as often."""
    reading: tuple[str, ...] = ()
    """What that function reads and that is not the same, as of its object: one jitted function
    would keep the first."""

    makers: tuple[str, ...] = ()
    """Functions of installed packages, as `package:name`, that put a number into the program, and
    functions with `nondiff_argnums`, as `:name`, that it may be given to."""
    promotes: bool = False
    """Whether what an optimizer's state is to hold in float32 meets arrays of 16 bits."""
    scheduled: tuple[str, ...] = ()
    """Those of the numbers that go into an optimizer's state which a schedule of it holds."""
    counted: tuple[str, ...] = ()
    """Numbers of steps that a schedule holds: optax compares them while it traces."""
    read_too: tuple[str, ...] = ()
    """What the function reads besides its arguments and that is not the same either: a program
    that served both calls would keep the first."""

    @property
    def sure(self) -> Sure:
        """How sure it is that following the advice works."""
        if self.proof is Proof.MEANING:
            return "ask"
        return "likely" if self.proof is Proof.KEY else "clear"

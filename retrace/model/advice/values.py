"""Advice on Python values in the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from retrace.model.advice.advice import Advice, Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOutValue(Advice):
    """Take values out of the key, if nothing reads them."""

    code = "leave-out"
    name: str
    in_tree: bool
    type: str | None = None
    """The class that compares by identity, and needs an equality too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseObject(Advice):
    """Make an object once and pass that."""

    code = "reuse-object"
    in_tree: bool = False
    package: str | None = None
    """The library that may make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneNaN(Advice):
    """Pass one NaN object."""

    code = "compare-by-value"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareByValue(Advice):
    """Pass one object, or let its class compare by value."""

    code = "compare-by-value"
    type: str
    held: tuple[str, ...] = ()
    """Functions that it holds, each equal to itself alone."""
    varies: bool = False
    """Whether another call passes one that holds something else."""
    package: str | None = None
    """The library that defines its class, so that the user cannot edit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassHeld(Advice):
    """A function that was made anew over something else: pass that."""

    code = "pass-held"
    held: tuple[str, ...] = ()
    """What it holds otherwise; nothing where that is not known."""
    alike: bool = False
    """Whether it is a part of a tree that looks the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneType(Advice):
    """Pass a static value as one type."""

    code = "one-static-type"
    type: str | None = None
    """None where any will do, as long as it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewValues(Advice):
    """Keep a static value to a few."""

    code = "few-values"
    proof: Proof = Proof.MEANING
    why: Literal["shapes", "program", "functions", "separate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInProgram(Advice):
    """Where a static value steers, let the program branch."""

    code = "branch-in-program"
    proof: Proof = Proof.MEANING


@dataclass(frozen=True, slots=True, kw_only=True)
class ToArray(Advice):
    """Pass a static value as an array, if no shape depends on it."""

    code = "static-to-dynamic"
    in_tree: bool = False
    mixed: bool = False
    """Whether another call did so already: then no shape can depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToArgument(Advice):
    """Pass what is but a constant of the program as an argument."""

    code = "static-to-dynamic"
    outside: tuple[str, ...] = ()
    """The objects that hold it."""
    function: str | None = None
    """The static function that holds it and should then be created once."""
    computed: bool = False
    """Whether the constants are not the value itself but what Python makes of it."""
    fixed: tuple[str, ...] = ()
    """Primitives that hold it where no array can stand, or in a rule (`custom_jvp_call`)."""
    one_type: bool = False
    """Whether calls passed it as several types, each of which would need a program."""
    unread: tuple[str, ...] = ()
    """What changed beside it, and is no constant of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOutside(Advice):
    """Print outside of the function what only a print depends on."""

    code = "print-outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopInProgram(Advice):
    """Roll a Python loop."""

    code = "loop-in-program"
    seen: bool
    one_type: bool = False
    """Whether calls passed the number as several types, each of which would need a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripsInProgram(Advice):
    """Let a loop of JAX's take how often it runs."""

    code = "trips-in-program"
    one_type: bool = False
    """Whether calls passed the number as several types, each of which would need a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDecision(Advice):
    """Pass what is decided by a value, not the value."""

    code = "pass-decision"
    name: str
    values: tuple[tuple[str, ...], ...]
    """By program."""
    constant: bool = False
    """Whether constants of the program follow the value as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectHyperparams(Advice):
    """Keep numbers of an optimizer in its state."""

    code = "inject-hyperparams"
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefineOnce(Advice):
    """Define a class once."""

    code = "define-once"
    classes: tuple[str, ...]

"""A generated program, and what its advice asks for, applied by machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from retrace.model.advice import Advice

Program: TypeAlias = Callable[[], Any]
"""Runs to its end and returns its results, a tree of arrays and plain values."""
Edit: TypeAlias = Callable[[Any], Program]
"""The program after an advice was followed, to the letter."""


@dataclass(slots=True)
class Case:
    """One program with the edits that advice on it could ask for."""

    name: str
    before: Program
    edits: Mapping[type[Advice], Edit] = field(default_factory=dict[type[Advice], Edit])
    never: tuple[type[Advice], ...] = ()
    """Advice that would be wrong here."""
    close: bool = False
    """Whether results may differ in their last digits: a sum in another order."""


Family: TypeAlias = Callable[[Random], Case]
FAMILIES: dict[str, Family] = {}


def family(make: Family) -> Family:
    """Register what makes programs of one kind."""
    FAMILIES[make.__name__] = make
    return make


def drawn(seed: int, name: str | None = None) -> Case:
    """The program of a seed, of the family of that name or, without one, of that of the seed."""
    rng = Random(seed)
    name = name or sorted(FAMILIES)[seed % len(FAMILIES)]
    case = FAMILIES[name](rng)
    case.name = f"{seed} {name}: {case.name}"
    return case

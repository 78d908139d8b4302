"""A generated program with the edits that its advice asks for, applied automatically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from retrace.model.advice import Advice

Program: TypeAlias = Callable[[], Any]
"""Runs to completion and returns its results, a tree of arrays and plain values."""
Edit: TypeAlias = Callable[[Any], Program]
"""The program after following the advice to the letter."""


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
    """Register a generator for one kind of program."""
    FAMILIES[make.__name__] = make
    return make


def drawn(seed: int, name: str | None = None) -> Case:
    """The program for a seed, from the named family or else from one chosen by the seed."""
    rng = Random(seed)
    name = name or sorted(FAMILIES)[seed % len(FAMILIES)]
    case = FAMILIES[name](rng)
    case.name = f"{seed} {name}: {case.name}"
    return case

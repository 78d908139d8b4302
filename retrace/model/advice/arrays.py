"""Advice on the arrays that are passed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from retrace.model.advice.advice import Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCallStyle(Advice):
    """Pass arguments one way."""

    code = "one-call-style"
    variadic: bool = False
    optional: bool = False
    """Whether some calls leave it out, and mean something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStructure(Advice):
    """Build the arguments one way."""

    code = "one-structure"
    way: Literal["omitted", "none", "nodes", "data", "program"]
    containers: tuple[str, str] | None = None
    """What it was and what it is (`list`, `tuple`), where these are of two types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKeyType(Advice):
    """Make random keys one way."""

    code = "one-key-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneScope(Advice):
    """Make symbolic sizes in one scope."""

    code = "one-scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOutArray(Advice):
    """Do not pass arrays that nothing uses."""

    code = "leave-out"
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherModel(Advice):
    """Parameters of another size need a program of their own."""

    code = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipEmpty(Advice):
    """Do not call with nothing."""

    code = "skip-empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class PadBatch(Advice):
    """Pad what is left at the end of a data set."""

    code = "pad-batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PadShape(Advice):
    """Pad arrays to one size or to a few."""

    code = "pad-shape"
    sizes: tuple[int, ...] = ()
    """Sizes that look chosen, each twice the one before."""
    kernels: bool = False
    """Whether they have the shape of weights, which are padded only if they are data."""
    square: tuple[str, ...] = ()
    """Those that are as wide as long: a covariance of another dimension is another problem."""
    ordered: tuple[str, ...] = ()
    """What the program does along the axis that depends on where rows stand: a loop, a sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRank(Advice):
    """Pass arrays with one number of axes."""

    code = "one-rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDtype(Advice):
    """Pass arrays of one dtype."""

    code = "cast-argument"
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastResult(Advice):
    """Give a result a dtype where it is made."""

    code = "cast-result"
    name: str
    dtype: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CastNumber(Advice):
    """Give a Python number the dtype of the array that other calls pass."""

    code = "cast-argument"
    types: tuple[tuple[str, bool], ...]
    """Dtypes, and whether of an array that has axes."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CastCarry(CastNumber):
    """The same at the start of what is passed on from call to call."""

    code = "cast-carry"


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerWithSharding(Advice):
    """Lower ahead of time for arrays that are placed as the call has them."""

    code = "lower-with-sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMesh(Advice):
    """Place arrays on one mesh."""

    code = "one-mesh"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSharding(Advice):
    """Keep arrays on one device."""

    code = "one-sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFirst(Advice):
    """Place arrays before the first call."""

    code = "place-first"

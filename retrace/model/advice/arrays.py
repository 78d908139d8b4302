"""Advice on the arrays that are passed, and how."""

from __future__ import annotations

from typing import Literal

from retrace.model.advice.advice import Advice


class OneCallStyle(Advice):
    """Pass arguments in one way."""

    code = "one-call-style"
    variadic: bool = False
    optional: bool = False
    """Whether omitting it means something else."""
    computed: bool = False
    """Whether Python computes with the default of what is omitted."""
    branches: bool = False
    """Whether the function does something else with the default."""
    folded: bool = False
    """Whether a compiler may fold the default with other constants."""
    typed: str = ""
    """The dtype of the number that other calls pass: a Python number is another key."""


class OneStructure(Advice):
    """Build the arguments with one structure."""

    code = "one-structure"
    way: Literal["omitted", "none", "nodes", "data", "program", "unknown"]
    """What differs: `program` if the program does with it, `unknown` if what else changed may be
    why."""
    containers: tuple[str, str] | None = None
    """The old and new container (`list`, `tuple`), if their types differ."""
    number: bool = False
    """Whether other calls pass a Python number, or what is weakly typed as one, in its place."""


class OneKeyType(Advice):
    """Create random keys in one way."""

    code = "one-key-type"


class OneScope(Advice):
    """Create symbolic sizes in one scope."""

    code = "one-scope"


class LeaveOutArray(Advice):
    """Do not pass arrays that nothing uses."""

    code = "leave-out"
    name: str


class AnotherModel(Advice):
    """Parameters of another size need their own program."""

    code = "nothing"


class SkipEmpty(Advice):
    """Skip calls with empty arrays."""

    code = "skip-empty"


class PadBatch(Advice):
    """Pad the last, smaller batch of a dataset."""

    code = "pad-batch"


class PadShape(Advice):
    """Pad arrays to one or a few sizes."""

    code = "pad-shape"
    sizes: tuple[int, ...] = ()
    """Sizes that look intended, each twice the previous one."""
    written: bool = False
    """Whether each size has its own equations, as where Python decides by the size."""
    kernels: bool = False
    """Whether they are shaped like weights, which are only padded if they are data."""
    square: tuple[str, ...] = ()
    """Square ones: a covariance of another dimension is another problem."""
    ordered: tuple[str, ...] = ()
    """What the program does along the axis that depends on row positions: a loop, a sort; empty
    if it computes with the size itself."""
    keys: tuple[str, ...] = ()
    """Those that hold typed PRNG keys, which NumPy cannot pad."""


class OneRank(Advice):
    """Pass arrays with the same number of axes."""

    code = "one-rank"
    start: str = ""
    """For a number that later calls pass as an array: the code that starts with such an array."""


class OneDtype(Advice):
    """Pass arrays of one dtype."""

    code = "cast-argument"
    dtypes: tuple[str, ...] = ()
    python: bool = False
    """Whether they are Python numbers in both calls: NumPy's are not weakly typed."""
    seen_with: tuple[str, ...] = ()
    """What is another in calls of the same function that passed integers only."""


class CastResult(Advice):
    """Give a result a dtype where it is created."""

    code = "cast-result"
    name: str
    dtype: str
    line: int | None
    package: str = ""
    """The installed package that the function belongs to, which the user cannot change."""


class CastNumber(Advice):
    """Give a Python number the dtype of the array that other calls pass."""

    code = "cast-argument"
    types: tuple[tuple[str, bool], ...]
    """Dtypes, and whether the array has axes."""
    each: tuple[tuple[str, str, bool], ...] = ()
    """The same of each array, after its path, if there are several."""
    name: str
    later: tuple[str, ...] = ()
    """Those of the paths that are weakly typed in this call, not in the earlier one."""
    returned: bool = False
    """Whether the function returned these weakly typed."""
    package: str = ""
    """The package whose function that is, if it is a library's."""


class CastCarry(CastNumber):
    """The same at the start, for a value that is carried from call to call."""

    code = "cast-carry"


class LowerWithSharding(Advice):
    """Lower ahead of time for arrays placed as in the call."""

    code = "lower-with-sharding"


class OneMesh(Advice):
    """Place arrays on one mesh."""

    code = "one-mesh"
    specs: bool = False
    """Whether calls split an array over its mesh in different ways, too."""
    split: bool = False
    """Whether an array is split over devices at some calls: sums run in another order then."""


class OneSharding(Advice):
    """Keep arrays on one device."""

    code = "one-sharding"


class PlaceFirst(Advice):
    """Place arrays at every call as at the others."""

    code = "place-first"
    later: bool = False
    """Whether the first call had them placed, and a later one has not."""
    always: bool = False
    """Whether calls before the earlier one had them placed, too."""
    split: bool = False
    """As in `OneMesh`."""

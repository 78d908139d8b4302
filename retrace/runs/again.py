"""Programs that were compiled more than once, by several processes or in several tests.

JAX's on-disk cache would have served every compilation but the first.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple

from retrace.model import Kind, Leaf, Listing, Miss, Run, Stage
from retrace.model import Program as _Hashed
from retrace.model.parts import CONTEXT, OPTIONS, Named
from retrace.runs.constants import Family, families, from_listings
from retrace.runs.form import Form, form
from retrace.runs.module import Modules
from retrace.runs.named import named

_MAX_PROGRAMS = 100_000
"""Maximum number of distinct programs; later ones are not counted."""
_COMPILED_WITH = frozenset({"compiler_options"})
"""Options of `jit` that show nowhere else, even if the lowering was recorded."""
_TRACED_WITH = frozenset(
    {
        "axis_env",
        "eager_constant_folding",
        "inline",
        "jax_numpy_dtype_promotion",
        "jax_numpy_rank_promotion",
    }
)
"""Options and settings that JAX only reads while tracing: their effect shows in the program. In
test suites, the cache served programs that differed only in these."""
MIN_STORED_SECONDS = 1.0
"""JAX stores compilations that took at least this many seconds, unless
`jax_persistent_cache_min_compile_time_secs` says otherwise."""

_TYPED = itemgetter(*map(Leaf._fields.index, ("shape", "dtype", "weak_type")))
_PLACED = itemgetter(*map(Leaf._fields.index, ("sharding", "memory_kind", "layout")))
_text = lru_cache(1 << 12)(repr)
"""Caches the texts of call arguments, which processes of a job share."""

_modules = Modules()
"""Shared by all reports of this process, because modules depend only on program contents."""


class Compiled(NamedTuple):
    """One compilation."""

    program: str
    """Equal for programs that XLA would be asked to compile in the same way."""
    name: str
    """The name of the function."""
    file: str | None
    line: int | None
    seconds: float
    alike: str = ""
    """Equal for programs that may differ only in constants; empty if not requested."""
    listing: str | None = None
    """The id of its text."""
    form: tuple[str, tuple[str, ...]] | None = None
    """The program taken apart, if its text is dropped together with the process."""
    values: tuple[tuple[str, float], ...] = ()
    """The numbers that its function was given or reads, by name."""


class Program:
    """The compilations of one program."""

    def __init__(self, one: Compiled) -> None:
        """`one` is the first of them; `add` counts it and all others."""
        self.name = one.name
        self.file = one.file
        self.line = one.line
        self.times = 0
        self.seconds = 0.0
        self.longest = 0.0
        self.first = one.seconds
        """Seconds of the compilation that would fill a cache for all others."""
        self.places: dict[str, None] = {}
        """The processes or tests that compiled it."""
        self.alike = one.alike
        self.listing = one.listing
        self.form = None if one.form is None else Form(*one.form)
        self.values = dict(one.values)

    def add(self, one: Compiled, place: str) -> None:
        """Count a compilation, by a process or in a test."""
        self.times += 1
        self.seconds += one.seconds
        self.longest = max(self.longest, one.seconds)
        self.places[place] = None

    @property
    def spared(self) -> float:
        """Seconds of all compilations but the first; reading from disk costs some of that."""
        return self.seconds - self.first

    @property
    def is_stored(self) -> bool:
        """Whether JAX stores it with the default configuration."""
        return self.longest >= MIN_STORED_SECONDS


class Again:
    """Adds up the compilations of several processes or tests by program."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}

    def add(self, compiled: Iterable[Compiled], place: str) -> None:
        """Add what one process or test compiled."""
        for one in compiled:
            program = self._programs.get(one.program)
            if program is None:
                if len(self._programs) >= _MAX_PROGRAMS:
                    continue
                program = self._programs[one.program] = Program(one)
            program.add(one, place)

    def programs(self, *, within: bool = False) -> list[Program]:
        """Programs that more than one place compiled, largest saving first.

        With `within`, also those that a single place compiled more than once.
        """
        found = [
            one
            for one in self._programs.values()
            if len(one.places) > 1 or (within and one.times > 1)
        ]
        return sorted(found, key=lambda one: -one.spared)

    def families(self, listings: Mapping[str, Listing]) -> list[Family]:
        """Programs that differ only in constants; `listings` holds the texts of programs."""
        return families(self._programs.values(), from_listings(listings))


def compiled(
    misses: Iterable[Miss], run: Run, listings: Mapping[str, Listing], *, apart: bool = False
) -> Iterator[Compiled]:
    """What a process compiled that its own or another's on-disk cache could have held.

    This leaves out programs that call back into Python, which JAX does not store, and those that
    captured device arrays, whose contents are unknown.

    Args:
        misses: the misses of the process.
        run: the process.
        listings: the texts of its programs.
        apart: take programs apart here; otherwise whoever has the texts does.
    """
    around = _SharedText(run)
    for miss in misses:
        seconds, program, cache = (
            miss.stages.get(Stage.COMPILE),
            miss.program,
            miss.persistent_cache,
        )
        if seconds is None or program is None or miss.raised is not None or miss.unseen:
            continue
        if program.callbacks or program.arrays or program.held:
            continue
        if cache is not None and cache.outcome == "hit":
            continue
        at = miss.call_site if miss.function.file is None else None
        text = None
        if apart and (listing := listings.get(program.listing or "")) is not None:
            text = form(listing, listings)
        yield Compiled(
            _identity(miss, _modules.of(program.hash, program.listing, listings), around),
            miss.function.name,
            miss.function.file if at is None else at.file,
            miss.function.line if at is None else at.line,
            seconds,
            _alike(miss, program, around),
            program.listing,
            None if text is None else (text.text, text.numbers),
            tuple(named(miss).items()),
        )


class _SharedText:
    """Text shared by many compilations of a process, built once."""

    def __init__(self, run: Run) -> None:
        backend = (run.jax, run.jaxlib, run.backend, run.local_devices, run.process_count)
        self.process = repr((backend, sorted(run.variables.items())))
        self._settings: dict[int, tuple[object, str]] = {}
        """By the id of a configuration, which is kept alive so that the id stays its own."""

    def settings(self, config: Named) -> str:
        """The parts of the configuration that a program may depend on besides its equations."""
        known = self._settings.get(id(config))
        if known is None:
            text = repr([(name, one.text) for name, one in config if name not in _TRACED_WITH])
            known = self._settings[id(config)] = config, text
        return known[1]


def _identity(miss: Miss, program: str, around: _SharedText) -> str:
    """What JAX's on-disk key is made from, as far as it was recorded."""
    key, lowered = miss.key, miss.lowered_with
    if lowered is not None:
        with_: tuple[object, ...] = (lowered,)
    else:
        # JAX hashes the name of the module and the paths of the results, too.
        results = miss.program and miss.program.results
        with_ = miss.function.jax_name, results, _text(tuple(map(_PLACED, key.leaves)))
    options = [
        (name, value.text)
        for row in OPTIONS
        for name, value in row.of(key)
        if (name not in _TRACED_WITH if lowered is None else name in _COMPILED_WITH)
    ]
    own = repr((with_, program, options))
    settings = "".join([around.settings(row.of(key)) for row in CONTEXT])
    text = f"{len(own)} {own}{around.process}{settings}"
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _alike(miss: Miss, program: _Hashed, around: _SharedText) -> str:
    """What programs that differ only in constants have in common, without their texts."""
    function, leaves = miss.function, miss.key.leaves
    if function.kind is Kind.OP:  # the user cannot add arguments to an operation
        return ""
    types = _text(tuple(map(_TYPED, leaves)))
    place = function.file, function.line, function.qualname
    return _identity(miss, repr((place, types, program.equations, miss.derived)), around)

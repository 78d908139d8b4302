"""Programs that were compiled more than once: in several processes, in several tests.

JAX's on-disk cache would have served all but the first compilation of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple

from retrace.model import Kind, Leaf, Listing, Miss, Run, Stage, Value
from retrace.model import Program as _Hashed
from retrace.runs.alone import Family, families, from_listings
from retrace.runs.form import Form, form
from retrace.runs.module import Modules
from retrace.runs.named import named

_MAX_PROGRAMS = 100_000
"""Maximum number of different programs; later ones are not counted."""
_NOT_ON_DISK = frozenset({"inline"})
"""Options of `jit` that are no part of what XLA is asked. Seen in suites, where the cache served
what these alone told apart."""
_COMPILED_WITH = frozenset({"compiler_options"})
"""Options of `jit` that nothing else shows if the lowering was recorded."""
_TRACED_WITH = frozenset(
    {
        "axis_env",
        "eager_constant_folding",
        "jax_numpy_dtype_promotion",
        "jax_numpy_rank_promotion",
    }
)
"""Settings that JAX looks at while it traces alone: what they change, the program shows."""
STORED_FROM = 1.0
"""Seconds from which on JAX stores a compilation, unless
`jax_persistent_cache_min_compile_time_secs` says otherwise."""

_TYPED = itemgetter(*map(Leaf._fields.index, ("shape", "dtype", "weak_type")))
_PLACED = itemgetter(*map(Leaf._fields.index, ("sharding", "memory_kind", "layout")))
_text = lru_cache(1 << 12)(repr)
"""Of the arrays of a call: processes of a job have the same."""

_modules = Modules()
"""For all reports of a process: what makes a module goes by the content of the program."""


class Compiled(NamedTuple):
    """One compilation."""

    program: str
    """Equal for programs for which XLA would be asked the same."""
    name: str
    """Of the function."""
    file: str | None
    line: int | None
    seconds: float
    alike: str = ""
    """Equal for programs that may differ in constants alone; empty where that is not asked."""
    listing: str | None = None
    """Under which its text is found."""
    form: tuple[str, tuple[str, ...]] | None = None
    """The program taken apart, where its text goes with the process."""
    values: tuple[tuple[str, float], ...] = ()
    """The numbers that its function was given or reads, by name."""


@dataclass(slots=True)
class Program:
    """The compilations of one program."""

    name: str
    file: str | None
    line: int | None
    times: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    first: float = 0.0
    """Seconds of the one that fills a cache for all others."""
    places: dict[str, None] = field(default_factory=dict[str, None])
    """The processes, or tests, that compiled it."""
    alike: str = ""
    listing: str | None = None
    form: Form | None = None
    values: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def spared(self) -> float:
        """Seconds of all compilations but the first; to read it from disk takes some."""
        return self.seconds - self.first

    @property
    def is_stored(self) -> bool:
        """Whether JAX stores it as it is configured where nobody has said otherwise."""
        return self.longest >= STORED_FROM


class Again:
    """The compilations of several processes or tests, added up by program."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}

    def add(self, compiled: Iterable[Compiled], place: str) -> None:
        """Take in what one process, or one test, has compiled."""
        for one in compiled:
            program = self._programs.get(one.program)
            if program is None:
                if len(self._programs) >= _MAX_PROGRAMS:
                    continue
                program = Program(one.name, one.file, one.line, first=one.seconds)
                program.alike, program.listing = one.alike, one.listing
                program.form = None if one.form is None else Form(*one.form)
                program.values = dict(one.values)
                self._programs[one.program] = program
            program.times += 1
            program.seconds += one.seconds
            program.longest = max(program.longest, one.seconds)
            program.places[place] = None

    def programs(self, *, within: bool = False) -> list[Program]:
        """Those that more than one place compiled; first what a cache would spare most of.

        With `within`, those as well that one place alone compiled more than once.
        """
        found = [
            one
            for one in self._programs.values()
            if len(one.places) > 1 or (within and one.times > 1)
        ]
        return sorted(found, key=lambda one: -one.spared)

    def families(self, listings: Mapping[str, Listing]) -> list[Family]:
        """Those that differ in constants alone; `listings` are the texts of programs."""
        return families(self._programs.values(), from_listings(listings))


def compiled(
    misses: Iterable[Miss], run: Run, listings: Mapping[str, Listing], *, apart: bool = False
) -> Iterator[Compiled]:
    """What a process compiled that its on-disk cache, or another's, could have held.

    Not programs that call back into Python, which JAX does not store; nor those that captured
    arrays on a device, of which it is not known whether they hold the same.

    Args:
        misses: those of the process.
        run: the process.
        listings: the texts of its programs.
        apart: take them apart here; otherwise that is left to who has the texts.
    """
    around = _Around(run)
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


class _Around:
    """What is the same for many compilations of a process, as text that is made once."""

    def __init__(self, run: Run) -> None:
        backend = (run.jax, run.jaxlib, run.backend, run.local_devices, run.process_count)
        self.process = repr((backend, sorted(run.variables.items())))
        self._settings: dict[int, tuple[object, str]] = {}
        """By the identity of a configuration, which is held, so that it stays its own."""

    def settings(self, config: tuple[tuple[str, Value], ...]) -> str:
        """What of the configuration a program may depend on besides its equations."""
        known = self._settings.get(id(config))
        if known is None:
            told = repr([(name, one.text) for name, one in config if name not in _TRACED_WITH])
            known = self._settings[id(config)] = config, told
        return known[1]


def _identity(miss: Miss, program: str, around: _Around) -> str:
    """What makes JAX's key on disk, as far as it was recorded."""
    key, lowered = miss.key, miss.lowered_with
    if lowered is not None:
        with_: tuple[object, ...] = (lowered,)
        options = [(name, value.text) for name, value in key.options if name in _COMPILED_WITH]
    else:
        # The name of the module is part of what JAX hashes, and so are the results' paths.
        results = miss.program and miss.program.results
        with_ = miss.function.jax_name, results, _text(tuple(map(_PLACED, key.leaves)))
        options = [(name, value.text) for name, value in key.options if name not in _NOT_ON_DISK]
    own = repr((with_, program, options))
    told = f"{len(own)} {own}{around.process}{around.settings(key.config)}"
    return blake2b(told.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _alike(miss: Miss, program: _Hashed, around: _Around) -> str:
    """What programs that differ in constants alone have in common, without their texts."""
    function, leaves = miss.function, miss.key.leaves
    if function.kind is Kind.OP:  # has no arguments that its user could add
        return ""
    types = _text(tuple(map(_TYPED, leaves)))
    place = function.file, function.line, function.qualname
    return _identity(miss, repr((place, types, program.equations, miss.derived)), around)

"""Where the seconds of one slow miss went, as far as that was observed (`retrace run --slow`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from retrace.model.program import Frame, Stack


class Part(StrEnum):
    """What a thread was doing below the user's innermost line when it was looked at."""

    PYTHON = "python"
    """Code outside JAX: the line's own Python, or a library's. That is no tracing."""
    EQUALITY = "equality"
    """A `__eq__` or `__hash__` that JAX called."""
    FLATTEN = "flatten"
    """Code of the user's that JAX called to take a pytree apart or to put it together."""
    COLLECTION = "garbage collection"
    """Python collecting garbage; the line is the one that it happened at."""
    PYTREES = "pytrees"
    SHAPES = "shapes"
    """The shapes and dtypes of results: JAX's abstract evaluation."""
    DIFFERENTIATION = "differentiation"
    TRANSPOSITION = "transposition"
    BATCHING = "batching"
    CONTROL_FLOW = "control flow"
    LOWERING = "lowering"
    CACHES = "caches"
    RECORDING = "recording"
    """retrace itself."""
    TRACING = "tracing"
    """The rest of JAX."""


class Sampled(NamedTuple):
    """One stack that the thread was seen at, of those inside the trace."""

    seconds: float
    part: Part
    stack: Stack
    """The innermost frame first; JAX's own frames are left out."""


class Loop(NamedTuple):
    """A Python loop that was seen to run."""

    frame: Frame
    """The line of its `for` or `while`."""
    end: int
    """Its last line."""


class Tracing(NamedTuple):
    """Samples of the stack of the thread that traced and lowered."""

    waited: float
    """Seconds before the first sample: only what lasts is sampled."""
    seconds: float
    """For how long it was sampled."""
    samples: int
    stacks: tuple[Sampled, ...]
    cut: float = 0.0
    """Of these, seconds of stacks that were too many to be kept apart."""
    collections: int = 0
    """How often Python collected all garbage meanwhile."""
    ended: bool = True
    """False where the process died amid it."""
    loops: tuple[Loop, ...] = ()
    """The Python loops around the user's lines that were seen."""


class Pass(NamedTuple):
    """A step of the compiler, without the steps inside it."""

    name: str
    seconds: float
    times: int
    kind: str
    """`pass` of the whole program, `code` generation, or `other`."""


class Kernel(NamedTuple):
    """What a source line became in the compiled program."""

    file: str
    line: int
    function: str
    instructions: int
    """Of the compiled program."""
    kernels: int
    """Pieces of code made for it."""
    seconds: float
    """Of the compiler's threads, for kernels that have seconds of their own."""
    operations: tuple[tuple[str, int], ...] = ()
    """The most frequent ones, each with how often: `sort`, `scatter`."""


class Compiling(NamedTuple):
    """What the compiler spent its time on."""

    passes: tuple[Pass, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    named: int = 0
    """Kernels in all, those without a source line included."""
    threads: float = 0.0
    """Seconds summed over the compiler's threads, which run in parallel."""
    unprofiled: str | None = None
    """Why there are no passes: `jax`, `program` profiles itself, `server`, `other`, `size`, or
    it looked `quick`."""
    beside: bool = False
    """Whether other threads compiled meanwhile, whose kernels may be among these."""


class Memory(NamedTuple):
    """What the executable takes, in bytes, as XLA says."""

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int


class Module(NamedTuple):
    """The StableHLO that XLA compiled, without the data of its constants."""

    packed: str = ""
    """Its text, compressed with zlib, in base 64."""
    size: int = 0
    """Of the text, in characters."""
    constants: int = 0
    """Constants whose content was left out; shape and dtype stand in the text."""
    partitions: int = 1
    replicas: int = 1
    options: tuple[tuple[str, str], ...] = ()
    """Compiler options that this program was compiled with."""
    unkept: str | None = None
    """Why there is no text: `size`, `room` (many were kept before), `data` that could not be
    left out, `redacted`."""


class Slow(NamedTuple):
    """All that was observed of one miss."""

    tracing: Tracing | None = None
    compiling: Compiling | None = None
    memory: Memory | None = None
    module: Module | None = None
    over: float = 0.0
    """A miss of at least this many seconds counted as slow; 0 if not recorded."""


class Tried(NamedTuple):
    """A program compiled alone, with some flags."""

    flags: str | None
    """None for those that it was recorded with."""
    seconds: tuple[float, ...]
    """Of each time that it was compiled."""
    processor: tuple[float, ...]
    """Seconds of processors: other programs disturb them less."""


class Cut(NamedTuple):
    """A part of a program that was compiled alone."""

    operations: int
    seconds: float
    """Of processors."""


class Halved(NamedTuple):
    """The smallest part of a program that stays slow."""

    whole: Cut
    part: Cut
    steps: tuple[Cut, ...]
    """All that was compiled on the way."""
    lines: tuple[tuple[str, int, int], ...]
    """Files, lines and their number of operations in the part."""
    kinds: tuple[tuple[str, int], ...]
    """Operations of StableHLO in the part, the most frequent first."""
    text: str
    """The part as a module."""


class Profiled(NamedTuple):
    """A program compiled alone under a profile."""

    seconds: float
    compiling: Compiling


class Anew(NamedTuple):
    """What was found out by compiling a recorded program again."""

    tried: tuple[Tried, ...] = ()
    halved: Halved | None = None
    reproducer: str | None = None
    """The file that was written."""
    stand_ins: int = 0
    """Constants of the program whose content was made up."""
    profiled: Profiled | None = None
    written_stand_ins: int = 0
    """Those of them in the file."""

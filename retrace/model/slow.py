"""Where the seconds of a slow miss went, as far as observed (`retrace run --slow`)."""

from enum import StrEnum

from retrace.model.program import Frame, Stack
from retrace.model.row import Row


class Part(StrEnum):
    """What a thread was doing below the user's innermost line when it was sampled."""

    PYTHON = "python"
    """Code outside JAX, on the line itself or in a library. This is not tracing."""
    EQUALITY = "equality"
    """A `__eq__` or `__hash__` that JAX called."""
    FLATTEN = "flatten"
    """User code that JAX called to flatten or unflatten a pytree."""
    COLLECTION = "garbage collection"
    """Python collecting garbage; the line is the one it happened on."""
    PYTREES = "pytrees"
    SHAPES = "shapes"
    """Shapes and dtypes of results: JAX's abstract evaluation."""
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


class Sampled(Row):
    """A stack of the thread while it was tracing."""

    seconds: float
    part: Part
    stack: Stack
    """Innermost frame first; JAX's own frames are left out."""


class Loop(Row):
    """A Python loop that was seen running."""

    frame: Frame
    """The line of its `for` or `while`."""
    end: int
    """Its last line."""


class Tracing(Row):
    """Samples of the stack of the thread that traced and lowered."""

    waited: float
    """Seconds before the first sample: short traces are not sampled."""
    seconds: float
    """For how long it was sampled."""
    samples: int
    stacks: tuple[Sampled, ...]
    cut: float = 0.0
    """The seconds among these for which there were too many stacks to keep apart."""
    collections: int = 0
    """The number of full garbage collections meanwhile."""
    ended: bool = True
    """False if the process died during the trace."""
    loops: tuple[Loop, ...] = ()
    """The Python loops seen around the user's lines."""


class Pass(Row):
    """A step of the compiler, excluding the steps inside it."""

    name: str
    seconds: float
    times: int
    kind: str
    """`pass` over the whole program, `code` generation, `tuning` (its candidates), or `other`."""


class Kernel(Row):
    """What a source line was compiled to."""

    file: str
    line: int
    function: str
    instructions: int
    """In the compiled program."""
    kernels: int
    """Pieces of code generated for it."""
    seconds: float
    """Seconds of the compiler's threads, for kernels that have their own timing."""
    operations: tuple[tuple[str, int], ...] = ()
    """The most frequent operations with their counts: `sort`, `scatter`."""


class Compiling(Row):
    """What the compiler spent its time on."""

    passes: tuple[Pass, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    named: int = 0
    """The total number of kernels, including those without a source line."""
    threads: float = 0.0
    """Seconds summed over the compiler's threads, which run in parallel."""
    unprofiled: str | None = None
    """Why there are no passes: `jax`, `program` (profiles itself), `server`, `other`, `size`, or
    `quick` (looked quick)."""
    beside: bool = False
    """Whether other threads compiled meanwhile, so that their kernels may be included."""


class Memory(Row):
    """The executable's memory in bytes, according to XLA."""

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int


class Module(Row):
    """The StableHLO that XLA compiled, without the data of its constants."""

    packed: str = ""
    """Its text, compressed with zlib, in base 64."""
    size: int = 0
    """Characters of the text."""
    constants: int = 0
    """The number of constants whose contents were left out; the text has shapes and dtypes."""
    partitions: int = 1
    replicas: int = 1
    options: tuple[tuple[str, str], ...] = ()
    """Compiler options that this program was compiled with."""
    unkept: str | None = None
    """Why there is no text: `size`, `room` (too many were kept), `data` that could not be left
    out, `redacted`."""
    platform: str = ""
    """What it was compiled for, `gpu` for example; empty in recordings of earlier versions."""
    device: str = ""
    """The kind of device."""


class Slow(Row):
    """Everything observed about one slow miss."""

    tracing: Tracing | None = None
    compiling: Compiling | None = None
    memory: Memory | None = None
    module: Module | None = None
    over: float = 0.0
    """A miss of at least this many seconds counted as slow; 0 if not recorded."""


class Tried(Row):
    """A program compiled alone with some flags."""

    flags: str | None
    """None for the recorded flags."""
    seconds: tuple[float, ...]
    """Seconds of each compilation."""
    processor: tuple[float, ...]
    """Processor seconds, which other programs disturb less."""


class Cut(Row):
    """A part of a program that was compiled alone."""

    operations: int
    seconds: float
    """Processor seconds."""


class Halved(Row):
    """The smallest part of a program that stays slow."""

    whole: Cut
    part: Cut
    steps: tuple[Cut, ...]
    """Everything compiled on the way."""
    lines: tuple[tuple[str, int, int], ...]
    """Files, lines and their number of operations in the part."""
    kinds: tuple[tuple[str, int], ...]
    """StableHLO operations in the part, most frequent first."""
    text: str
    """The part as a module."""


class Profiled(Row):
    """A program compiled alone under a profiler."""

    seconds: float
    compiling: Compiling


class Anew(Row):
    """What compiling a recorded program again showed."""

    tried: tuple[Tried, ...] = ()
    halved: Halved | None = None
    reproducer: str | None = None
    """The file that was written."""
    stand_ins: int = 0
    """Constants of the program whose contents were made up."""
    profiled: Profiled | None = None
    written_stand_ins: int = 0
    """Those of them that are in the file."""

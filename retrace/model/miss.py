"""What was observed: misses, and the processes they happened in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from retrace.model.audit import Audit
from retrace.model.function import CallSite, Function
from retrace.model.key import JSON, Key
from retrace.model.program import Listing, Program
from retrace.model.slow import Slow


class Stage(StrEnum):
    """A stage that JAX ran because a cache had no entry."""

    TRACE = "trace"
    LOWER = "lower"
    COMPILE = "compile"


class PersistentCache(NamedTuple):
    """What JAX's on-disk compilation cache did for one compilation."""

    outcome: Literal["hit", "miss", "not-stored", "off"]
    key: str | None = None
    reason: str | None = None
    ingredients: tuple[tuple[str, str], ...] = ()
    """The ingredients of the key, in order, each with the hash of everything up to it."""
    own: tuple[str, ...] = ()
    """The hash of each ingredient on its own; empty in recordings of older releases."""
    saved: float | None = None
    """For a hit: the compile seconds saved, minus the time to read it."""
    options: tuple[tuple[str, str], ...] = ()
    """The fields of the compile options; given once per process for each hash."""


@dataclass(slots=True)
class Miss:
    """A call that JAX could not serve from its caches, as observed."""

    id: str
    run: str
    number: int
    """Position in its process, from 0: the order in which misses began."""
    time: float
    """When the first stage began, in seconds since the epoch."""
    thread: str
    function: Function
    key: Key
    call_site: CallSite | None = None
    parent: str | None = None
    derived: str | None = None
    inner: int = 0
    nested: bool = False
    """Inside the trace of another function, where JAX's key has no placement."""
    callers: tuple[CallSite, ...] = ()
    """The user's lines that led to `call_site`, from its caller to the outermost. Empty for what
    ran inside another miss, or if not recorded."""
    entry: CallSite | None = None
    """For an eager operation: the user's line that called the library which ran it, if it is not
    `call_site`. Everything that ran under it has one remedy."""
    through: str | None = None
    """What that line called: `Module.init` of flax, by its qualified name and package."""
    via: str | None = None
    """The library function that the user's line called and that called JAX; what is jitted there
    is jitted by the library. For an eager operation only if it has a `through`."""
    within: Literal["callback", "import", "tree"] | None = None
    """What an eager operation ran in: a host callback, the import of a module, or a function
    called for each leaf of a tree."""
    picked: str | None = None
    """For an eager operation: what picked elements by their contents, so that the size of the
    result depends on data: a function of `jax.numpy` (`unique`), or `mask` for an index."""
    disabled: bool = False
    """For an eager operation: whether `jax_disable_jit` was on, with which jitted functions run
    one operation at a time."""
    lines: str | None = None
    """A hash of all lines on the stack outside JAX: equal for all iterations of a loop. For an
    eager operation also of JAX's own lines that led there from the innermost of them."""
    ahead: bool = False
    """Made ahead of time (`lower`, `trace`, `eval_shape`), not by a call."""
    new_object: bool = True
    """Whether the function object was seen here for the first time."""
    bodies: tuple[Function, ...] = ()
    """The functions given to an eager control-flow operation."""
    new_bodies: tuple[bool, ...] = ()
    settings: tuple[tuple[str, CallSite], ...] = ()
    """Where options of the configuration were set, if known."""
    unseen: tuple[str, ...] = ()
    """What this JAX did not show, in words. Nothing can be concluded about it."""
    epoch: int = 0
    """How often `jax.clear_caches()` had run."""
    function_epoch: int = 0
    """How often `f.clear_cache()` had run for this function object."""
    cold: bool = False
    """Whether a test marker cleared the function's caches since its last call."""
    stages: dict[Stage, float] = field(default_factory=dict[Stage, float])
    """Seconds of each stage that finished or raised, including nested stages."""
    began: dict[Stage, float] = field(default_factory=dict[Stage, float])
    """When each stage first began, in seconds since the epoch. Empty if not recorded."""
    in_flight: Stage | None = None
    """The stage that was running when the recording stopped."""
    since: float | None = None
    """When XLA began to compile it, in seconds since the epoch; None if not recorded."""
    raised: str | None = None
    persistent_cache: PersistentCache | None = None
    program: Program | None = None
    lowered_with: str | None = None
    """Digest of what else the program was lowered with: its name, donated arguments, and the
    placement of arguments and results. None if it was not lowered, or not recorded."""
    carried: str | None = None
    """Digest of the static data that its results carry, as fields of a dataclass do; None if they
    carry none, or not recorded."""
    said: tuple[tuple[str, str], ...] = ()
    """What JAX and XLA logged about it, verbatim: (`jax` or `xla`, text). From imported logs.
    Shown next to retrace's conclusions, and never used for them."""
    calls: int | None = None
    """How many calls its program served, including this one; None if they were not counted."""
    processes: int | None = None
    """The number of processes that own the devices its program runs on; None if only its own, or
    if not recorded."""
    slow: Slow | None = None
    """Where its seconds went; None if it was not slow, or if not recorded."""

    @property
    def seconds(self) -> float:
        """Total seconds of all its stages."""
        return sum(self.stages.values())


@dataclass(slots=True)
class Run:
    """A process that recorded."""

    id: str
    host: str
    pid: int
    process_index: int | None
    started: float
    argv: list[str]
    python: str
    jax: str
    jaxlib: str
    backend: str | None = None
    started_by: int | None = None
    """The process that started it; None for a forked one."""
    job: str | None = None
    """Its job, as named by the user or the scheduler."""
    attempt: int = 1
    """Which run in the directory it belongs to."""
    process_count: int | None = None
    """How many processes the job has; None if unknown."""
    forked_by: int | None = None
    """The process that it was forked from; None if it was started."""
    daemon_of: int | None = None
    """The process with which multiprocessing ends it, if it is the worker of a pool."""
    off_fast_path: tuple[str, ...] = ()
    """What keeps calls of a program off the fast path of this JAX: `effects`, `host-callbacks`.
    Empty if not recorded."""
    redaction: str | None = None
    """Identifies the key under which its values are hidden; None if they are not."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """The environment variables of JAX, XLA, libtpu and NCCL at the start."""
    settings: dict[str, JSON] = field(default_factory=dict[str, JSON])
    """`jax.config` for all threads when the first program was compiled; empty if not
    recorded."""
    commit: str | None = None
    """The git commit of the program; None outside git."""
    dirty: bool | None = None
    """Whether a tracked file differed from that commit; None if unknown."""
    local_devices: int | None = None
    """The number of its local devices."""
    device_kind: str | None = None
    """JAX's name for them: `TPU v4`."""
    platform_version: str | None = None
    """What the backend says about itself: the version of libtpu or CUDA."""
    slow_from: float | None = None
    """Seconds from which misses were observed as slow ones; None if that was not asked for."""
    source: Literal["program", "log"] = "program"
    """What it was made from: a recorded program, or the log of one."""
    raised: str | None = None
    """Type of the exception that ended the program; None if there was none, or if unknown."""
    complete: bool = False
    losses: dict[str, int] = field(default_factory=dict[str, int])
    """What could not be recorded or read, by reason."""

    @property
    def hidden_under(self) -> str | None:
        """Equal for processes whose hidden values can be compared; None if nothing is hidden."""
        if self.redaction is None and self.host == "<redacted>":
            return self.id  # older versions gave each process its own key
        return self.redaction

    @property
    def is_without_jax(self) -> bool:
        """Whether it is known never to have imported JAX: not if its first line is missing."""
        return bool(self.python) and not self.jax and not self.losses


@dataclass(slots=True)
class Recording:
    """What was read from one or more processes."""

    runs: list[Run]
    misses: list[Miss]
    listings: Mapping[str, Listing] = field(default_factory=dict[str, Listing])
    """The texts of the programs by id, read on demand."""
    audits: list[Audit] = field(default_factory=list[Audit])
    """The stale programs that each audit found."""

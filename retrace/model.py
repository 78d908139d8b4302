"""The nouns of retrace: what a miss of JAX's caches is, and what is said of it.

Everything here is plain data. The recording wing writes it, the store keeps it,
the reading wing explains it; nothing here imports jax or does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol, TypeAlias

from retrace.causes import Cause

JSON: TypeAlias = object
"""Whatever `json.loads` returns."""


Dim: TypeAlias = int | str
"""The size of an axis; a text for a symbolic one, as `jax.export` takes them: `2*n+1`."""


class Stage(StrEnum):
    """A stage that JAX ran because a cache had no entry."""

    TRACE = "trace"
    LOWER = "lower"
    COMPILE = "compile"


class Kind(StrEnum):
    """What the user wrote, or what was made of it, when it reached `jax.jit`."""

    DEF = "def"
    LAMBDA = "lambda"
    PARTIAL = "partial"
    TRANSFORM = "transform"
    METHOD = "method"
    CALLABLE = "callable"
    OP = "op"


class Class(NamedTuple):
    """A class of the user's, told from others of its name."""

    name: str
    """With its module: `train.State`."""
    number: int
    """Among the classes of this name that the process has had, from 1."""
    file: str | None = None
    """Where it was defined; looked for where it is not the first."""
    line: int | None = None


class Value(NamedTuple):
    """A bounded snapshot of a Python value that takes part in a cache key.

    `token` stands for JAX's own comparison: two values of one site have equal
    tokens if and only if JAX takes them as equal; None where neither plain data
    nor a weak reference can tell.
    """

    type: str
    text: str
    """Its repr, cut to a bounded length, without memory addresses."""
    token: str | None
    exact: bool
    """Whether `data` (or `text`, where there is no data) is the whole value."""
    data: JSON = None
    """Plain content for a comparison field by field; None where there is none."""
    classes: tuple[Class, ...] = ()
    """The classes in it that were defined again: not the first of their name."""


def is_cut(data: JSON, text: str, *, exact: bool) -> bool:
    """Whether a value was too large to be recorded whole, so that two may look the same."""
    if data is not None:  # of a function that held too much, only the name was kept
        return not exact and " ...>" in repr(data)
    # Of a redacted one the hash stands for all that had been recorded.
    return not exact and not text.startswith("<redacted ")


class Leaf(NamedTuple):
    """One array argument, as JAX's cache keys see it."""

    path: str
    shape: tuple[Dim, ...]
    dtype: str
    weak_type: bool
    sharding: str | None
    """Canonical text; None where JAX leaves the placement open (uncommitted, numpy, traced)."""
    committed: bool
    memory_kind: str | None
    layout: str | None = None


class Node(NamedTuple):
    """One container in the pytree of the dynamic arguments."""

    path: str
    type: str
    children: tuple[str, ...]
    """What to append to `path` for each child: "['x']", "[0]", ".count"."""
    meta: tuple[tuple[str, Value], ...] = ()
    """Static metadata by field name (`tx`, `apply_fn`)."""
    made: Class | None = None
    """Its class; None for those of Python and JAX."""


class Passing(StrEnum):
    """How a parameter got its value in a call."""

    POSITIONAL = "positional"
    KEYWORD = "keyword"
    OMITTED = "omitted"


class Receiver(NamedTuple):
    """The object behind a bound method or a callable instance."""

    type: str
    object: int | None
    """Number of the object in its process; None where it takes no weak reference."""
    equal: str | None
    """Equality token among the receivers of the site, as `Value.token`."""
    value: Value | None = None


class Function(NamedTuple):
    """A function object that was given to JAX, and the place its user wrote it."""

    name: str
    jax_name: str
    qualname: str
    kind: Kind
    file: str | None
    line: int | None
    site: str
    """Definition site: all function objects of one site share one history."""
    object: int
    """Number of this function object in its process; never reused, unlike `id()`."""
    code: str | None = None
    """Content hash of the user's code object."""
    closure: tuple[tuple[str, Value], ...] = ()
    defaults: tuple[tuple[str, Value], ...] = ()
    bound: tuple[tuple[str, Value], ...] = ()
    """What `functools.partial` bound, by parameter name."""
    wrappers: tuple[str, ...] = ()
    """What stands between `jax.jit` and the user's function, outermost first."""
    receiver: Receiver | None = None
    source: str | None = None
    """The user's source text, bounded; None where there is none."""
    in_library: bool = False
    """Written in an installed package: nothing there is the user's to change."""
    reads: tuple[tuple[str, Value], ...] = ()
    """What it would read from outside when it was traced, as it stood then: globals and
    attributes, by name. Part of no key, and bounded: what is not here may be read as well."""
    base: int = 0
    """Number of the user's own function object, where `object` is made around it."""
    decorators: tuple[str, ...] = ()
    """What made a wrapper by `functools.wraps` around it, outermost first."""
    around: tuple[str, ...] = ()
    """The names of the functions in its closure, whose sites are part of its own."""


class Key(NamedTuple):
    """JAX's cache key of one call, with the user's names in place of positions."""

    leaves: tuple[Leaf, ...] = ()
    tree: tuple[Node, ...] = ()
    static: tuple[tuple[str, Value], ...] = ()
    signature: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Value], ...] = ()
    config: tuple[tuple[str, Value], ...] = ()


class CallSite(NamedTuple):
    """The line that asked for the call."""

    file: str
    line: int
    function: str
    source: str | None
    in_library: bool
    """True where no frame of the user's own code was found."""


class PersistentCache(NamedTuple):
    """What JAX's on-disk compilation cache did for one compilation."""

    outcome: Literal["hit", "miss", "not-stored", "off"]
    key: str | None = None
    reason: str | None = None
    ingredients: tuple[tuple[str, str], ...] = ()
    """What JAX made the key of, in order, each with the hash of all so far."""


class Callback(NamedTuple):
    """A place where a program calls back into Python, and does so whenever it runs."""

    primitive: str
    """JAX's name for it: `debug_print`, `pure_callback`."""
    file: str | None
    """The user's line, else the library's; None where none was recorded."""
    line: int | None


class Program(NamedTuple):
    """A jaxpr, by its content."""

    hash: str
    equations: int
    """Those of its sub-programs included."""
    listing: str | None = None
    """Under which its text is kept in the recording."""
    arrays: tuple[int | None, ...] = ()
    """Numbers of the device arrays that it captured; None for one that cannot be known again."""
    held: tuple[int | None, ...] = ()
    """Numbers of what its custom rules hold and no hash could stand for, as `arrays`."""
    callbacks: tuple[Callback, ...] = ()
    """Where it calls back into Python, those of its sub-programs included; the first few."""


class Frame(NamedTuple):
    """A line that was running when an equation was traced."""

    file: str
    line: int
    function: str
    first_line: int
    """Of the function."""
    in_library: bool


Stack: TypeAlias = tuple[Frame, ...]
"""The innermost frame first, as far as the beginning of the program's own trace."""


class Listing(NamedTuple):
    """The text of a jaxpr, without names of variables.

    Variables are numbered in the order of their definition, the inputs first.
    """

    id: str
    """Of content and source lines."""
    hash: str
    """Of the content alone."""
    size: int
    """Equations, those of its sub-programs included, each time they occur."""
    inputs: tuple[str, ...]
    """Types, those of captured constants first."""
    constants: tuple[str, ...]
    equations: list[str]
    """`primitive`, arguments (`$` for a variable), result types and then each `name=parameter`,
    between tabs; `@HASH` stands for a sub-program."""
    wires: list[int]
    """The variables behind each `$`, in order."""
    places: list[int]
    """For each equation the index of its stack; empty where none were recorded."""
    stacks: tuple[Stack, ...]
    outputs: tuple[str, ...]
    """`$NUMBER` or a literal."""
    inner: dict[str, str]
    """The ids of its sub-programs, by their hash."""


@dataclass(slots=True)
class Miss:
    """One call that JAX could not serve from its caches, as it was observed."""

    id: str
    run: str
    number: int
    """Position in its process, from 0: the order in which misses began."""
    time: float
    """Seconds since the epoch, when the first stage began."""
    thread: str
    function: Function
    key: Key
    call_site: CallSite | None = None
    parent: str | None = None
    derived: str | None = None
    inner: int = 0
    nested: bool = False
    """Inside the trace of another function, where JAX's key has no placement."""
    entry: CallSite | None = None
    """Of an eager operation: the user's line that called into the library which ran it, where
    that is another line than `call_site`; all that ran under it has one remedy."""
    through: str | None = None
    """What that line called: `Module.init` of flax, by its qualified name and package."""
    within: Literal["callback", "import"] | None = None
    """What an eager operation ran in: a host callback, the import of a module."""
    lines: str | None = None
    """A hash of all lines on the stack outside JAX: equal in the rounds of one loop."""
    ahead: bool = False
    """Asked for ahead of time (`lower`, `trace`, `eval_shape`), not by a call."""
    new_object: bool = True
    """Whether the function object was seen here for the first time."""
    bodies: tuple[Function, ...] = ()
    """The functions that an eager control-flow operation was given."""
    new_bodies: tuple[bool, ...] = ()
    settings: tuple[tuple[str, CallSite], ...] = ()
    """Where the options of the configuration were set, of which that could be seen."""
    unseen: tuple[str, ...] = ()
    """What this JAX did not show of it, in words: of that nothing can be concluded."""
    epoch: int = 0
    """How often `jax.clear_caches()` had run."""
    function_epoch: int = 0
    """How often `f.clear_cache()` had run for this function object."""
    stages: dict[Stage, float] = field(default_factory=dict[Stage, float])
    """Seconds of each stage that ran to its end or raised, nested ones included."""
    in_flight: Stage | None = None
    """The stage that had begun and not ended when the recording stopped."""
    raised: str | None = None
    persistent_cache: PersistentCache | None = None
    program: Program | None = None

    @property
    def seconds(self) -> float:
        """Seconds of all its stages together."""
        return sum(self.stages.values())


@dataclass(slots=True)
class Run:
    """One process that recorded."""

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
    """The job that it is a process of, as it was named or the scheduler told."""
    attempt: int = 1
    """Which of the runs that the directory holds it belongs to."""
    process_count: int | None = None
    """How many processes the job has; None where nobody told."""
    forked_by: int | None = None
    """The process that it was forked from; None for one that was started."""
    off_fast_path: tuple[str, ...] = ()
    """What of a program keeps its calls off the fast path of this JAX: `effects`,
    `host-callbacks`. Empty where that was not told."""
    complete: bool = False
    losses: dict[str, int] = field(default_factory=dict[str, int])
    """What could not be recorded or read, by reason."""


@dataclass(slots=True)
class Recording:
    """What was read from one or several processes."""

    runs: list[Run]
    misses: list[Miss]
    listings: Mapping[str, Listing] = field(default_factory=dict[str, Listing])
    """The text of the programs, by id; read when it is asked for."""


class Component(StrEnum):
    """The part of a key, of a function or of its program in which a change lies."""

    SHAPE = "shape"
    DTYPE = "dtype"
    WEAK_TYPE = "weak_type"
    TREE = "tree"
    STATIC = "static"
    SIGNATURE = "signature"
    SHARDING = "sharding"
    CONFIG = "config"
    OPTIONS = "options"
    FUNCTION = "function"
    CLOSURE = "closure"
    DEFAULTS = "defaults"
    CODE = "code"
    PROGRAM = "program"


class Change(NamedTuple):
    """One difference between a miss and the nearest earlier key."""

    component: Component
    path: str | None
    detail: str
    """In words, for people: "axis 0: 32 -> 17", "equal field by field, unequal by `==`"."""
    old: JSON
    new: JSON
    exact: bool
    """False where `old` and `new` were compared by a token, not by their content."""


class Fix(NamedTuple):
    """Advice that was seen to remove the miss on the installed JAX."""

    code: str
    text: str


class Finding(NamedTuple):
    """What a miss shows about the calls after it."""

    code: Literal["slow-dispatch"]
    primitive: str
    file: str | None
    line: int | None


class Comparison(Protocol):
    """Two programs held against each other, when it is asked for."""

    @property
    def kind(self) -> str | None:
        """How they differ; None where that cannot be told."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is concluded of one miss. The wording is left to `present`."""

    miss: Miss
    cause: Cause
    nearest: Miss | None
    changes: tuple[Change, ...]
    program: Comparison | None = field(compare=False)
    """Its program against the nearest's; None where they are not comparable."""
    avoidable: Literal["yes", "no", "maybe"]
    fix: Fix | None
    detail: str | None = None
    """What the cause alone does not say: "an equal Filter that has died"."""
    pattern: str | None = None
    """The name of a pattern over the misses of one function: "compiles-twice"."""
    reads: tuple[Change, ...] = ()
    """What its function reads from outside and found changed, where its program is another
    one with nothing in its key to say why: evidence, and part of no key."""
    repeat: bool = False
    """Of one cause with an earlier miss, and not counted as a further first trace: the
    same call again after it raised, or another stage of what was traced before."""
    follows: str | None = None
    """The id of the miss whose cause it shares, its own key being an earlier one's: the call
    that a backward program belongs to, or the same call in another thread."""

    @property
    def program_change(self) -> str | None:
        """How its program differs from the nearest's: "shapes-only"."""
        return None if self.program is None else self.program.kind

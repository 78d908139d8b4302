"""Advice on the function object, its options and what it reads."""

from __future__ import annotations

from enum import StrEnum

from retrace.model.advice.advice import Advice


class What(StrEnum):
    """Which function object should be kept."""

    FUNCTION = "function"
    LAMBDA = "lambda"
    PARTIAL = "partial"
    TRANSFORMED = "transformed"
    WRAPPED = "wrapped"
    METHOD = "bound method"


class OfFunction(Advice):
    """Advice on the function object itself."""

    name: str
    what: What = What.FUNCTION
    mapped: bool = False
    """Whether it was given to `jax.pmap`: `jax.jit` in its place would not map its axis."""
    maker: str = ""
    """The library's function that made of it what is jitted, anew at each call."""
    by_type: bool = False
    """Whether it takes arrays as arguments and all else as static, numbers too."""
    dtype: str = ""
    """The dtype of the constants that become arguments, if `by_type`; "" if unknown."""
    each: tuple[str, ...] = ()
    """Functions that it closes over where other calls of its `def` close over others."""


class Library(Advice):
    """A library creates the function anew."""

    code = "library"
    name: str
    package: str
    holder: str = ""
    """The class of the object that a method is bound to, if the object changes each time."""
    maker: str = ""
    """The library's function that was running and creates the function at each call."""
    rejits: bool = False
    """Whether it is the method of one and the same object, which the library jits again."""
    wraps: bool = False
    """Whether the user's function stays and the library creates a wrapper around it."""
    is_body: bool = False
    """Whether it is the body of an eager loop or branch: a jitted function compiles that once."""


class LibraryPasses(Advice):
    """A library passes the function's arguments in several ways."""

    code = "library"
    name: str
    by: str
    package: str


class KeepTraced(OfFunction):
    """Keep a function that is traced without being called (`eval_shape`)."""

    code = "reuse-object"


class PassTraced(OfFunction):
    """The same for a function that holds other values each time: pass those."""

    code = "pass-held"
    is_array: bool = False


class JitOnce(OfFunction):
    """Jit the function once and call the result."""

    code = "jit-once"
    renames: bool = False
    """Whether it only returns its results under other names each time."""
    calls_back: bool = False
    """Whether its program calls back into Python, perhaps another function each time."""
    unread: tuple[str, ...] = ()
    """What it holds that differs each time, while its program is the same."""
    reads: tuple[str, ...] = ()
    """What it reads besides its arguments and may change: a kept function goes on with the
    first."""
    unknown: tuple[str, ...] = ()
    """What it reads of which not all was recorded, if its program is another one."""


class OwnCell(OfFunction):
    """Keep the function in its own notebook cell."""

    code = "own-cell"


class JitForEach(OfFunction):
    """Keep one jitted function for each object that it holds."""

    code = "jit-once"
    same: bool
    """Whether the objects look the same each time."""
    traced: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    """Other values that it holds and that should be passed."""
    reads: bool = False
    """Whether it also reads arrays that have no name here."""
    by_value: bool = False
    """Whether these are values: for each of them the program is its own."""
    injects: bool = False
    """Whether it belongs to an optax optimizer, whose state can hold what differs instead."""
    unexplained: bool = False
    """Whether its program is another one although nothing recorded of what it holds is."""
    computed: bool = False
    """As in `JitAndPass`."""

    @property
    def inside(self) -> bool:
        """Whether all that differs is held by these objects: `solver.update.b1` by `solver`.

        One function for each of them would be one for each value. As an argument of the function,
        it must get into the object there.
        """
        starts = tuple([f"{path}{mark}" for path in self.paths for mark in ".["])
        others = self.same or self.reads or self.injects or self.static or not self.traced
        return not others and all(path.startswith(starts) for path in self.traced)


class JitAndPass(OfFunction):
    """Jit the function once and pass what it holds."""

    code = "jit-once-pass-arguments"
    traced: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Static values that were lists: JAX refuses what has no hash."""
    reads: bool = False
    """Whether it also reads arrays that have no name here."""
    resized: bool = False
    """Whether the arrays have other sizes, each of which needs its own program as well."""
    picks: tuple[str, ...] = ()
    """Arrays of bools among them: as an index they need a known number of true ones."""
    computed: bool = False
    """Whether Python computes with values that should be traced."""
    numbers: bool = False
    """Whether it contains numbers, which an `if` could test."""
    folded: bool = False
    """As in `ToArgument`."""
    bound: bool = False
    """Whether a partial binds it, not a closure."""
    jitted: bool = False
    """Whether that is a partial of a function that is jitted already."""
    one_type: tuple[str, ...] = ()
    """Values passed as several types, each of which would need its own program."""
    inject: tuple[str, ...] = ()
    """Optax optimizers that it holds, whose state can hold their numbers instead."""
    functions: tuple[str, ...] = ()
    """Functions that it holds and that are created again as well, from the same code."""
    unexplained: bool = False
    """Whether its program is another one although nothing recorded of what it holds is."""
    always_new: tuple[str, ...] = ()
    """Those of the static values that no two calls have in common."""


class OneReceiver(Advice):
    """Keep one object, and pass what differs between several."""

    code = "one-receiver"
    name: str
    type: str
    is_method: bool


class KeepBound(Advice):
    """Keep the jitted instance or bound method."""

    code = "jit-once"
    name: str
    is_method: bool
    reads: tuple[str, ...] = ()
    """What it reads besides its arguments and may change: a kept function goes on with the
    first."""
    mapped: bool = False
    """As in `OfFunction`."""


class OneOption(Advice):
    """Jit with a single setting of some options."""

    code = "jit-once"
    name: str


class OneConfig(Advice):
    """Call with a single setting of JAX's configuration."""

    code = "one-config"
    in_thread: bool = False
    """Whether the setting does not reach another thread."""
    defined_later: bool = False
    """Whether JAX had no such setting before: a module that was imported since defines it."""


class FewMapped(Advice):
    """Map over few sizes of a named axis."""

    code = "few-mapped-sizes"
    name: str
    axes: tuple[str, ...]
    """The mapped axes whose sizes changed."""


class KeepCaches(Advice):
    """Do not clear caches."""

    code = "keep-caches"
    calls_back: bool = False
    """Whether the program calls back into Python, and so keeps what its first trace gave it."""


class PassState(Advice):
    """Pass what a function reads from outside."""

    code = "pass-state"
    name: str
    static: bool = False


class KeepMethod(Advice):
    """Keep the bound method that is the body of an eager loop."""

    code = "keep-method"
    name: str
    reads: tuple[str, ...] = ()
    """What it reads besides its arguments and may change: a kept function goes on with the
    first."""


class DefineBodyOnce(Advice):
    """Jit around an eager loop, or define its body once."""

    code = "define-body-once"
    bodies: tuple[str, ...]
    partial: bool = False
    """Whether one of them is a `functools.partial`, which should also be created once."""
    package: str | None = None
    """The library that creates one of them at each call, so that it cannot be defined once."""
    holds: tuple[str, ...] = ()
    """What they close over that was another object each time, so that they cannot be defined
    once."""
    unknown: tuple[str, ...] = ()
    """Those of them that were too large to be compared."""
    each: tuple[str, ...] = ()
    """Those of them that cannot be arguments of a jitted function, like a function."""
    made: tuple[str, ...] = ()
    """Functions among what they close over that can be created inside a jitted function, since
    nothing but numbers differs in them."""
    numbers: tuple[str, ...] = ()
    """These numbers."""
    inject: tuple[str, ...] = ()
    """Optax optimizers among those, whose state can hold the numbers that differ instead."""
    integers: tuple[str, ...] = ()
    """Integers that they close over and that were the same each time: perhaps sizes."""
    flags: tuple[str, ...] = ()
    """What differs and is true, false or a text: no array can take its place in an `if`."""
    untraceable: bool = False
    """Whether the function around it prints, or does something else that cannot be traced."""

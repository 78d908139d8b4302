"""Advice on Python values in the key."""

from __future__ import annotations

from typing import Literal

from retrace.model.advice.advice import Advice, Proof


class LeaveOutValue(Advice):
    """Take values out of the key if nothing reads them."""

    code = "leave-out"
    name: str
    in_tree: bool
    of_object: bool = False
    """Whether an object holds them, whose class compares them for every function."""
    type: str | None = None
    """The class that compares by identity and also needs an `__eq__`."""
    held: tuple[str, ...] = ()
    """Functions inside it, each of which only equals itself."""
    arrays: tuple[str, ...] = ()
    """Arrays inside it, of which `==` is no truth value."""
    read_by: tuple[str, ...] = ()
    """Other functions that depend on them, so that the class has to compare them."""
    may_read: tuple[str, ...] = ()
    """Other functions whose programs differ where they and something else changed."""
    passing: str = ""
    """The argument to do without: it holds objects over functions, of which no comparison can
    leave out a field."""
    read_with: tuple[str, ...] = ()
    """What is another in calls of the same function that do depend on them."""
    seen_with: tuple[str, ...] = ()
    """What is another in calls of the same function that were seen with one value only."""


class ReuseObject(Advice):
    """Create an object once and reuse it."""

    code = "reuse-object"
    in_tree: bool = False
    package: str | None = None
    """The library that may create it."""
    each: tuple[str, ...] = ()
    """What functions of other calls hold another of: then it is one object for each."""


class OneNaN(Advice):
    """Pass the same NaN object."""

    code = "compare-by-value"


class CompareByValue(Advice):
    """Pass one object, or let its class compare by value."""

    code = "compare-by-value"
    type: str
    held: tuple[str, ...] = ()
    """Functions inside it, each of which only equals itself."""
    varies: bool = False
    """Whether another call passes an object with other contents."""
    alone: bool = False
    """Whether it holds itself, as with a jitted method of its own, or arrays: no two are equal by
    value."""
    package: str | None = None
    """The library that defines its class, so that the user cannot edit it."""
    classes: tuple[str, ...] = ()
    """All classes whose objects are passed there, if there are several."""


class PassHeld(Advice):
    """A function created again over something else: pass that instead."""

    code = "pass-held"
    held: tuple[str, ...] = ()
    """The captured values that differ; empty if unknown."""
    alike: bool = False
    """Whether it is part of a tree that otherwise looks the same."""
    unsure: bool = False
    """Whether all that may differ are arrays whose contents were not compared."""
    of: str = ""
    """The class of a static object that holds other arrays; empty for a function."""
    besides: tuple[str, ...] = ()
    """What else differs in such objects between other calls."""


class OneType(Advice):
    """Pass a static value as one type."""

    code = "one-static-type"
    type: str | None = None
    """None if any type will do, as long as it is always the same."""


class FewValues(Advice):
    """Limit a static value to a few values."""

    code = "few-values"
    proof: Proof = Proof.MEANING
    why: Literal["shapes", "program", "functions", "separate", "results", "carried", "flags"]
    """What depends on the value; `results` if it only names what is returned, `flags` if it is
    true or false."""


class BranchInProgram(Advice):
    """If a static value decides the program, let the program branch."""

    code = "branch-in-program"
    proof: Proof = Proof.MEANING


class ToArray(Advice):
    """Pass a static value as an array, if no shape depends on it."""

    code = "static-to-dynamic"
    in_tree: bool = False
    mixed: bool = False
    """Whether another call already did so: then no shape can depend on it."""
    outside: tuple[str, ...] = ()
    """The static objects that hold it."""
    kept: tuple[str, ...] = ()
    """Other static objects, new ones that look the same: each is another key."""
    by_type: bool = False
    dtype: str = ""
    """As in `ToArgument`."""
    carried: bool = False
    """Whether the results of the program carry it, too."""
    leaf_of: tuple[str, ...] = ()
    """Other functions that get objects of its class, and so one leaf more."""
    mapped: bool = False
    """As in `OfFunction`."""


class ToArgument(Advice):
    """Pass a value that is only a constant in the program as an argument."""

    code = "static-to-dynamic"
    outside: tuple[str, ...] = ()
    """The objects that hold it."""
    by_type: bool = False
    """Whether the function takes arrays as arguments and all else as static, as those of
    `equinox.filter_jit` do."""
    dtype: str = ""
    """The dtype of the constants, if `by_type`; "" if they are of several or unknown."""
    function: str | None = None
    """The static function that holds it and should then be created once."""
    computed: bool = False
    """Whether the constants are computed from the value in Python."""
    texts: tuple[str, ...] = ()
    """Those of the values that are texts: what is computed from all of them can be passed."""
    folded: bool = False
    """Whether a compiler may fold them with others, so that an argument rounds otherwise."""
    fixed: tuple[str, ...] = ()
    """Primitives that hold it where an array cannot go, or in a rule (`custom_jvp_call`)."""
    one_type: bool = False
    """Whether calls passed it as several types, each of which would need its own program."""
    unread: tuple[str, ...] = ()
    """What changed along with it but is not a constant of the program."""
    type: str | None = None
    """The class of the static object that holds it, if each object of it only equals itself."""
    mapped: bool = False
    """As in `OfFunction`."""
    needed: tuple[str, ...] = ()
    """What its class has to compare for other functions, which the function is to do without."""
    also: bool = False
    """Whether the function reads more of the object, so that it cannot."""
    read_by: tuple[str, ...] = ()
    """As in `LeaveOutValue`."""
    may_read: tuple[str, ...] = ()
    """As in `LeaveOutValue`."""
    seen_with: tuple[str, ...] = ()
    """What is another in calls of the same function that were seen with one value only."""

    @property
    def shows(self) -> bool:
        """Whether two programs show which values they depend on, and on which they do not."""
        return self.proof is Proof.CONSTANTS and not self.computed


class PrintOutside(Advice):
    """Print values that only a print depends on outside the function."""

    code = "print-outside"


class LoopInProgram(Advice):
    """Turn a Python loop into a loop of the program."""

    code = "loop-in-program"
    seen: bool
    one_type: bool = False
    """Whether calls passed the number as several types, each of which would need a program."""


class TripsInProgram(Advice):
    """Pass a JAX loop its number of iterations."""

    code = "trips-in-program"
    one_type: bool = False
    """Whether calls passed the number as several types, each of which would need a program."""


class PassDecision(Advice):
    """Pass the decision that depends on a value instead of the value."""

    code = "pass-decision"
    name: str
    values: tuple[tuple[str, ...], ...]
    """By program."""
    constant: bool = False
    """Whether constants of the program follow the value as well."""


class InjectHyperparams(Advice):
    """Keep an optimizer's numbers in its state."""

    code = "inject-hyperparams"
    holder: str
    kept: str = ""
    """The class of the object that it is a part of, if that is what changes each time."""


class DefineOnce(Advice):
    """Define a class once."""

    code = "define-once"
    classes: tuple[str, ...]

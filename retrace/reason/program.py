"""What comparing programs shows about a miss: wasted, shareable, or rightly separate."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property

from retrace.compare.constants import folds, makers, types
from retrace.compare.equation import primitive
from retrace.compare.outputs import outputs
from retrace.compare.precision import rounded
from retrace.compare.programs import Difference, Kind, compare
from retrace.model import (
    Change,
    Component,
    FieldChange,
    Frame,
    Listing,
    Miss,
    Value,
    ValueChange,
)
from retrace.model.advice import Proof
from retrace.model.parts import OF_ARGUMENTS

HELD = OF_ARGUMENTS | {Component.CLOSURE, Component.DEFAULTS}
"""The ways in which a Python value gets into a program."""
_PRINTS = frozenset(("debug_callback", "debug_print"))
_CALLBACKS = frozenset(("pure_callback", "io_callback", "debug_callback"))
_PRINTED = "callback=<function _flat_callback '"
"""The callback of a `jax.debug.print` in jax 0.6, with all that it holds: its format."""
_RANDOM = frozenset(("random_bits", "random_gamma", "threefry2x32", "rng_bit_generator"))

_DTYPES = {
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"c{bits}": f"complex{bits}" for bits in (64, 128)},
    "bf16": "bfloat16",
}
"""JAX's short names of dtypes, as programs have them."""


class Comparison:
    """Compares the programs of a miss and of its closest earlier key, when first asked."""

    def __init__(
        self,
        old: Miss,
        new: Miss,
        changes: tuple[Change, ...],
        listings: Mapping[str, Listing],
        known: Kind | None = None,
    ) -> None:
        self._misses = (old, new)
        self._changes = changes
        self._listings = listings
        self._known: Kind | None = known
        self._found: Difference | None = None
        self._asked = False

    @property
    def texts(self) -> Mapping[str, Listing]:
        """The recorded programs, by id."""
        return self._listings

    @property
    def is_wasted(self) -> bool:
        """Whether both programs are the same."""
        if self._known is not None:
            return self._known == "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None or old.hash != new.hash or self.returns_others:
            return False
        if self.captures_others or self.holds_others:
            return False
        return not (self._may_hold_others and self.calls_back)

    @property
    def _may_hold_others(self) -> bool:
        """Whether a callback may be another one: not the object that the program kept before."""
        is_new = any(change.component is Component.FUNCTION for change in self._changes)
        return is_new or self._holds_other_values

    @property
    def hashes_differ(self) -> bool:
        """Whether the programs differ in more than the arrays that they captured."""
        old, new = (miss.program for miss in self._misses)
        return old is not None and new is not None and old.hash != new.hash

    @property
    def returns_others(self) -> bool:
        """Whether equal programs return what they compute in another way.

        Under other names, as a dict does, or with other static data.
        """
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None or old.hash != new.hash:
            return False
        return old.results != new.results or self.carries_others

    @property
    def names_results(self) -> bool:
        """Whether they return it in another way, and may differ in more."""
        old, new = (
            None if miss.program is None else miss.program.results for miss in self._misses
        )
        return (old is not None and new is not None and old != new) or self.carries_others

    @property
    def carries_others(self) -> bool:
        """Whether their results carry other static data, as fields of a dataclass do."""
        old, new = self._misses
        return old.carried != new.carried

    @property
    def counts_differ(self) -> bool:
        """Whether one program has more equations than the other."""
        old, new = (miss.program for miss in self._misses)
        return old is not None and new is not None and old.equations != new.equations

    @property
    def captures_others(self) -> bool:
        """Whether the programs captured other arrays, or arrays that cannot be compared."""
        old, new = (miss.program for miss in self._misses)
        if self._known is not None or old is None or new is None:
            return False
        return old.arrays != new.arrays or None in new.arrays

    def captures_besides(self, tokens: Container[str | None]) -> bool:
        """Whether they captured other arrays besides those with these tokens."""
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None:
            return False
        sides = [[one for one in side.arrays if f"#{one}" not in tokens] for side in (old, new)]
        return sides[0] != sides[1] or None in sides[1]

    @property
    def holds_others(self) -> bool:
        """Whether custom rules hold other objects, or objects that cannot be compared."""
        old, new = (miss.program for miss in self._misses)
        if self._known is not None or old is None or new is None:
            return False
        return old.held != new.held or None in new.held

    @property
    def _holds_other_values(self) -> bool:
        # The static data of a tree gets into a program as static arguments do.
        return any(
            change.component in HELD or isinstance(change, FieldChange)
            for change in self._changes
        )

    @cached_property
    def calls_back(self) -> bool:
        """Whether the program runs Python code, which may hold things no program shows."""
        if not any(miss.program and miss.program.callbacks for miss in self._misses):
            return False  # the case for nearly all programs, which then need not be searched
        return self._runs(lambda text: primitive(text) in _CALLBACKS and _PRINTED not in text)

    @property
    def has_short_constants(self) -> bool:
        """Whether constants that changed have 16 bits, some of them at least."""
        return not {one.removeprefix("~") for one in self._types}.isdisjoint(("bf16", "f16"))

    @property
    def dtype(self) -> str:
        """The one dtype of all constants that changed, or "" if they are of several or weak."""
        return _DTYPES.get(next(iter(self._types)), "") if len(self._types) == 1 else ""

    @cached_property
    def folds(self) -> bool:
        """Whether a compiler may fold a constant, in which the programs differ, with others."""
        found = self.listings()
        return found is not None and folds(*found, self._listings)

    @cached_property
    def makers(self) -> tuple[Frame, ...]:
        """The functions of installed packages that made a constant in which they differ."""
        found = self.listings()
        return () if found is None else makers(*found, self._listings)

    @property
    def static_rules(self) -> tuple[str, ...]:
        """Functions with a custom rule that takes no array for some arguments."""
        reads = self._misses[1].function.reads
        return tuple([name for name, value in reads if value.type == "custom_vjp"])

    @cached_property
    def draws(self) -> bool:
        """Whether the program draws random numbers, which depend on how many it draws."""
        return self._runs(lambda text: primitive(text) in _RANDOM)

    def _runs(self, wanted: Callable[[str], bool]) -> bool:
        found = self.listings()
        waiting, seen = [] if found is None else [found[1]], set[str]()
        while waiting:
            listing = waiting.pop()
            if any(map(wanted, listing.equations)):
                return True
            for each in listing.inner.values():
                if each not in seen and each in self._listings:
                    waiting.append(self._listings[each])
                seen.add(each)
        return False

    @cached_property
    def differs_in_prints(self) -> bool:
        """Whether only the arguments of `jax.debug.print` and the like differ."""
        found = self.listings()
        if found is None or found[0].outputs != found[1].outputs:
            return False
        kept = [
            [text for text in listing.equations if primitive(text) not in _PRINTS]
            for listing in found
        ]
        return kept[0] == kept[1] and len(kept[0]) < len(found[0].equations)

    @property
    def kind(self) -> Kind | None:
        """How the programs differ, or None if unknown."""
        if (known := self._known) is not None:
            return known
        if self.is_wasted:
            return "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None:
            return None
        if self.returns_others:
            return "different"
        if old.hash == new.hash:
            if self.calls_back or self.holds_others:
                return None
            # Captured arrays were not fetched, so they may be copies or different arrays.
            return "constants-only" if self._holds_other_values else None
        found = self.difference
        return "different" if found is None else found.kind

    @property
    def difference(self) -> Difference | None:
        """The evidence, or None if a program's text was not recorded."""
        if not self._asked:
            self._asked = True
            old, new = (miss.program for miss in self._misses)
            before = old and self._listings.get(old.listing or "")
            after = new and self._listings.get(new.listing or "")
            if before is not None and after is not None:
                self._found = compare(before, after, self._listings)
        return self._found

    def listings(self) -> tuple[Listing, Listing] | None:
        """The texts of both programs, the earlier one first."""
        programs = [miss.program for miss in self._misses]
        found = [p and self._listings.get(p.listing or "") for p in programs]
        if found[0] is None or found[1] is None:
            return None
        return found[0], found[1]

    @property
    def constants(self) -> set[tuple[float | None, float | None]]:
        """The numbers in the programs that changed, as (old, new) pairs."""
        found = self.difference
        constants = () if found is None else found.constants
        pairs = {(number(each.old), number(each.new)) for each in constants}
        return {self.as_constant(pair) for pair in pairs} - {(None, None)}

    def as_constant(
        self, pair: tuple[float | None, float | None]
    ) -> tuple[float | None, float | None]:
        """Two numbers, as old and new, with the precision of the constants of the programs."""
        strong = {one.removeprefix("~") for one in self._types}
        old, new = (None if one is None else rounded(one, strong) for one in pair)
        return old, new

    @cached_property
    def _types(self) -> frozenset[str]:
        """The types of the constants that changed, without sizes: `f32`, `~f32` if it is weak."""
        found, difference = self.listings(), self.difference
        if found is None or difference is None or difference.kind == "different":
            return frozenset()
        return frozenset(one.partition("[")[0] for one in types(*found, self._listings))

    @property
    def has_other_arrays(self) -> bool:
        """Whether some of the constants that differ are arrays, of which a hash is known."""
        found = self.difference
        constants = () if found is None else found.constants
        return any("[" in each.old and "=" in each.old for each in constants)

    @cached_property
    def sizes(self) -> set[tuple[object, object]]:
        """The sizes that differ between results of the programs at the same place."""
        found = self.listings()
        if found is None:
            return set()
        old, new = ([_sizes(one.type) for one in outputs(side)] for side in found)
        if list(map(len, old)) != list(map(len, new)):
            return set()
        return {
            (int(a), int(b))
            for pair in zip(old, new, strict=True)
            for a, b in zip(*pair, strict=True)
            if a != b and a.isdigit() and b.isdigit()
        }

    @property
    def fixed(self) -> frozenset[str]:
        """Primitives that hold a changed number in a place where an array cannot go."""
        found = self.difference
        return frozenset() if found is None else found.fixed


def _sizes(type_: str) -> list[str]:
    """The sizes in a type: `8` and `4` of `f32[8,4]`."""
    return type_.partition("[")[2].partition("]")[0].split(",")


def is_explained(program: Comparison, changes: Iterable[Change]) -> bool:
    """Whether these changes of numbers are all constants that changed in the programs."""
    return program.constants <= {program.as_constant(numbers(change)) for change in changes}


def proof_of(program: Comparison | None) -> Proof:
    """How well it is known that a call with nothing else changed needs no other program."""
    if program is None:
        return Proof.KEY
    return Proof.PROGRAM if program.is_wasted else Proof.MEANING


def numbers(change: Change) -> tuple[float | None, float | None]:
    """Both sides of a change as numbers; None for other values."""
    if not isinstance(change, ValueChange):
        return None, None
    return _as_number(change.old), _as_number(change.new)


def _as_number(side: Value | None) -> float | None:
    if side is None:
        return None
    found = number(side.text)
    # `np.int64(3)` is recorded with the number as its content.
    return number(str(side.data)) if found is None else found


def number(text: str) -> float | None:
    """The number in a text, or None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None

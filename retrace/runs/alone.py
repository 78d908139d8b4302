"""Programs of one function that differ in constants alone: as arguments, they would be one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from retrace.model import Listing
from retrace.runs.form import Form, form
from retrace.runs.named import number, stand_for

if TYPE_CHECKING:
    from retrace.runs.again import Program

_MAX_FORMS = 4096
"""Maximum number of programs analysed; later ones are not compared."""
_MAX_TOLD = 16
"""Maximum number of values kept for one constant."""

FormOf = Callable[["Program"], Form | None]


class Constant(NamedTuple):
    """What differs."""

    name: str | None
    """Of what was read, where it is known whose value stands in the program."""
    values: tuple[str, ...]
    """The first few: those of the name, else as they stand in the programs."""


@dataclass(frozen=True, slots=True)
class Family:
    """Several programs that differ in constants alone."""

    programs: tuple[Program, ...]
    """The dearest first."""
    constants: tuple[Constant, ...]
    """Those with a name first."""

    @property
    def times(self) -> int:
        """How often they were compiled, all together."""
        return sum(one.times for one in self.programs)

    @property
    def places(self) -> int:
        """How many processes, or tests, compiled one of them."""
        return len({place for one in self.programs for place in one.places})

    @property
    def seconds(self) -> float:
        """Of all their compilations."""
        return sum(one.seconds for one in self.programs)

    @property
    def spared(self) -> float:
        """Seconds that one program in place of all would spare, beyond what a cache does now.

        A cache spares all compilations of each program but one; of these, one is left.
        """
        first = [one.first for one in self.programs]
        return sum(first) - max(first)

    @property
    def names(self) -> tuple[str, ...]:
        """What differs, as far as it has a name."""
        return tuple(one.name for one in self.constants if one.name is not None)

    @property
    def is_named(self) -> bool:
        """Whether all that differs has a name."""
        return len(self.names) == len(self.constants)


def from_listings(listings: Mapping[str, Listing]) -> FormOf:
    """Takes a program apart by its text in the recording."""

    def found(program: Program) -> Form | None:
        if program.form is not None or program.listing is None:
            return program.form
        listing = listings.get(program.listing)
        return None if listing is None else form(listing, listings)

    return found


def families(programs: Iterable[Program], form_of: FormOf) -> list[Family]:
    """The programs that differ in constants alone, those that would save most first.

    Told are those that more than one process, or test, has compiled.
    """
    alike: dict[str, list[Program]] = {}
    for one in programs:
        if one.alike:
            alike.setdefault(one.alike, []).append(one)
    # The dearest are looked at first, should there be too many.
    several = sorted(
        (group for group in alike.values() if len(group) > 1 and _places(group) > 1),
        key=lambda group: -sum(one.seconds for one in group),
    )
    found: list[Family] = []
    left = _MAX_FORMS
    for group in several:
        forms: dict[str, list[tuple[Program, Form]]] = {}
        for one in group[:left]:
            if (known := form_of(one)) is not None:
                forms.setdefault(known.text, []).append((one, known))
        left -= min(left, len(group))
        found += [
            _family(same)
            for same in forms.values()
            if len(same) > 1 and _places(one for one, _ in same) > 1
        ]
    return sorted(found, key=lambda family: -family.spared)


def _places(programs: Iterable[Program]) -> int:
    return len({place for one in programs for place in one.places})


def _family(members: list[tuple[Program, Form]]) -> Family:
    members.sort(key=lambda member: -member[0].seconds)
    values = [one.values for one, _ in members]
    everywhere = set(values[0]).intersection(*values)
    shared = [name for name in values[0] if name in everywhere and _vary(name, values)]
    told: dict[str | None, Constant] = {}
    for numbers in zip(*(known.numbers for _, known in members), strict=True):
        if len(set(numbers)) == 1:
            continue
        name = _name(numbers, shared, values)
        # One name may stand in a program many times; the numbers themselves are told rather
        # than what was made of them.
        if name is None:
            told.setdefault(None, Constant(None, _few(numbers)))
        else:
            own = [f"{value[name]:.7g}" for value in values]
            told.setdefault(name, Constant(name, _few(own)))
    constants = sorted(told.values(), key=lambda constant: constant.name is None)
    return Family(tuple(one for one, _ in members), tuple(constants))


def _vary(name: str, values: list[dict[str, float]]) -> bool:
    return len({value[name] for value in values}) > 1


def _name(
    numbers: tuple[str, ...], names: list[str], values: list[dict[str, float]]
) -> str | None:
    for derived in (False, True):
        for name in names:
            if stand_for(numbers, [value[name] for value in values], derived=derived):
                return name
    return None


def _few(numbers: Iterable[str]) -> tuple[str, ...]:
    each = dict.fromkeys(numbers)
    return tuple(sorted(each, key=lambda text: (number(text) or 0.0, text))[:_MAX_TOLD])

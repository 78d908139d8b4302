"""Programs of one function that differ only in constants: as arguments, they would be one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from retrace.model import Listing
from retrace.model.record import Record
from retrace.model.row import Row
from retrace.runs.form import Form, form
from retrace.runs.named import number, stand_for

if TYPE_CHECKING:
    from retrace.runs.again import Program

_MAX_FORMS = 4096
"""Maximum number of programs analysed; later ones are not compared."""
_MAX_VALUES = 16
"""Maximum number of values kept for one constant."""

FormOf = Callable[["Program"], Form | None]


class Constant(Row):
    """A constant that differs between programs."""

    name: str | None
    """The name it was read from, if it is known whose value is in the program."""
    values: tuple[str, ...]
    """The first few values: those of the name, or else as written in the programs."""


class Family(Record):
    """Several programs that differ only in constants."""

    programs: tuple[Program, ...]
    """Most expensive first."""
    constants: tuple[Constant, ...]
    """Named constants first."""

    @property
    def times(self) -> int:
        """How often they were compiled in total."""
        return sum(one.times for one in self.programs)

    @property
    def places(self) -> int:
        """The number of processes or tests that compiled one of them."""
        return len({place for one in self.programs for place in one.places})

    @property
    def seconds(self) -> float:
        """Seconds of all compilations."""
        return sum(one.seconds for one in self.programs)

    @property
    def spared(self) -> float:
        """Seconds that one shared program would save, beyond what a cache saves already.

        A cache saves all but one compilation of each program; a single program would leave one.
        """
        first = [one.first for one in self.programs]
        return sum(first) - max(first)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what differs, where known."""
        return tuple(one.name for one in self.constants if one.name is not None)

    @property
    def is_named(self) -> bool:
        """Whether everything that differs has a name."""
        return len(self.names) == len(self.constants)


def from_listings(listings: Mapping[str, Listing]) -> FormOf:
    """Take programs apart using their texts in the recording."""

    def found(program: Program) -> Form | None:
        if program.form is not None or program.listing is None:
            return program.form
        listing = listings.get(program.listing)
        return None if listing is None else form(listing, listings)

    return found


def families(programs: Iterable[Program], form_of: FormOf) -> list[Family]:
    """Programs that differ only in constants, largest saving first.

    Only programs that more than one process or test compiled are included.
    """
    alike: dict[str, list[Program]] = {}
    for one in programs:
        if one.alike:
            alike.setdefault(one.alike, []).append(one)
    # Start with the most expensive, in case there are too many.
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
    by_name: dict[str | None, Constant] = {}
    for numbers in zip(*(known.numbers for _, known in members), strict=True):
        if len(set(numbers)) == 1:
            continue
        name = _name(numbers, shared, values)
        # A name may occur in a program many times; show its own numbers rather
        # than what was computed from them.
        if name is None:
            by_name.setdefault(None, Constant(None, _few(numbers)))
        else:
            own = [f"{value[name]:.7g}" for value in values]
            by_name.setdefault(name, Constant(name, _few(own)))
    constants = sorted(by_name.values(), key=lambda constant: constant.name is None)
    return Family(programs=tuple(one for one, _ in members), constants=tuple(constants))


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
    return tuple(sorted(each, key=lambda text: (number(text) or 0.0, text))[:_MAX_VALUES])

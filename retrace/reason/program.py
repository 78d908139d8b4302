"""What the programs say of a miss: wasted, shareable, or rightly separate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from retrace.causes import Cause
from retrace.compare.programs import Difference, Kind, compare
from retrace.model import Change, Component, Fix, Listing, Miss
from retrace.reason import rules
from retrace.reason.fields import field_changes

_VALUES = frozenset({Component.STATIC, Component.CLOSURE, Component.DEFAULTS})
"""What a Python value goes into a program by."""
_NUMBERS = frozenset(("bool", "int", "float", "complex"))
_PLAIN = _NUMBERS | {"str", "NoneType", "tuple"}


class Comparison:
    """A miss's program held against the nearest's, when it is asked for."""

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
    def is_wasted(self) -> bool:
        """Whether both are the same; needs no text of theirs."""
        if self._known is not None:
            return self._known == "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None or old.hash != new.hash:
            return False
        return old.arrays == new.arrays and None not in new.arrays

    @property
    def kind(self) -> Kind | None:
        """How they differ; None where that cannot be told."""
        if (known := self._known) is not None:
            return known
        if self.is_wasted:
            return "identical"
        old, new = (miss.program for miss in self._misses)
        if old is None or new is None:
            return None
        if old.hash == new.hash:
            # Captured arrays were not fetched: made again, or other ones?
            captured = any(change.component in _VALUES for change in self._changes)
            return "constants-only" if captured else None
        found = self.difference
        return "different" if found is None else found.kind

    @property
    def difference(self) -> Difference | None:
        """The evidence; None where the text of a program was not recorded."""
        if not self._asked:
            self._asked = True
            old, new = (miss.program for miss in self._misses)
            before = old and self._listings.get(old.listing or "")
            after = new and self._listings.get(new.listing or "")
            if before is not None and after is not None:
                self._found = compare(before, after, self._listings)
        return self._found

    def listings(self) -> tuple[Listing, Listing] | None:
        """The text of both, the nearest's first."""
        programs = [miss.program for miss in self._misses]
        found = [p and self._listings.get(p.listing or "") for p in programs]
        if found[0] is None or found[1] is None:
            return None
        return found[0], found[1]


def avoidable(
    cause: Cause, changes: tuple[Change, ...], program: Comparison | None
) -> Literal["yes", "no"] | None:
    """What the programs alone decide; None where they leave it open.

    A program that differs only in a number which Python put into it could have taken
    that number as an argument. One in which Python's `if` or `for` took another way
    is rightly separate.
    """
    values = _values(cause, changes)
    if program is None or not values or not all(_is_plain(change) for change in values):
        return None
    kind = program.kind
    if kind == "constants-only" and all(_is_number(change) for change in values):
        return "yes"
    return "no" if kind == "different" else None


def advice(cause: Cause, changes: tuple[Change, ...], program: Comparison | None) -> Fix | None:
    """What to do about a value that Python put into the program; None where it did not."""
    values = _values(cause, changes)
    if program is None or cause is not Cause.STATIC_ARGUMENT_CHANGED or not values:
        return None
    if not all(_is_plain(change) for change in values):
        return None
    name = f"`{values[0].path}`"
    match program.kind:
        case "constants-only" if all(_is_number(change) for change in values):
            named = " and ".join(f"`{change.path}`" for change in values[:3])
            kind = "arguments that are" if len(values) > 1 else "an argument that is"
            it = "constants depend on them" if len(values) > 1 else "a constant depends on it"
            text = f"pass {named} as {kind} not static: only {it}."
            return Fix("static-to-dynamic", text)
        case "repeated" if _is_loop_of_jax(program):
            text = (
                f"{name} is how often a loop of JAX's own runs: `jax.lax.fori_loop` and "
                "`jax.lax.while_loop` take one that is not static (without a reverse gradient); "
                "else keep to a few values."
            )
            return Fix("trips-in-program", text)
        case "repeated" if not any(map(_is_switch, values)):
            text = (
                f"a Python loop over {name} is unrolled: `jax.lax.scan` or `jax.lax.fori_loop` "
                "keeps it one block; else keep to a few values."
            )
            return Fix("loop-in-program", text)
        case "different" | "repeated":
            text = (
                f"each value of {name} rightly has a program of its own; `jax.lax.cond` for an "
                "`if`, or `jax.lax.fori_loop` for a `for`, would make it one."
            )
            return Fix("branch-in-program", text)
        case _:
            return None


def pass_state(
    cause: Cause, name: str, changes: tuple[Change, ...], program: Comparison | None
) -> Fix | None:
    """What to do about hidden state that can be named; None where none was seen to change."""
    cells = [c.path for c in changes if c.component is Component.CLOSURE and c.path is not None]
    if cause is not Cause.JAXPR_CHANGED or not cells:
        return None
    # What steers a Python `if` or `for` cannot be traced.
    traced = program is not None and program.kind == "constants-only"
    kind = "an argument" if traced else "a static argument"
    if len(cells) > 1:
        kind = f"{kind.partition(' ')[2]}s"
    named = ", ".join(f"`{cell}`" for cell in dict.fromkeys(cells[:3]))
    return Fix("pass-state", f"pass {named} to `{name}` as {kind}.")


def telling(
    reads: tuple[Change, ...], program: Comparison | None
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Changes outside a function: those that are a changed constant of its program, and the rest.

    A counter of its own traces changes as well, and is no constant of the program.
    """
    found = program.difference if program is not None and reads else None
    if found is None:
        return (), reads
    sides = {(_number(c.old), _number(c.new)) for c in found.constants} - {(None, None)}
    sure = tuple([c for c in reads if (_read(c.old), _read(c.new)) in sides])
    return sure, tuple([c for c in reads if c not in sure])


def suspects(others: tuple[Change, ...], program: Comparison | None) -> tuple[Change, ...]:
    """Those that may be why, of what changed outside a function and is in no constant of it.

    Where a constant alone is another one, no other number is why.
    """
    # To ask for the kind is to compare the programs.
    if not others or program is None or program.kind != "constants-only":
        return others
    return tuple([change for change in others if not _is_number(change)])


def _read(side: object) -> float | None:
    return _number(str(cast(dict[str, Any], side)["text"])) if isinstance(side, dict) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_loop_of_jax(program: Comparison) -> bool:
    found = program.difference
    return found is not None and all(block.loop for block in found.repeats)


def _values(cause: Cause, changes: tuple[Change, ...]) -> list[Change]:
    """The Python values that alone can have made another program."""
    if cause is not Cause.STATIC_ARGUMENT_CHANGED and cause not in rules.OF_FUNCTION:
        return []
    own = [
        part
        for change in changes
        if change.component in _VALUES
        for part in (() if _is_plain(change) else field_changes(change)) or (change,)
    ]
    ignored = {*_VALUES, Component.FUNCTION, Component.PROGRAM, Component.SIGNATURE}
    return own if all(change.component in ignored for change in changes) else []


def _types(change: Change) -> Iterable[str]:
    for side in (change.old, change.new):
        fields = cast(dict[str, Any], side) if isinstance(side, dict) else {}
        yield str(fields.get("type", ""))


def _data(side: object) -> object:
    return cast(dict[str, Any], side).get("data") if isinstance(side, dict) else None


def _is_plain(change: Change) -> bool:
    return all(type_ in _PLAIN or type_.startswith("numpy.") for type_ in _types(change))


def _is_switch(change: Change) -> bool:
    return not {*_types(change)}.isdisjoint(("bool", "str", "NoneType"))


def _is_number(change: Change) -> bool:
    if set(_types(change)) == {"tuple"}:
        return all(
            isinstance(data, list) and {*map(type, data)} <= {bool, int, float}  # pyright: ignore[reportUnknownArgumentType]
            for data in (_data(change.old), _data(change.new))
        )
    # `numpy.float32`, but not `numpy.ndarray`.
    return all(
        type_ in _NUMBERS or type_.startswith(("numpy.int", "numpy.uint", "numpy.float"))
        for type_ in _types(change)
    )

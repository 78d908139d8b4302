"""Eager operations by what caused them, and what of them a person could spare.

One call into a library is one cause, however many of its lines run; so is one host callback, one
import and one function of the user's. Sizes are a cause only where one place ran one operation
again and nothing but sizes had changed: two layers of a network are no two sizes of one thing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.model import CallSite, Dim, ShapeChange, Verdict
from retrace.model.advice import Advice, AtImport, InCallback, JitInit, LibraryCall, Sure
from retrace.reason.eager import of_caller
from retrace.reason.sized import sized, sizes_of

Family: TypeAlias = Literal[
    "eager", "eager-sizes", "eager-callback", "eager-init", "eager-import"
]

_REPEATED = 3
"""From so many programs of one operation on, a line compiles again and again."""
_SIZES = 3
"""Fewer sizes are few."""
_MANY = 10
"""From so many programs on, a cause is worth a word whatever they are."""
_SPARED = 0.05
"""Seconds that must be spared for certain to be worth doing."""


@dataclass(frozen=True, slots=True)
class Root:
    """Eager operations with one cause, in all processes."""

    family: Family
    site: CallSite
    verdicts: tuple[Verdict, ...]
    certain: tuple[Verdict, ...]
    """Those that are gone for certain when the advice is followed."""
    advice: Advice | None = None
    function: str | None = None
    """The user's function whose lines they are; None where it is one line, or a library's."""
    lines: int = 1
    """So many lines of the user's have them."""

    @property
    def worth(self) -> bool:
        """Whether anything is saved for certain."""
        return sum(verdict.miss.seconds for verdict in self.certain) >= _SPARED

    @property
    def sure(self) -> Sure:
        """Whether following it does what is said."""
        if self.advice is not None:
            return self.advice.sure
        return "likely" if self.family == "eager-sizes" else "ask"


def roots(verdicts: Iterable[Verdict]) -> Iterator[Root]:
    """The causes of eager operations about which a person could do something.

    What a library runs as part of one call, or an import, is left as it is: there is nothing
    to change in the user's program.
    """
    called: dict[Hashable, list[Verdict]] = {}
    lines: dict[tuple[str, int], list[Verdict]] = {}
    inside: dict[tuple[str, int], list[Verdict]] = {}
    drivers: set[tuple[str, str]] = set()
    for verdict in verdicts:
        miss = verdict.miss
        site = miss.call_site
        if verdict.cause is not Cause.EAGER_OP and site is not None and not miss.nested:
            drivers.add((site.file, site.function))
        if verdict.cause is not Cause.EAGER_OP or miss.parent is not None or site is None:
            continue
        advice = of_caller(miss)
        if isinstance(advice, InCallback):
            called.setdefault(("eager-callback", site.file, site.function), []).append(verdict)
        elif isinstance(advice, AtImport):
            called.setdefault(("eager-import", site.file, ""), []).append(verdict)
        elif isinstance(advice, JitInit) and miss.entry is not None:
            key = ("eager-init", miss.entry.file, miss.entry.line, miss.through)
            called.setdefault(key, []).append(verdict)
        elif advice is None:
            lines.setdefault((site.file, site.line), []).append(verdict)
        elif isinstance(advice, LibraryCall):
            inside.setdefault((site.file, site.line), []).append(verdict)
    yield from _called(called)
    yield from _own(lines, inside, drivers)


def _called(called: dict[Hashable, list[Verdict]]) -> Iterator[Root]:
    """Callbacks, imports and initialisations."""
    for members in called.values():
        first = members[0].miss
        site, advice = first.call_site, of_caller(first)
        again: tuple[Verdict, ...] = ()
        family: Family = "eager-import"
        if isinstance(advice, JitInit):
            family, site = "eager-init", first.entry
        elif isinstance(advice, InCallback):
            family, again = "eager-callback", _again(members)
        if site is not None and (len(members) >= _MANY or len(again) >= _REPEATED):
            yield Root(family, site, tuple(members), again, advice)


def _again(members: list[Verdict]) -> tuple[Verdict, ...]:
    """Those of an operation that had been compiled before, on other arrays."""
    seen: set[tuple[str, str]] = set()
    found: list[Verdict] = []
    for verdict in members:
        operation = (verdict.miss.run, verdict.miss.function.jax_name)
        if operation in seen:
            found.append(verdict)
        seen.add(operation)
    return tuple(found)


def _own(
    lines: dict[tuple[str, int], list[Verdict]],
    inside: dict[tuple[str, int], list[Verdict]],
    drivers: set[tuple[str, str]],
) -> Iterator[Root]:
    """Operations of the user's own lines: those of many sizes by line, the rest by function.

    A function that calls jitted ones itself drives them, as a training loop does: it is none
    that could be jitted whole.
    """
    rest: dict[Hashable, list[Verdict]] = {}
    of_sizes: list[_Sized] = []
    for place, members in lines.items():
        again = sized(members)
        site = members[0].miss.call_site
        if site is None:
            continue
        if len(again) >= _REPEATED and len(sizes_of(again)) >= _SIZES:
            of_sizes.append(_Sized(site, members, again, _sizes(again)))
            continue
        named = _is_named(site.function) and (site.file, site.function) not in drivers
        key = (site.file, site.function) if named else place
        rest.setdefault(key, []).extend(members)
    yield from _gathered(of_sizes, list(filter(None, map(sized, inside.values()))))
    for members in rest.values():
        site = members[0].miss.call_site
        if site is not None and len(members) >= _MANY:
            one_line = len({v.miss.call_site.line for v in members if v.miss.call_site}) == 1
            yield Root(
                "eager", site, tuple(members), (), function=None if one_line else site.function
            )


class _Sized(NamedTuple):
    """A line of which an operation was compiled for several sizes."""

    site: CallSite
    members: list[Verdict]
    again: tuple[Verdict, ...]
    sizes: frozenset[Dim]


def _gathered(found: list[_Sized], inside: list[tuple[Verdict, ...]]) -> Iterator[Root]:
    """One cause for all lines to which the same sizes come, as of one array that grows.

    Padded where it is made, it comes with fewer sizes to the calls of libraries, too. What these
    run for sizes that no line of the user's has is left as it is.
    """
    found.sort(key=lambda one: len(one.sizes), reverse=True)
    gathered: list[list[_Sized]] = []
    for one in found:
        for group in gathered:
            if one.site.file == group[0].site.file and one.sizes <= group[0].sizes:
                group.append(one)
                break
        else:
            gathered.append([one])
    for group in gathered:
        dearest = max(group, key=lambda one: sum(v.miss.seconds for v in one.again))
        members = [verdict for one in group for verdict in one.members]
        again = tuple(verdict for one in group for verdict in one.again)
        also = [_of_same(line, group[0]) for line in inside]
        inside = [line for line, own in zip(inside, also, strict=True) if not own]
        members += [verdict for own in also for verdict in own]
        number = len(group) + sum(map(bool, also))
        yield Root("eager-sizes", dearest.site, tuple(members), again, lines=number)


def _of_same(line: tuple[Verdict, ...], leader: _Sized) -> tuple[Verdict, ...]:
    """What a library ran again on a line for sizes that another line has as well."""
    site = line[0].miss.call_site
    if site is None or site.file != leader.site.file:
        return ()
    own = tuple(verdict for verdict in line if _sizes((verdict,)) & leader.sizes)
    return own if len(own) >= _REPEATED else ()


def _sizes(again: tuple[Verdict, ...]) -> frozenset[Dim]:
    """The sizes of the axes for which operations were compiled again."""
    return frozenset(
        size
        for verdict in again
        for change in verdict.changes
        if isinstance(change, ShapeChange)
        for _, *pair in change.resized or ()
        for size in pair
    )


def _is_named(function: str) -> bool:
    """Whether it is a function that has a name, which could be jitted as it stands.

    What a script calls `main` reads arguments, prints, and drives all the rest.
    """
    return not function.startswith("<") and not function.endswith(">") and function != "main"

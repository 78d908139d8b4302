"""Eager operations by what caused them, and what of them a person could spare.

One call into a library is one cause, however many of its lines run; so is one host callback, one
import and one call of a function of the user's, whatever that calls in turn. Sizes are a cause
only where one place ran one operation again and nothing but sizes had changed: two layers of a
network are no two sizes of one thing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from retrace.causes import Cause
from retrace.model import CallSite, Dim, Miss, ShapeChange, Verdict
from retrace.model.advice import (
    Advice,
    AtImport,
    FewSizes,
    InCallback,
    JitInit,
    LibraryCall,
    Proof,
    Sure,
)
from retrace.reason.eager import joins, new_body, of_caller
from retrace.reason.sized import sized, sizes_of

Place: TypeAlias = tuple[str, str]
"""A file and a function of it."""
Line: TypeAlias = tuple[str, int]
"""A file and a line of it."""
Family: TypeAlias = Literal[
    "eager", "eager-sizes", "eager-callback", "eager-init", "eager-import"
]

_REPEATED = 3
"""From so many programs of one operation on, a line compiles again and again."""
_SIZES = 3
"""Fewer sizes are few."""
_MANY = 10
"""From so many programs on, a cause is worth a word whatever they are."""
_DRIVING = frozenset(("main", "__init__", "__post_init__", "__new__", "setUp", "setup"))
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
    verdicts = tuple(verdicts)
    for verdict in verdicts:
        miss = verdict.miss
        site = miss.call_site
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
    yield from _own(lines, inside, _drivers(verdicts))


def _drivers(verdicts: Iterable[Verdict]) -> frozenset[Place]:
    """The functions of the user's that cannot be jitted whole, and so none that calls them.

    They call jitted functions, as a training loop does, or do what no traced function can. What
    a script calls `main` drives all the rest, as a test does; what makes an object returns no
    arrays.
    """
    found: set[Place] = set()
    for verdict in verdicts:
        if verdict.miss.nested:
            continue
        driven = verdict.cause is not Cause.EAGER_OP
        for line in _lines(verdict.miss):
            driven = driven or line.untraceable or _drives(line.function)
            if driven:
                found.add((line.file, line.function))
    return frozenset(found)


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
    drivers: frozenset[Place],
) -> Iterator[Root]:
    """Operations of the user's own lines: those of many sizes by line, the rest by function.

    What libraries run below such a function is gone with the rest of it.
    """
    rest: dict[Call | Line, list[Verdict]] = {}
    of_sizes: list[_Sized] = []
    for place, members in lines.items():
        again = sized(members)
        site = members[0].miss.call_site
        if site is None:
            continue
        if len(again) >= _REPEATED and len(sizes_of(again)) >= _SIZES:
            of_sizes.append(_Sized(site, members, again, _sizes(again)))
            continue
        for verdict in members:
            rest.setdefault(_call(verdict, drivers) or place, []).append(verdict)
    told = list(_gathered(of_sizes, list(filter(None, map(sized, inside.values())))))
    yield from told
    taken = {verdict.miss.id for root in told for verdict in root.verdicts}
    below: dict[Call | None, list[Verdict]] = {}
    for verdict in chain.from_iterable(inside.values()):
        if verdict.miss.id not in taken:
            below.setdefault(_call(verdict, drivers), []).append(verdict)
    for call, members in rest.items():
        site = members[0].miss.call_site
        if site is None or len(members) < _MANY:
            continue
        of_call = isinstance(call, Call)
        every = (*members, *(below.get(call, ()) if of_call else ()))
        if len({verdict.miss.function.jax_name for verdict in every}) == 1:
            continue  # one operation for many arrays is as many programs when it is jitted
        if of_call:
            yield Root("eager", call.asked(members[0]), every, (), function=call.function)
        else:
            yield Root("eager", site, every, ())


class Call(NamedTuple):
    """A function of the user's that is called as a whole, and could be jitted as one."""

    file: str
    function: str

    def asked(self, verdict: Verdict) -> CallSite:
        """The line that called it, on the way to an operation; its own where none is known."""
        lines = list(_with_callers(verdict.miss))
        own = [i for i, (line, _) in enumerate(lines) if (line.file, line.function) == self][-1]
        # What only hands the call on, as the wrapper of a decorator, asked for nothing.
        asking = (line for line, above in lines[own + 1 :] if _is_called_whole(line, above))
        return next(asking, lines[own][0])


def _call(verdict: Verdict, drivers: frozenset[Place]) -> Call | None:
    """The outermost function of the user's around an operation that could be jitted whole.

    What is local to a function that does not call it was made by a decorator, as a rule: it is
    named only where nothing else is.
    """
    found = [
        (line, above)
        for line, above in _with_callers(verdict.miss)
        if _is_named(line.function) and (line.file, line.function) not in drivers
    ]
    if not found:
        return None
    plain = [line for line, above in found if _is_called_whole(line, above)]
    line = plain[-1] if plain else found[0][0]
    return Call(line.file, line.function)


def _lines(miss: Miss) -> tuple[CallSite, ...]:
    """The user's lines around a miss, the innermost first."""
    return () if miss.call_site is None else (miss.call_site, *miss.callers)


def _with_callers(miss: Miss) -> Iterator[tuple[CallSite, CallSite | None]]:
    """The user's lines around a miss, each with the one that called its function."""
    lines = _lines(miss)
    return zip(lines, (*lines[1:], None), strict=False)


def _is_called_whole(line: CallSite, above: CallSite | None) -> bool:
    """Whether it is a function of a module or a class, or one of the function that calls it."""
    outer, local, _ = line.function.rpartition(".<locals>.")
    return not local or (above is not None and above.function == outer)


class _Sized(NamedTuple):
    """A line of which an operation was compiled for several sizes."""

    site: CallSite
    members: list[Verdict]
    again: tuple[Verdict, ...]
    sizes: frozenset[Dim]

    @property
    def joins(self) -> bool:
        """Whether arrays are joined, another number of them each time."""
        nearest = (verdict.nearest for verdict in self.again)
        pairs = zip(nearest, self.again, strict=True)
        return all(old is not None and joins(old, new.miss) for old, new in pairs)


def _gathered(found: list[_Sized], inside: list[tuple[Verdict, ...]]) -> Iterator[Root]:
    """One cause for all lines to which the same sizes come, as of one array that grows.

    Padded where it is made, it comes with fewer sizes to the calls of libraries, too. What these
    run for sizes that no line of the user's has is left as it is.
    """
    found.sort(key=lambda one: len(one.sizes), reverse=True)
    gathered: list[list[_Sized]] = []
    for one in found:
        for group in gathered:
            leader = group[0]
            if (
                one.site.file == leader.site.file
                and one.sizes <= leader.sizes
                and not (one.joins or leader.joins)
            ):
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
        loop = all(verdict.miss.bodies for verdict in again)
        bodies = (new_body(verdict.miss, verdict.nearest) for verdict in again)
        body = next(filter(None, bodies), None) if loop else None
        advice = FewSizes(loop=True, body=body, proof=Proof.MEANING) if loop else None
        if group[0].joins:
            advice = FewSizes(joined=True)  # NumPy joins any number of them
        yield Root("eager-sizes", dearest.site, tuple(members), again, advice, lines=number)


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
    """Whether it is a function that has a name, which could be jitted as it stands."""
    return not function.endswith(">")


def _drives(function: str) -> bool:
    name = function.rpartition(".")[2]
    return name in _DRIVING or name.startswith("test")

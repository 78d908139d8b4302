"""Eager operations grouped by cause, and which of them the user could save.

One call into a library is one cause, however many of its lines run. So is one host callback, one
import, and one call of the user's function with everything it calls. Sizes are a cause only if
one place ran the same operation again and only sizes changed: two layers of a network are not
two sizes of one thing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain

from retrace.causes import Cause
from retrace.model import CallSite, Listing, Verdict
from retrace.model.advice import (
    AtImport,
    EnableJit,
    InCallback,
    JitInit,
    Library,
    LibraryCall,
    Proof,
)
from retrace.plan.calls import (
    Call,
    Place,
    call_around,
    drivers_of,
    is_below,
    lines_traced,
    whole_around,
    works_inside,
)
from retrace.plan.operations import made_again, repeated
from retrace.plan.root import Family, Line, Root
from retrace.plan.sized_lines import SizedLine, gathered, sized_line
from retrace.reason.eager import of_caller

_MIN_REPEATS = 3
"""Minimum number of programs for one operation on a line to count as repeated."""
_MIN_PROGRAMS = 10
"""Minimum number of programs for a cause to be reported."""
_MIN_LOOPS = 2
"""Minimum number of times that a line compiled a library's loop again."""
_MIN_OF_LIBRARY = 0.5
"""Seconds of a library's operations from which to ask whether its call can be jitted."""


def roots(verdicts: Iterable[Verdict], listings: Mapping[str, Listing]) -> Iterator[Root]:
    """The causes of eager operations that the user could change.

    What a library runs within one call or import is left out unless it takes long: whether its
    call works in a jitted function is not known. But a loop whose body it creates at each call
    compiles once in a jitted call.

    Args:
        verdicts: of a recording.
        listings: the texts of its programs, by id.
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
        elif isinstance(advice, EnableJit):
            called.setdefault(("eager-disabled", advice.at), []).append(verdict)
        elif isinstance(advice, AtImport):
            called.setdefault(("eager-import", site.file, ""), []).append(verdict)
        elif isinstance(advice, JitInit):
            at = miss.entry or site
            key = ("eager-init", at.file, at.line, miss.through)
            called.setdefault(key, []).append(verdict)
        elif advice is None or (isinstance(advice, LibraryCall) and advice.of is not None):
            lines.setdefault((site.file, site.line), []).append(verdict)
        elif isinstance(advice, LibraryCall):
            inside.setdefault((site.file, site.line), []).append(verdict)
    yield from _called(called)
    loops = {(root.site.file, root.site.line): root for root in _loops(verdicts)}
    traced: frozenset[tuple[str, int]] | None = None
    library = [one for one in verdicts if one.miss.parent is None and works_inside(one)]
    for root in _own(lines, inside, library, drivers_of(verdicts)):
        if root.family == "eager-sizes":
            if traced is None:
                traced = lines_traced(verdicts, listings)
            own = {(one.file, one.line) for v in root.verdicts if (one := v.miss.call_site)}
            root = root.changed(traced=not own.isdisjoint(traced))
            if root.only_jax and root.advice is not None:  # a mask may not do either
                root = root.changed(advice=root.advice.changed(proof=Proof.MEANING))
        line = root.site.file, root.site.line
        if line in loops and root.family == "eager" and root.function is None:
            every = (*loops[line].verdicts, *root.verdicts)  # both go with the same call
            loops[line] = loops[line].changed(verdicts=every)
            continue
        yield root
    yield from loops.values()


def _called(called: dict[Hashable, list[Verdict]]) -> Iterator[Root]:
    """Callbacks, imports, initialisers, and what runs while `jit` is disabled."""
    for members in called.values():
        first = members[0].miss
        site, advice = first.call_site, of_caller(first)
        again: tuple[Verdict, ...] = ()
        family: Family = "eager-import"
        if isinstance(advice, JitInit):
            family, site = "eager-init", first.entry or site
        elif isinstance(advice, InCallback):
            family, again = "eager-callback", repeated(members)
        elif isinstance(advice, EnableJit):
            family, site = "eager-disabled", advice.at or site
        if site is not None and (len(members) >= _MIN_PROGRAMS or len(again) >= _MIN_REPEATS):
            yield Root(
                family=family,
                site=site,
                verdicts=tuple(members),
                certain=again,
                advice=advice,
            )


def _loops(verdicts: Iterable[Verdict]) -> Iterator[Root]:
    """Lines that call a library which defines the body of an eager loop at each call."""
    lines: dict[Line, list[Verdict]] = {}
    for verdict in verdicts:
        site, fix = verdict.miss.call_site, verdict.fix
        if verdict.miss.parent is not None or site is None or site.in_library:
            continue
        if isinstance(fix, Library) and fix.is_body and fix.maker:
            lines.setdefault((site.file, site.line), []).append(verdict)
    for members in lines.values():
        site = members[0].miss.call_site
        again = [one for one in members if one.program is not None and one.program.is_wasted]
        if site is not None and len(members) >= _MIN_LOOPS:
            yield Root(
                family="eager",
                site=site,
                verdicts=tuple(members),
                certain=tuple(again),
                advice=members[0].fix,
            )


def _own(
    lines: dict[tuple[str, int], list[Verdict]],
    inside: dict[tuple[str, int], list[Verdict]],
    library: Iterable[Verdict],
    drivers: frozenset[Place],
) -> Iterator[Root]:
    """Operations on the user's own lines: by line if sizes vary, otherwise by function.

    What libraries run and trace below such a function goes away with it.
    """
    jitted: list[Verdict] = []
    of_sizes: list[SizedLine] = []
    for members in lines.values():
        line = sized_line(members)
        if line is None:
            jitted += members
        else:
            of_sizes.append(line)
    by_sizes = list(gathered(of_sizes, inside.values()))
    yield from by_sizes
    taken = {verdict.miss.id for root in by_sizes for verdict in root.verdicts}
    below: dict[Call | Line | None, list[Verdict]] = {}
    for verdict in chain.from_iterable(inside.values()):
        if verdict.miss.id in taken:
            continue
        advice = of_caller(verdict.miss)
        if isinstance(advice, LibraryCall) and advice.pure:
            jitted.append(verdict)
        else:
            below.setdefault(whole_around(verdict, drivers), []).append(verdict)
    yield from _jitted(jitted, below, library, drivers)


def _jitted(
    jitted: Iterable[Verdict],
    below: Mapping[Call | Line | None, list[Verdict]],
    library: Iterable[Verdict],
    drivers: frozenset[Place],
) -> Iterator[Root]:
    """Operations that one jitted function would compile together."""
    rest: dict[Call | Line, list[Verdict]] = {}
    sites: dict[Call | Line, CallSite] = {}
    for verdict in jitted:
        call = call_around(verdict, drivers)
        # Not a line of a method that a library calls, where it may not be jitted at all.
        site = verdict.miss.entry or verdict.miss.call_site
        if call is not None and call.is_operator:
            call, site = None, call.call_site(verdict)
        if call is not None:
            if call not in rest:
                sites[call] = call.call_site(verdict)
            rest.setdefault(call, []).append(verdict)
        elif site is not None:
            sites[site.file, site.line] = site
            rest.setdefault((site.file, site.line), []).append(verdict)
    done: set[Call | Line] = set()
    for call, members in rest.items():
        traced = (one for one in library if is_below(one, call))
        every = (*members, *below.get(call, ()), *traced)
        again = made_again(every)
        if len(members) < _MIN_PROGRAMS and not made_again(members):
            continue
        if len({verdict.miss.function.jax_name for verdict in every}) == 1 and not again:
            continue  # jitting one operation on many arrays gives just as many programs
        done.add(call)
        root = Root(family="eager", site=sites[call], verdicts=every, certain=again)
        if isinstance(call, Call):
            loops = dict.fromkeys(loop for one in every for loop in call.loops(one))
            root = root.changed(function=call.function, loops=tuple(loops))
        yield root
    rest_of_libraries = (own for call, own in below.items() if call not in done)
    yield from _calls_of_libraries(chain.from_iterable(rest_of_libraries), library)


def _calls_of_libraries(below: Iterable[Verdict], library: Iterable[Verdict]) -> Iterator[Root]:
    """Lines that call a library which runs many operations: the call may work in a jitted one."""
    lines: dict[Line, list[Verdict]] = {}
    sites: dict[Line, CallSite] = {}
    for verdict in below:
        if (site := verdict.miss.entry or verdict.miss.call_site) is not None:
            sites.setdefault((site.file, site.line), site)
            lines.setdefault((site.file, site.line), []).append(verdict)
    for line, members in lines.items():
        names = {verdict.miss.function.jax_name for verdict in members}
        spent = sum(verdict.miss.seconds for verdict in members)
        if len(members) < _MIN_PROGRAMS or len(names) == 1 or spent < _MIN_OF_LIBRARY:
            continue
        every = (*members, *(one for one in library if is_below(one, line)))
        yield Root(family="eager", site=sites[line], verdicts=every, certain=made_again(every))

"""Finds the function of a miss in a log, and what the log does not show about the miss.

A log names the definition of a function only with `jax_explain_cache_misses`, and never its
static arguments, options or configuration. The usual reasoning finds a cause only if JAX's words
and the arguments of the programs leave exactly one; otherwise the miss lists what was not seen,
and its cause is `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count

from retrace.logs.jax_names import OF_JAX, SURELY_OF_JAX, WITH_BODY
from retrace.logs.observed import Observed
from retrace.logs.words import Words, names_of
from retrace.model import Function, Kind, Leaf
from retrace.model.log import (
    LOG_BODY,
    LOG_EARLIER,
    LOG_KEY,
    LOG_NAME,
    LOG_NEW,
    LOG_OBJECTS,
    LOG_OPTIONS,
    LOG_STATIC,
    LOG_TORN,
    LOG_UNUSED,
    LOG_WHOSE,
)

_CELL = re.compile(r"<ipython-input-|.*ipykernel_\d+[/\\]\d+\.py$")
_MAX_SITES = 100_000
_MAX_KEYS = 256


class Site:
    """What the log has shown about one definition or name."""

    __slots__ = ("function", "objects", "programs")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.objects = 1
        """How many of its function objects were new to JAX."""
        self.programs: dict[tuple[Leaf, ...], None] = {}
        """The arguments of its programs so far, up to a limit."""


class Placed:
    """A miss with its function."""

    __slots__ = ("function", "new", "traced", "unseen")

    def __init__(self, function: Function, new: bool, unseen: tuple[str, ...]) -> None:
        self.function = function
        self.new = new
        self.unseen = unseen
        self.traced = True
        """Whether a logged trace really ran."""


class Sites:
    """The functions of one process."""

    def __init__(self) -> None:
        self._sites: dict[str, Site] = {}
        self._named: dict[str, list[str]] = {}
        """The sites of each name for which JAX has explained a miss."""
        self._objects = count(1)

    def place(
        self,
        miss: Observed,
        *,
        explains: bool,
        static_shown: bool,
        torn: bool,
        doubted: Collection[str],
    ) -> Placed:
        """Find the function of a miss, and what the log does not show about the miss.

        Args:
            miss: the miss as known when its program is about to be lowered.
            explains: whether the log has JAX's explanations.
            static_shown: whether this release's explanations include static arguments.
            torn: whether an explanation with an unknown function is lost.
            doubted: names of programs whose arguments are lost.
        """
        if miss.words is not None:
            placed = self._explained(miss, miss.words, static_shown)
        else:
            placed = self._named_only(miss, explains)
        if not placed.unseen and (
            miss.name in doubted
            # The lost explanation may have been about this function.
            or (torn and _in_doubt(placed))
        ):
            placed.unseen = (LOG_TORN,)
        site = self._sites.get(placed.function.site)
        is_known = site is not None and miss.leaves in site.programs
        if miss.words is None and not placed.new and placed.function.kind is not Kind.OP:
            # JAX also logs traces that it finds in its cache; if it explains misses, a missing
            # explanation shows that this was one.
            placed.traced = not (is_known or explains)
        if site is None or miss.leaves is None or is_known:
            return placed
        if len(site.programs) < _MAX_KEYS:
            site.programs[miss.leaves] = None
        return placed

    def _explained(self, miss: Observed, words: Words, static_shown: bool) -> Placed:
        where = f"{words.file}:{words.line}" if words.file else "unknown"
        if words.file and _CELL.match(words.file):
            where = "notebook"  # cells get a new file each time they run
        key = f"{where} {words.name}"
        site = self._sites.get(key)
        if site is None:
            kind = Kind.LAMBDA if words.name == "<lambda>" else Kind.DEF
            if words.file is None:
                kind = Kind.CALLABLE
            site = self._make(key, words.name, miss.name, kind, words.file, words.line)
            if len(known := self._named.setdefault(miss.name, [])) < 3:
                known.append(key)
            return Placed(
                site.function, True, (LOG_EARLIER,) if words.seen or words.redefined else ()
            )
        if not words.seen:
            # Looks the same as cleared caches, so a new object is not claimed.
            site.objects += 1
            return Placed(site.function, False, (LOG_NEW,))
        return Placed(site.function, False, _hidden(miss, words, site, static_shown))

    def _named_only(self, miss: Observed, explains: bool) -> Placed:
        name = miss.name
        known = self._named.get(name, ())
        if known:
            # JAX would have explained a trace of this function: it was lowered without one.
            site = self._sites.get(known[0])
            if len(known) == 1 and site is not None:
                return Placed(site.function, False, (LOG_OPTIONS,))
        elif name in SURELY_OF_JAX or (explains and name in OF_JAX):
            return self._operation(name)
        site = self._sites.get(f"name {name}")
        if site is not None:
            return Placed(site.function, False, (LOG_WHOSE,))
        kind = Kind.LAMBDA if name == "<lambda>" else Kind.DEF
        site = self._make(f"name {name}", name, name, kind, None, None)
        # If JAX explains misses, a function without an explanation is from a library or JAX.
        if known or explains or name in OF_JAX or name.startswith("_"):
            return Placed(site.function, True, (LOG_NAME,))
        if not miss.traced or any(child.words for child in miss.children):
            return Placed(site.function, True, (LOG_WHOSE,))
        return Placed(site.function, True, ())

    def _operation(self, name: str) -> Placed:
        site = self._sites.get(f"jax {name}")
        new = site is None
        if site is None:
            site = self._make(f"jax {name}", name, name, Kind.OP, None, None)
        hidden = (LOG_BODY,) if not new and name in WITH_BODY else ()
        return Placed(site.function, new, hidden)

    def _make(
        self, key: str, name: str, jax_name: str, kind: Kind, file: str | None, line: int | None
    ) -> Site:
        if len(self._sites) >= _MAX_SITES:  # a program that generates endless names
            self._sites.clear()
            self._named.clear()
        function = Function(
            name=name.rpartition(".")[2] or name,
            jax_name=jax_name,
            qualname=name,
            kind=kind,
            file=file,
            line=line,
            site=key,
            object=next(self._objects),
        )
        site = self._sites[key] = Site(function)
        return site


def _in_doubt(placed: Placed) -> bool:
    function = placed.function
    own = placed.new or function.kind is Kind.OP
    return own and function.name not in SURELY_OF_JAX


def _hidden(miss: Observed, words: Words, site: Site, static_shown: bool) -> tuple[str, ...]:
    """Why the cause is unknown, for a function object that JAX has seen before."""
    if not words.types_alone:
        return (LOG_KEY,)
    if site.objects > 1:
        return (LOG_OBJECTS,)
    if not static_shown:
        return (LOG_STATIC,)
    if miss.leaves is None or not _agrees(miss.leaves, words, site):
        return (LOG_UNUSED,)
    return ()


def _agrees(leaves: tuple[Leaf, ...], words: Words, site: Site) -> bool:
    """Whether JAX's words and the arguments of the programs show the same difference."""
    near = nearest(leaves, site)
    if near is None or len(site.programs) >= _MAX_KEYS:
        return False
    return any(names_of(differences, leaves, near) for differences in words.closest)


def nearest(leaves: tuple[Leaf, ...], site: Site) -> tuple[Leaf, ...] | None:
    """The earlier arguments with the fewest differences; in a tie, the latest."""
    best: tuple[Leaf, ...] | None = None
    least = 0
    for other in site.programs:
        if len(other) != len(leaves):
            continue
        apart = sum(
            sum(x != y for x, y in zip(a[1:5], b[1:5], strict=True))
            for a, b in zip(leaves, other, strict=True)
            if a is not b and a != b
        )
        if best is None or apart <= least:
            best, least = other, apart
    return best

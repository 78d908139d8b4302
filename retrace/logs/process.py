"""Assembles the misses of one process from its log lines.

For each call JAX logs, in this order: the cache miss and its reason (from 0.9 on; earlier
releases log it after the trace), the trace, the program and its arguments, its lowering, the
persistent cache, XLA. Only the function's name and the order of the lines show which ones belong
together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from retrace.logs import observed
from retrace.logs.avals import leaves_of
from retrace.logs.message import (
    Compiled,
    Compiling,
    Event,
    Explained,
    Ingredient,
    Lowered,
    OnDisk,
    Remark,
    Traced,
)
from retrace.logs.observed import Observed, Thread, same_name
from retrace.logs.words import parse
from retrace.model import CallSite, PersistentCache, Stage

_MAX_OPEN = 256
"""Maximum number of programs waiting for their next stage (lowered but never compiled, say)."""
_MAX_FRAMES = 64
_MAX_CHILDREN = 4096
_MAX_REMARKS = 8
_MAX_INGREDIENTS = 32
_MAX_REMARK_CHARACTERS = 2000
_LASTED = (Traced, Lowered, Compiled)


class Process:
    """The state of one process."""

    def __init__(
        self,
        begun: Callable[[Observed, Observed | None], None],
        ended: Callable[[Observed], None],
        lose: Callable[[str, int], None],
        started: float,
    ) -> None:
        """Call `begun` with each miss and its parent once known, and `ended` when it is over."""
        self._begin = begun
        self._ended = ended
        self._lose = lose
        self._clock = started
        self._timed = False
        self._threads: dict[str, Thread] = {}
        self._open: dict[str, list[Observed]] = {}
        """Programs being lowered or compiled, by name, the latest last."""
        self._waiting = 0
        self._latest: Observed | None = None
        self._ingredients: list[Ingredient] = []
        self.explains = False
        """Whether the log has JAX's explanations, which every traced user function gets then."""
        self.nested_too = False
        self.static_in_tree = False
        self._explaining: tuple[Observed, Explained] | None = None
        self.explanation_torn = False
        """Whether an explanation is lost, so a function may have been traced before."""
        self.doubted: set[str] = set()
        """Names of programs whose arguments are lost, up to a limit."""
        self._takes: Mapping[type[Event], Callable[[Any, str], None]] = {
            Traced: self._traced,
            Lowered: self._lowered,
            Compiled: self._compiled,
            Compiling: self._compiling,
            Explained: self._explained,
            Ingredient: self._ingredient,
            OnDisk: self._on_disk,
            Remark: self._remark,
        }

    def torn(self, *, explanation: bool) -> None:
        """A line by JAX was torn, in an explanation or elsewhere."""
        self._lose(observed.TORN_LINE, 1)
        self.explanation_torn = self.explanation_torn or explanation

    def _doubt(self, name: str) -> None:
        if len(self.doubted) < _MAX_OPEN:
            self.doubted.update((name, name.partition("_")[2]))

    def feed(self, event: Event, thread: str, time: float | None) -> None:
        """Process the event of the next line."""
        if time is not None:
            self._clock, self._timed = time, True
        elif isinstance(event, _LASTED):
            # A log without times still shows the order, and how long each stage took.
            self._clock += event.seconds
        self._takes[type(event)](event, thread)

    def explain(self, text: str) -> None:
        """Process the lines below the last `TRACING CACHE MISS`."""
        if self._explaining is None:
            return
        (miss, event), self._explaining = self._explaining, None
        words = parse(text)
        if words is None:
            self.torn(explanation=True)
            return
        self.static_in_tree = self.static_in_tree or words.static_in_tree
        miss.words = words
        if not event.after:
            miss.name = words.name

    def end(self) -> None:
        """There are no more lines."""
        for thread in self._threads.values():
            self._settle(thread, ())
            for frame in thread.frames:
                self._trace_alone(frame)
            thread.frames.clear()
        for waiting in list(self._open.values()):
            for miss in waiting:
                self._close(miss)
        self._open.clear()

    def _of(self, thread: str) -> Thread:
        found = self._threads.get(thread)
        if found is None:
            if len(self._threads) >= _MAX_OPEN:  # not really thread names: treat all as one
                return self._threads[next(iter(self._threads))]
            found = self._threads[thread] = Thread()
        return found

    def _explained(self, event: Explained, name: str) -> None:
        thread = self._of(name)
        self.explains = True
        site = CallSite(event.file, event.line, event.function, None, False)
        if event.after:
            # It explains the trace that has just ended, whose line has the name.
            miss = thread.closed[-1] if thread.closed else None
            if miss is None or miss.words is not None:
                miss = Observed("<unknown>", self._clock, name)
                thread.closed.append(miss)
        else:
            if not thread.frames:
                self._settle(thread, ())
            miss = Observed("<unknown>", self._clock, name, announced=True)
            if self._latest is not None and self._latest.lowering:
                # Lowering also traces, mostly JAX's own functions.
                self._latest.children.append(miss)
                miss.call_site = site
                self._explaining = (miss, event)
                return
            if len(thread.frames) >= _MAX_FRAMES:
                self._trace_alone(thread.frames.pop(0))
            thread.frames.append(miss)
        miss.call_site = site
        self._explaining = (miss, event)

    def _traced(self, event: Traced, name: str) -> None:
        thread = self._of(name)
        self.nested_too = self.nested_too or event.nested_too
        frames = thread.frames
        at = [i for i, frame in enumerate(frames) if same_name(frame.name, event.name)]
        if at:
            index = at[-1] if event.nested_too else at[0]
            miss = frames[index]
            miss.children += frames[index + 1 :]
            del frames[index:]
        elif frames and event.nested_too:
            frames[-1].inner += 1  # inside the current trace
            return
        else:
            miss = self._own_after_all(event, thread) or Observed(
                event.name, self._clock - event.seconds, name
            )
            miss.children += frames
            frames.clear()
        miss.traced = True
        miss.time = min(miss.time, self._clock - event.seconds)
        miss.stages[Stage.TRACE] = event.seconds
        if frames:
            if len(frames[-1].children) < _MAX_CHILDREN:
                frames[-1].children.append(miss)
            return
        if not event.nested_too:
            self._settle(thread, ())
        elif len(thread.closed) >= _MAX_CHILDREN:
            self._settle(thread, thread.closed[-_MAX_FRAMES:])
        thread.closed.append(miss)

    def _own_after_all(self, event: Traced, thread: Thread) -> Observed | None:
        """A miss taken for a nested trace that turns out to be another thread's outermost one.

        From 0.10 on only outermost traces are logged when they end.
        """
        if event.nested_too:
            return None
        around = [*thread.closed, *(one for known in self._open.values() for one in known)]
        for outer in reversed(around):
            for child in outer.children:
                if not child.traced and child.words and same_name(child.name, event.name):
                    outer.children.remove(child)
                    return child
        return None

    def _settle(self, thread: Thread, kept: tuple[Observed, ...] | list[Observed]) -> None:
        """Stop waiting for more lines about traces that have ended."""
        for miss in thread.closed:
            if not any(miss is one for one in kept):
                self._trace_alone(miss)
        thread.closed[:] = kept

    def _trace_alone(self, miss: Observed) -> None:
        """Finish a trace without a program."""
        if miss.words is None or miss.is_nameless:
            # The line does not prove a trace: nested traces and cache hits look the same.
            for child in miss.children:
                self._trace_alone(child)
            return
        miss.stages.setdefault(Stage.TRACE, 0.0)
        self._begin(miss, None)
        self._finish(miss)

    def _compiling(self, event: Compiling, name: str) -> None:
        thread = self._of(name)
        miss = self._own_trace(event, thread)
        if miss is None:
            miss = Observed(event.name, self._clock, name)
        miss.name = event.name
        miss.leaves = leaves_of(event.types, event.mapping)
        miss.pmap = event.pmap
        miss.lowering = True
        if miss.leaves is None:
            self._lose("the arguments of a program, in a form that this retrace cannot read", 1)
        if len(miss.children) > _MAX_CHILDREN:
            self._lose("a trace inside another", len(miss.children) - _MAX_CHILDREN)
            del miss.children[_MAX_CHILDREN:]
        self._begin(miss, None)
        known = self._open.setdefault(event.name, [])
        known.append(miss)
        self._waiting += 1
        self._latest = miss
        if self._waiting > _MAX_OPEN:
            oldest = next(iter(self._open))
            self._close(self._open[oldest].pop(0))
            if not self._open[oldest]:
                del self._open[oldest]

    def _own_trace(self, event: Compiling, thread: Thread) -> Observed | None:
        """The trace that led to a program, with its nested traces as children."""
        closed = thread.closed
        at = len(closed) - 1
        while at >= 0 and not same_name(closed[at].name, event.name):
            at -= 1
        if at >= 0:
            miss = closed.pop(at)
            before, after = closed[:at], closed[at:]
            closed.clear()
            for one in before:
                if self._is_inside(one, miss):
                    if one.words is None:
                        miss.inner += 1
                        miss.children += one.children
                    else:
                        miss.children.append(one)
                else:
                    self._trace_alone(one)
            closed += after
            return miss
        for index, frame in enumerate(thread.frames):
            if same_name(frame.name, event.name):
                # In an eager gradient no line shows the end of the trace.
                frame.children += thread.frames[index + 1 :]
                del thread.frames[index:]
                frame.stages.setdefault(Stage.TRACE, 0.0)
                return frame
        self._settle(thread, ())
        return None

    def _is_inside(self, one: Observed, outer: Observed) -> bool:
        """Whether a trace that ended before another one ran inside it."""
        ended_later = one.stages.get(Stage.TRACE, 0.0) <= outer.stages.get(Stage.TRACE, 0.0)
        if not outer.traced or one.announced or not ended_later:
            return False
        if self._timed:
            return one.time >= outer.time - 1e-3  # log times have milliseconds
        return one.call_site is None or one.call_site.function == outer.name

    def _finish(self, miss: Observed) -> None:
        nameless = [child for child in miss.children if child.is_nameless]
        miss.inner += len(nameless)
        self._ended(miss)
        for child in miss.children:
            if child.is_nameless:
                continue
            child.stages.setdefault(Stage.TRACE, 0.0)
            self._begin(child, miss)
            self._finish(child)

    def _close(self, miss: Observed) -> None:
        self._waiting -= 1
        self._finish(miss)

    def _find(self, name: str, *, lowered: bool) -> Observed | None:
        """The latest open program with this name."""
        known = self._open.get(name)
        if known is None and name.startswith(("jit_", "pmap_")):
            known = self._open.get(name.partition("_")[2])
        for miss in reversed(known or ()):
            if (Stage.LOWER in miss.stages) == lowered:
                return miss
        return None

    def _forget(self, miss: Observed, name: str) -> None:
        """Remove a program from the open ones."""
        for opened in (name, name.partition("_")[2]):
            known = self._open.get(opened, ())
            if len(known) == 1 and known[0] is miss:
                del self._open[opened]
                return
            if any(miss is one for one in known):
                self._open[opened] = [one for one in known if one is not miss]
                return

    def _lowered(self, event: Lowered, _: str) -> None:
        miss = self._find(event.name, lowered=False)
        if miss is None:
            self._lose(observed.LOWERING_ALONE, 1)
            self._doubt(event.name)
            return
        miss.lowering = False
        miss.stages[Stage.LOWER] = event.seconds
        self._latest = miss

    def _compiled(self, event: Compiled, _: str) -> None:
        miss = self._find(event.name, lowered=True) or self._find(event.name, lowered=False)
        if miss is None:
            # The log begins in the middle or was torn, but the program was compiled.
            miss = Observed(event.name, self._clock - event.seconds, "")
            self._begin(miss, None)
            self._waiting += 1
            self._doubt(event.name)
        else:
            self._forget(miss, event.name)
        miss.lowering = False
        miss.stages[Stage.COMPILE] = event.seconds
        if self._ingredients and not miss.ingredients:
            miss.ingredients, self._ingredients = tuple(self._ingredients), []
        self._close(miss)
        self._latest = None

    def _of_module(self, module: str) -> Observed | None:
        """The program of an XLA module: `jit__lambda_` is `jit(<lambda>)`."""
        if self._latest is not None and _module(self._latest.name) == _module(module):
            return self._latest
        for known in reversed(self._open.values()):
            for miss in reversed(known):
                if _module(miss.name) == _module(module):
                    return miss
        return None

    def _ingredient(self, event: Ingredient, _: str) -> None:
        if len(self._ingredients) < _MAX_INGREDIENTS:
            self._ingredients.append(event)

    def _on_disk(self, event: OnDisk, _: str) -> None:
        miss = self._of_module(event.module)
        ingredients, self._ingredients = self._ingredients, []
        if miss is None:
            self._lose(observed.DISK_CACHE_ALONE, 1)
            return
        if ingredients:
            miss.ingredients = tuple(ingredients)
        key = event.key or (miss.disk.key if miss.disk else None)
        if key is not None and not key.startswith(event.module) and event.key is None:
            key = None
        miss.disk = PersistentCache(event.outcome, key, event.reason)

    def _remark(self, event: Remark, _: str) -> None:
        miss = self._latest if event.module is None else self._of_module(event.module)
        if miss is None:
            if event.text == "Executable fingerprint":
                self._lose("a compilation that XLA's lines alone tell of, without its time", 1)
            else:
                self._lose("a remark of XLA's or JAX's about no program that the log shows", 1)
            return
        if event.text != "Executable fingerprint" and len(miss.remarks) < _MAX_REMARKS:
            miss.remarks += ((event.by, event.text[:_MAX_REMARK_CHARACTERS]),)


@lru_cache(maxsize=1024)
def _module(name: str) -> str:
    """A name as XLA writes it."""
    name = re.sub(r"^(?:jit|pmap)_(?=.)", "", name)
    return re.sub(r"\W", "_", name).strip("_")

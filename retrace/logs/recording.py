"""Writes the recording of one process found in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrace.logs.observed import Observed
from retrace.logs.process import Process
from retrace.logs.sites import Sites
from retrace.model import JSON, CallSite, Function, Leaf, Node, Run, Stage
from retrace.model.miss_fields import MissFields
from retrace.store.parts import encode_call_site, encode_function
from retrace.store.schema import encode_miss
from retrace.store.writer import Sink, Writer

if TYPE_CHECKING:
    from retrace.store.redaction import Redaction

_MAX_NODES = 64
_MAX_SITES = 1024


class ProcessRecording:
    """The recording of one process, written while its log is read."""

    def __init__(self, run: Run, sink: Sink, redaction: Redaction | None) -> None:
        self._writer = Writer(sink, run, None, redaction)
        self._redaction = redaction
        self._sites = Sites()
        self._numbers = 0
        self._losses: dict[str, int] = {}
        self._trees: dict[int, tuple[Node, ...]] = {}
        self._functions: dict[int, dict[str, JSON]] = {}
        self._called: dict[CallSite, list[JSON]] = {}
        self._begun_last: tuple[int, dict[str, JSON], dict[str, JSON]] | None = None
        self.process = Process(self._begun, self._ended, self._lose, run.started)
        self.compiled = 0
        """How many compilations it has so far."""

    @property
    def misses(self) -> int:
        """How many misses it has so far."""
        return self._numbers

    def end(self) -> None:
        """Finish: the log was read to its end."""
        self.process.end()
        self._write()
        for reason, number in self._losses.items():
            self._writer.loss(reason, number)
        self._writer.end()

    def _lose(self, reason: str, number: int = 1) -> None:
        self._losses[reason] = self._losses.get(reason, 0) + number

    def lose(self, reason: str, number: int = 1) -> None:
        """Count something in the log that could not be imported."""
        self._lose(reason, number)

    def _begun(self, miss: Observed, parent: Observed | None) -> None:
        process = self.process
        miss.number = self._numbers
        self._numbers += 1
        placed = self._sites.place(
            miss,
            explains=process.explains,
            # 0.6 to 0.8 list every kind of difference; 0.9 and 0.10 keep static arguments in the
            # pytree, which they compare before the types.
            static_shown=process.nested_too or process.static_in_tree,
            torn=process.explanation_torn,
            doubted=process.doubted,
        )
        miss.proven = placed.traced
        fields: MissFields = {"at": miss.time, "thread": miss.thread or "main"}
        if placed.new:
            fields["new"] = True
        if parent is not None:
            fields["parent"] = parent.number
            fields["nested"] = True
        if placed.unseen:
            fields["unseen"] = placed.unseen
        if miss.lowering:
            fields["stage"] = Stage.LOWER
        parts: dict[str, JSON] = {"function": self._function(placed.function)}
        if miss.leaves:
            parts["leaves"] = miss.leaves
            parts["tree"] = self._tree(miss.leaves)
        if miss.call_site is not None:
            parts["call_site"] = self._site(miss.call_site)
        self._write()
        self._begun_last = (miss.number, encode_miss(fields, self._redaction), parts)

    def _write(self) -> None:
        """Write the last miss that began, delayed because most end before the next begins."""
        if self._begun_last is not None:
            number, fields, parts = self._begun_last
            self._begun_last = None
            # Parts are cached objects, so the writer can recognise those it has encoded before.
            self._writer.miss(number, fields, parts, shared=parts)

    def _function(self, function: Function) -> dict[str, JSON]:
        known = self._functions.get(function.object)
        if known is None:
            hide = self._redaction
            if len(self._functions) > 4096:
                self._functions.clear()
            known = encode_function(function if hide is None else hide.function(function))
            self._functions[function.object] = known
        return known

    def _site(self, site: CallSite) -> list[JSON]:
        known = self._called.get(site)
        if known is None:
            hide = self._redaction
            if len(self._called) >= _MAX_SITES:
                self._called.clear()
            known = encode_call_site(site if hide is None else hide.call_site(site))
            self._called[site] = known
        return known

    def _tree(self, leaves: tuple[Leaf, ...]) -> tuple[Node, ...]:
        """A tree that only shows the number of arguments."""
        size = len(leaves)
        tree = self._trees.get(size)
        if tree is None:
            if len(self._trees) >= _MAX_NODES:
                self._trees.clear()
            names = tuple(leaf.path.removeprefix("args") for leaf in leaves)
            tree = self._trees[size] = (Node("args", "tuple", names),)
        return tree

    def _ended(self, miss: Observed) -> None:
        stages = dict(miss.stages)
        if not miss.proven:
            stages.pop(Stage.TRACE, None)
        if Stage.COMPILE in stages:
            self.compiled += 1
        fields: MissFields = {}
        if stages:
            fields["stages"] = stages
        if miss.inner:
            fields["inner"] = miss.inner
        if miss.disk is not None:
            fields["persistent_cache"] = miss.disk._replace(ingredients=miss.ingredients)
        words = () if miss.words is None else (("jax", miss.words.text),)
        if said := (*words, *miss.remarks):
            fields["said"] = said
        if not fields:
            return
        line = encode_miss(fields, self._redaction)
        if (last := self._begun_last) is not None and last[0] == miss.number:
            last[1]["over"] = line
        else:
            self._writer.amend(miss.number, line)

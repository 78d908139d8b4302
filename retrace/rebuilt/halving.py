"""Finds the smallest part of a module that stays slow by compiling halves of it alone.

Runs in a separate process and answers in JSON. Seconds are processor time, which other programs
on the machine disturb least; for a GPU compiler they are wall-clock time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import jax

from retrace.capture.place import Owner, owner
from retrace.jax_internals.alone import compiled, filled, require, warm
from retrace.jax_internals.modules import At, Modules, Part, called, places

_MIN_SHARE = 0.6
"""Fraction of a part's seconds that one half must take to be examined on its own."""
_MAX_STEPS = 40


class Halving:
    """Narrows the whole module down to ever smaller parts."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._modules = Modules(given["text"])
        self._options: tuple[Any, ...] = tuple(given["options"])
        self._platform: str = self._options[-1] or jax.default_backend()
        self._steps: list[dict[str, Any]] = []
        self._around: tuple[str, int] | None = None
        """The line that calls or loops over the part being examined."""
        self._inside: str | None = None
        """The function being examined, if it is not the main one."""

    def answer(self) -> dict[str, Any]:
        """The smallest part that stays slow, and the parts on the way there."""
        require(self._platform)
        warm(self._platform)
        part = self._modules.whole()
        spent = self._spent(part)
        while len(self._steps) < _MAX_STEPS:
            smaller = self._modules.inside(part)
            found = [(self._spent(one), one) for one in smaller or _halves(part)]
            # Alone, a callee or loop body is nearly everything in the part that contains it.
            seconds, best = max(found, key=lambda one: one[0], default=(0.0, part))
            if seconds < _MIN_SHARE * spent or not found:
                break
            if smaller:
                self._enter(part)
            part, spent = best, seconds
        rows = self._modules.operations(part)
        lines = Counter(line for row in rows if (line := self._line(row)) is not None)
        return {
            "text": self._modules.text(part),
            "steps": self._steps,
            "part": {"operations": len(rows), "seconds": spent},
            "lines": [[*line, number] for line, number in lines.most_common()],
            "kinds": Counter(_kind(row) for row in rows).most_common(),
        }

    def _enter(self, part: Part) -> None:
        (row,) = self._modules.operations(part)
        self._around, self._inside = self._line(row) or self._around, called(row) or self._inside

    def _spent(self, part: Part) -> float:
        text, _ = filled(self._modules.text(part))
        measured = compiled(text, *self._options)
        # Much of a GPU compiler's work is done by other processes and by the device.
        seconds = measured.processor if self._platform == "cpu" else measured.seconds
        self._steps.append({"operations": part.end - part.first, "seconds": seconds})
        return seconds

    def _line(self, operation: Any) -> tuple[str, int] | None:
        """The user's innermost line, or a library's if there is none."""
        lines = places(operation)
        if self._inside is not None and not any(at.function == self._inside for at in lines):
            # JAX caches the traces of its own functions, with the lines of their first caller.
            return self._around
        own = [at for at in lines if owner(at.file) is Owner.USER]
        found: At | None = next(iter(own or lines), None)
        return self._around if found is None else (found.file, found.line)


def _halves(part: Part) -> list[Part]:
    middle = (part.first + part.end) // 2
    if middle == part.first:
        return []
    return [part._replace(end=middle), part._replace(first=middle)]


def _kind(operation: Any) -> str:
    return str(operation.name).removeprefix("stablehlo.")


if __name__ == "__main__":
    json.dump(Halving(json.load(sys.stdin)).answer(), sys.stdout)

"""The smallest part of a module that stays slow: halves of it are compiled alone.

Runs as a process of its own, and answers in JSON. Seconds are those of processors, which other
programs on the same machine disturb least; of a GPU's compiler those that pass.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import jax

from retrace.capture.place import Owner, owner
from retrace.jax_internals.alone import compiled, filled, warm
from retrace.jax_internals.modules import At, Modules, Part, called, places

_STAYS = 0.6
"""Of the seconds of a part, what a half of it must take to be looked at alone."""
_MAX_STEPS = 40


class Halving:
    """Goes on from the whole to ever smaller parts."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._modules = Modules(given["text"])
        self._options: tuple[Any, ...] = tuple(given["options"])
        self._steps: list[dict[str, Any]] = []
        self._around: tuple[str, int] | None = None
        """The line that calls, or loops over, what is looked at."""
        self._inside: str | None = None
        """The function that is looked at, where it is not the main one."""

    def answer(self) -> dict[str, Any]:
        """The smallest part that stays slow, and the parts on the way."""
        warm()
        part = self._modules.whole()
        spent = self._spent(part)
        while len(self._steps) < _MAX_STEPS:
            smaller = self._modules.inside(part)
            found = [(self._spent(one), one) for one in smaller or _halves(part)]
            # Alone, a callee or the body of a loop is nearly all of what holds it.
            seconds, best = max(found, key=lambda one: one[0], default=(0.0, part))
            if seconds < _STAYS * spent or not found:
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
        told = compiled(text, *self._options)
        # Of a GPU's compiler much is done by other processes, and by the device.
        seconds = told.processor if jax.default_backend() == "cpu" else told.seconds
        self._steps.append({"operations": part.end - part.first, "seconds": seconds})
        return seconds

    def _line(self, operation: Any) -> tuple[str, int] | None:
        """The user's innermost line; where there is none, a library's."""
        lines = places(operation)
        if self._inside is not None and not any(at.function == self._inside for at in lines):
            # JAX keeps the trace of its own functions, and the lines of who called them first.
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

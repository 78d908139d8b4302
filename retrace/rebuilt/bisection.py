"""Asks a process of its own for the smallest part of a program that stays slow."""

from __future__ import annotations

import json
from typing import Any

from retrace.errors import UsageError
from retrace.model.slow import Cut, Halved
from retrace.rebuilt.process import run
from retrace.rebuilt.script import Recorded


def halved(recorded: Recorded) -> Halved:
    """The smallest part that stays slow.

    Raises:
        UsageError: it cannot be compiled by parts.
    """
    module = recorded.module
    if module.partitions * module.replicas > 1:
        raise UsageError(
            "--bisect takes programs of one device: the parts of this one would be compiled "
            "without the shardings of their arguments"
        )
    flags = recorded.run.variables.get("XLA_FLAGS", "")
    asked = {"text": recorded.text, "options": [1, 1, [list(one) for one in module.options]]}
    told = run(
        ["-P", "-m", "retrace.rebuilt.halving"], {"XLA_FLAGS": flags}, given=json.dumps(asked)
    )
    found: dict[str, Any] = json.loads(told)
    steps = tuple(Cut(**step) for step in found["steps"])
    return Halved(
        whole=steps[0],
        part=Cut(**found["part"]),
        steps=steps,
        lines=tuple((file, line, number) for file, line, number in found["lines"]),
        kinds=tuple((name, number) for name, number in found["kinds"]),
        text=found["text"],
    )

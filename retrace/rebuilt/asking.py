"""Asks a process of its own for the passes of a program, or for the part that stays slow."""

from __future__ import annotations

import json
from typing import Any

from retrace.errors import UsageError
from retrace.model.slow import Compiling, Cut, Halved, Profiled
from retrace.rebuilt.process import run
from retrace.rebuilt.script import Recorded, flags
from retrace.store.slow import decode_slow


def profiled(recorded: Recorded) -> Profiled:
    """The passes and lines of a program that is compiled again.

    Raises:
        UsageError: it cannot be compiled, or this JAX has no profile of it.
    """
    module = recorded.module
    given = [module.partitions, module.replicas, [list(one) for one in module.options]]
    found = _asked("profiling", recorded, given, flags(recorded))
    if "slow" not in found:
        raise UsageError("this JAX has no profile of its compiler: jax 0.8 and later have one")
    seen = decode_slow(found["slow"], None).compiling or Compiling()
    return Profiled(float(found["seconds"]), seen)


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
    given = [1, 1, [list(one) for one in module.options]]
    found = _asked("halving", recorded, given, recorded.run.variables.get("XLA_FLAGS", ""))
    steps = tuple(Cut(**step) for step in found["steps"])
    return Halved(
        whole=steps[0],
        part=Cut(**found["part"]),
        steps=steps,
        lines=tuple((file, line, number) for file, line, number in found["lines"]),
        kinds=tuple((name, number) for name, number in found["kinds"]),
        text=found["text"],
    )


def _asked(module: str, recorded: Recorded, options: list[Any], flags: str) -> dict[str, Any]:
    asked = {"text": recorded.text, "options": options}
    told = run(
        ["-P", "-m", f"retrace.rebuilt.{module}"], {"XLA_FLAGS": flags}, given=json.dumps(asked)
    )
    return json.loads(told)

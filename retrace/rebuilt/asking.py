"""Asks a separate process for the passes of a program, or for the part that stays slow."""

from __future__ import annotations

import json
from typing import Any

from retrace.errors import UsageError
from retrace.model.slow import Compiling, Cut, Halved, Profiled
from retrace.rebuilt.process import run
from retrace.rebuilt.script import Recorded, flags
from retrace.store.slow import decode_slow


def profiled(recorded: Recorded) -> Profiled:
    """The passes and lines of a program, found by compiling it again.

    Raises:
        UsageError: it cannot be compiled, or this JAX cannot profile it.
    """
    found = _ask("profiling", recorded, flags(recorded))
    if "slow" not in found:
        raise UsageError("this JAX cannot profile its compiler: that needs jax 0.8 or later")
    seen = decode_slow(found["slow"], None).compiling or Compiling()
    return Profiled(float(found["seconds"]), seen)


def halved(recorded: Recorded) -> Halved:
    """The smallest part that stays slow.

    Raises:
        UsageError: it cannot be compiled in parts.
    """
    module = recorded.module
    if module.partitions * module.replicas > 1:
        raise UsageError(
            "--bisect only works for programs on one device: parts of this one would be "
            "compiled without the shardings of their arguments"
        )
    found = _ask("halving", recorded, recorded.run.variables.get("XLA_FLAGS", ""))
    steps = tuple(Cut(**step) for step in found["steps"])
    return Halved(
        whole=steps[0],
        part=Cut(**found["part"]),
        steps=steps,
        lines=tuple((file, line, number) for file, line, number in found["lines"]),
        kinds=tuple((name, number) for name, number in found["kinds"]),
        text=found["text"],
    )


def _ask(program: str, recorded: Recorded, flags: str) -> dict[str, Any]:
    module = recorded.module
    options = [module.partitions, module.replicas, [list(one) for one in module.options]]
    asked = {"text": recorded.text, "options": [*options, recorded.platform]}
    answer = run(
        ["-P", "-m", f"retrace.rebuilt.{program}"], {"XLA_FLAGS": flags}, given=json.dumps(asked)
    )
    return json.loads(answer)

"""A script that compiles one recorded module alone, and needs nothing but JAX."""

from __future__ import annotations

import ast
import re
from importlib import resources
from typing import NamedTuple

from retrace.model import Miss, Run, Stage
from retrace.model.slow import Halved, Module

_COMPILED = re.compile(r"compiled in ([\d.]+) s \(([\d.]+) s of processors\)")
_LOCATION = re.compile(
    r'^#loc.*(?:\n|\Z)| loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*"(?:\(#loc\d*\))?)\)',
    re.MULTILINE,
)
_DEVICES = "--xla_force_host_platform_device_count"

_ENDS = """
MODULE = {module}


def main() -> None:
    text, _ = filled(MODULE)
    warm()
    told = compiled(text, {partitions}, {replicas}, {options})
    where = f"jax {{jax.__version__}} on {{jax.default_backend()}}"
    spent = f"{{told.seconds:.3f}} s ({{told.processor:.3f}} s of processors)"
    print(f"compiled in {{spent}} by {{where}}")


if __name__ == "__main__":
    main()
"""


class Recorded(NamedTuple):
    """A program that was recorded with its StableHLO."""

    title: str
    """What it is, in words."""
    text: str
    module: Module
    run: Run
    miss: Miss


class Timed(NamedTuple):
    """What a script told of its compilation."""

    seconds: float
    processor: float


def script(recorded: Recorded, part: Halved | None = None) -> str:
    """The script.

    Args:
        recorded: the program.
        part: of it, where not all of it is meant.
    """
    module = recorded.module
    text = without_locations(recorded.text if part is None else part.text)
    body = resources.files("retrace").joinpath("jax_internals", "alone.py").read_text("utf-8")
    first, future = ast.parse(body).body[:2]
    assert isinstance(first, ast.Expr) and isinstance(future, ast.ImportFrom)
    rest = "\n".join(body.splitlines()[future.end_lineno :])
    head = [
        "# retrace: a program that compiles slowly, alone",
        f'"""{_about(recorded, part, stand_ins(text))}"""',
        "",
        "from __future__ import annotations",
        "",
        "import os",
        "",
        "# What the recorded process was given, and after it what this one is given.",
        f"_FLAGS = {flags(recorded)!r}",
        "os.environ[\"XLA_FLAGS\"] = f\"{_FLAGS} {os.environ.get('XLA_FLAGS', '')}\".strip()",
    ]
    ends = _ENDS.format(
        module=_quoted(text),
        partitions=module.partitions,
        replicas=module.replicas,
        options=[list(each) for each in module.options],
    )
    return "\n".join(head) + rest + "\n" + ends


def flags(recorded: Recorded) -> str:
    """XLA's flags that the program was compiled with, and those that it needs here."""
    module, found = recorded.module, recorded.run.variables.get("XLA_FLAGS", "")
    devices = module.partitions * module.replicas
    if devices > 1 and recorded.run.backend == "cpu" and _DEVICES not in found:
        found = f"{found} {_DEVICES}={devices}".strip()
    return found


def timed(output: str) -> Timed | None:
    """What a script printed; None where it did not come to its end."""
    found = _COMPILED.search(output)
    return None if found is None else Timed(float(found[1]), float(found[2]))


def without_locations(text: str) -> str:
    """A module without the names of files in it."""
    return _LOCATION.sub("", text).strip() + "\n"


def stand_ins(text: str) -> int:
    """How many constants of a module are left out."""
    return text.count("dense_resource<__elided__>")


def _about(recorded: Recorded, part: Halved | None, constants: int) -> str:
    run, spent = recorded.run, recorded.miss.stages.get(Stage.COMPILE, 0.0)
    said = ["Compiles one program alone with XLA, and says how long that takes.", ""]
    said.append(f"It is {recorded.title}, recorded with jax {run.jax} on {run.backend}.")
    said.append(f"It compiled in {spent:.3f} s there, its tracing and lowering not counted.")
    if part is not None:
        alone = f"{part.part.seconds:.3f} s of the {part.whole.seconds:.3f} s of processors"
        said += [
            f"This is a part of {part.part.operations:,} of its operations. Alone it took",
            f"{alone}; what comes from outside of it is an argument.",
        ]
    if constants:
        are = "constant is a stand-in" if constants == 1 else "constants are stand-ins"
        said += [
            f"{constants} {are}: shape and dtype are as they were, the content was never",
            "recorded, and is made up by the code below (it is not zero, which would fold away).",
        ]
    else:
        said.append("No constant of it was left out.")
    said += ["", "    python THIS_FILE", "    XLA_FLAGS='--xla_...=...' python THIS_FILE"]
    plain = "\n".join(said).replace("\\", "/").replace('"', "'")
    return f"{plain}\n"


def _quoted(text: str) -> str:
    if "'''" in text or text.endswith(("\\", "'")) or "\r" in text:
        return repr(text)
    return f"r'''\n{text}'''"

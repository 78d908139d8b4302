"""A script that compiles one recorded module alone and needs only JAX."""

from __future__ import annotations

import ast
import re
from importlib import resources
from typing import NamedTuple

from retrace.model import Miss, Run, Stage
from retrace.model.slow import Halved, Module

_COMPILED = re.compile(r"compiled in ([\d.]+) s \(([\d.]+) s of processors\)")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_MAX_DEPTH = 4
"""How deep locations are nested: `loc(callsite("f"(#loc1) at fused[#loc2, #loc3]))`."""


def _balanced(depth: int) -> str:
    inside = rf"|\({_balanced(depth - 1)}\)" if depth else ""
    return rf'(?:[^()"]|{_TEXT}{inside})*'


_LOCATION = re.compile(
    rf"^#loc.*(?:\n|\Z)| loc\({_balanced(_MAX_DEPTH)}\)",
    re.MULTILINE,
)
_DEVICES = "--xla_force_host_platform_device_count"

_ENDS = """
MODULE = {module}


def main() -> None:
    require({platform!r})
    text, _ = filled(MODULE)
    warm({platform!r})
    result = compiled(text, {partitions}, {replicas}, {options}, {platform!r})
    where = f"jax {{jax.__version__}} on {{{platform!r} or jax.default_backend()}}"
    spent = f"{{result.seconds:.3f}} s ({{result.processor:.3f}} s of processors)"
    print(f"compiled in {{spent}} by {{where}}")


if __name__ == "__main__":
    main()
"""


class Recorded(NamedTuple):
    """A program recorded with its StableHLO."""

    title: str
    """What it is, in words."""
    text: str
    module: Module
    run: Run
    miss: Miss

    @property
    def platform(self) -> str:
        """What it was compiled for; empty if that was not recorded."""
        return self.module.platform or self.run.backend or ""


class Timed(NamedTuple):
    """The time that a script's compilation took."""

    seconds: float
    processor: float


def script(recorded: Recorded, part: Halved | None = None) -> str:
    """The script that compiles it.

    Args:
        recorded: the program.
        part: the part to compile, if not the whole program.
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
        "# The flags of the recorded process, followed by those of this one.",
        f"_FLAGS = {flags(recorded)!r}",
        "os.environ[\"XLA_FLAGS\"] = f\"{_FLAGS} {os.environ.get('XLA_FLAGS', '')}\".strip()",
    ]
    ends = _ENDS.format(
        module=_quoted(text),
        partitions=module.partitions,
        replicas=module.replicas,
        options=[list(each) for each in module.options],
        platform=recorded.platform,
    )
    return "\n".join(head) + rest + "\n" + ends


def flags(recorded: Recorded) -> str:
    """The XLA flags that the program was compiled with, and those that it needs here."""
    module, found = recorded.module, recorded.run.variables.get("XLA_FLAGS", "")
    devices = module.partitions * module.replicas
    if devices > 1 and recorded.platform == "cpu" and _DEVICES not in found:
        found = f"{found} {_DEVICES}={devices}".strip()
    return found


def timed(output: str) -> Timed | None:
    """What a script printed, or None if it did not finish."""
    found = _COMPILED.search(output)
    return None if found is None else Timed(float(found[1]), float(found[2]))


def without_locations(text: str) -> str:
    """The module without file names in it."""
    return _LOCATION.sub("", text).strip() + "\n"


def stand_ins(text: str) -> int:
    """The number of constants that the module leaves out."""
    return text.count("dense_resource<__elided__>")


def _about(recorded: Recorded, part: Halved | None, constants: int) -> str:
    run, spent = recorded.run, recorded.miss.stages.get(Stage.COMPILE, 0.0)
    said = ["Compiles one program alone with XLA and prints how long that takes.", ""]
    device = recorded.module.device
    kind = f" ({device})" if device and device != recorded.platform else ""
    what = f"for {recorded.platform}{kind}" if recorded.platform else "for an unknown platform"
    said.append(f"It is {recorded.title}, compiled {what} by jax {run.jax}.")
    said.append(f"It compiled in {spent:.3f} s there, not counting tracing and lowering.")
    if part is not None:
        alone = f"{part.part.seconds:.3f} s of the {part.whole.seconds:.3f} s of processors"
        said += [
            f"This is a part of {part.part.operations:,} of its operations. Alone it took",
            f"{alone}; values from outside the part are arguments.",
        ]
    if constants:
        are = "constant is a stand-in" if constants == 1 else "constants are stand-ins"
        said += [
            f"{constants} {are}: shapes and dtypes are as recorded, the contents were never",
            "recorded and are made up by the code below (not zeros, which XLA would fold away).",
        ]
    else:
        said.append("It contains all constants of the program.")
    said += ["", "    python THIS_FILE", "    XLA_FLAGS='--xla_...=...' python THIS_FILE"]
    plain = "\n".join(said).replace("\\", "/").replace('"', "'")
    return f"{plain}\n"


def _quoted(text: str) -> str:
    if "'''" in text or text.endswith(("\\", "'")) or "\r" in text:
        return repr(text)
    return f"r'''\n{text}'''"

"""Prepares the StableHLO of a slow program for the recording: bounded, and without data.

    %cst = stablehlo.constant dense<"0x3F80..."> : tensor<300x1000xf32>

becomes `dense_resource<__elided__>`, which is how MLIR marks omitted content. A single number and
content of up to 16 bytes are kept: they are the bounds of loops and the start of reductions.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode

from retrace.jax_internals.executable import Given
from retrace.model.slow import Module

_MAX_CHARACTERS = 1 << 25
"""Maximum length of the text of a module that is kept."""
_MAX_PACKED_CHARACTERS = 1 << 23
LEFT_OUT = "dense_resource<__elided__>"

_DENSE = re.compile(r'dense<(?:\[[^>"]*\]|"[^"]*")> : (tensor<(?:[^<>]|<[^<>]*>)*>)')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(?:complex<)?[a-z]+(\d+)")
_MAX_CONSTANT_BYTES = 16
"""Larger constants are left out."""
_CONSTANT = "stablehlo.constant"


def module(given: Given) -> Module:
    """Return what is kept of a compiled program."""
    if len(given.text) > _MAX_CHARACTERS:
        return Module(unkept="size")
    lines = given.text.splitlines()
    number = 0
    for index, line in enumerate(lines):
        if "dense" not in line and "{-#" not in line:
            continue
        if _CONSTANT in line:
            lines[index] = line = _DENSE.sub(_without, line)
            number += line.count(LEFT_OUT)
        elif LEFT_OUT in line or "{-#" in line:
            # Large data that is not a constant: it is not clear what it is, so nothing is kept.
            return Module(unkept="data")
    text = "\n".join(lines)
    packed = b64encode(zlib.compress(text.encode(), 6)).decode()
    if len(packed) > _MAX_PACKED_CHARACTERS:
        return Module(unkept="size")
    return Module(
        packed,
        len(text),
        number,
        given.partitions,
        given.replicas,
        given.options,
        platform=given.platform,
        device=given.device,
    )


def _without(constant: re.Match[str]) -> str:
    type_ = constant[1]
    return constant[0] if _bytes(type_) <= _MAX_CONSTANT_BYTES else f"{LEFT_OUT} : {type_}"


def _bytes(type_: str) -> int:
    found = _TENSOR.match(type_)
    if found is None:
        return _MAX_CONSTANT_BYTES + 1
    number = int(found[2]) * (2 if "complex" in type_ else 1)
    for size in filter(None, found[1].split("x")):
        number *= int(size)
    return (number + 7) // 8

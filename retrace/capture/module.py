"""The StableHLO of a slow program, made ready to be kept: bounded, and without data.

    %cst = stablehlo.constant dense<"0x3F80..."> : tensor<300x1000xf32>

becomes `dense_resource<__elided__>`, MLIR's own word for a content that is left out. What is one
number, or 16 bytes at the most, stays: loops count by it, and reductions begin with it.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode

from retrace.jax_internals.executable import Given
from retrace.model.slow import Module

_LARGEST = 1 << 25
"""Characters of a module that is kept."""
_LARGEST_PACKED = 1 << 23
LEFT_OUT = "dense_resource<__elided__>"

_DENSE = re.compile(r'dense<(?:\[[^>"]*\]|"[^"]*")> : (tensor<(?:[^<>]|<[^<>]*>)*>)')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(?:complex<)?[a-z]+(\d+)")
_SMALL = 16
"""Bytes of content that may be written down, as of other constants."""
_CONSTANT = "stablehlo.constant"


def module(given: Given) -> Module:
    """What is kept of a program that was compiled."""
    if len(given.text) > _LARGEST:
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
            # Something else than a constant that is large: what it is cannot be told.
            return Module(unkept="data")
    text = "\n".join(lines)
    packed = b64encode(zlib.compress(text.encode(), 6)).decode()
    if len(packed) > _LARGEST_PACKED:
        return Module(unkept="size")
    return Module(packed, len(text), number, given.partitions, given.replicas, given.options)


def _without(constant: re.Match[str]) -> str:
    type_ = constant[1]
    return constant[0] if _bytes(type_) <= _SMALL else f"{LEFT_OUT} : {type_}"


def _bytes(type_: str) -> int:
    found = _TENSOR.match(type_)
    if found is None:
        return _SMALL + 1
    number = int(found[2]) * (2 if "complex" in type_ else 1)
    for size in filter(None, found[1].split("x")):
        number *= int(size)
    return (number + 7) // 8

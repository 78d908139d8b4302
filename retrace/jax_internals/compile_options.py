"""The fields of XLA's compile options, as they go into the key of the on-disk cache.

JAX clears options that only say where to dump, and hashes the rest as bytes. Parsing these
bytes gives each field by name, so that a comparison of two keys can name the field that differs.
"""

from __future__ import annotations

import re
from typing import Any

from retrace.jax_internals.names_values import READ_OPTIONS

_MAX_KEPT = 64
"""Maximum number of compile options remembered; a program has one or two, plus one per device."""
_MAX_CHARACTERS = 300
_MAX_DEPTH = 3
_FIELD = re.compile(r"^(\w+):\s*(.*)$")
_BLOCK = re.compile(r"^(\w+)\s*\{$")

Fields = tuple[tuple[str, str], ...]
_known: dict[str, Fields] = {}


def fields_of(data: bytes, digest: str) -> Fields:
    """Each field and its value as text, sorted by name.

    Args:
        data: the bytes that JAX hashes.
        digest: their hash, used to cache the fields.
    """
    found = _known.get(digest)
    if found is None:
        read = READ_OPTIONS.get()
        found = () if read is None else tuple(sorted(_read(read(data), "", _MAX_DEPTH).items()))
        if len(_known) < _MAX_KEPT:
            _known[digest] = found
    return found


def _read(options: Any, prefix: str, depth: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, member in vars(type(options)).items():
        if not isinstance(member, property):
            continue
        try:
            value = getattr(options, name)
        except (RuntimeError, TypeError):  # this jaxlib cannot show it in Python
            continue
        kind = type(value)
        text = str(value)
        if name == "debug_options" and (flags := _flags(text)):
            found |= flags
        elif depth > 1 and any(isinstance(one, property) for one in vars(kind).values()):
            found |= _read(value, f"{prefix}{name}.", depth - 1)
        else:
            found[f"{prefix}{name}"] = " ".join(text.split())[:_MAX_CHARACTERS]
    return found


def _flags(text: str) -> dict[str, str]:
    """XLA's flags, parsed from the text of a protocol buffer."""
    found: dict[str, list[str]] = {}
    block: tuple[str, list[str]] | None = None
    for line in map(str.strip, text.splitlines()):
        if block is not None:
            if line == "}":
                found.setdefault(block[0], []).append(" ".join(block[1]))
                block = None
            else:
                block[1].append(line)
        elif (field := _FIELD.match(line)) is not None:
            found.setdefault(field[1], []).append(field[2])
        elif (begins := _BLOCK.match(line)) is not None:
            block = begins[1], []
    return {name: ", ".join(values)[:_MAX_CHARACTERS] for name, values in found.items()}

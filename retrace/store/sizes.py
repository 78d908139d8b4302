"""The sizes of axes in the text of a type: numbers or symbolic sizes."""

from __future__ import annotations

from retrace.model import Dim
from retrace.regex import regex

SIZE = regex("[0-9]{1,18}")
_ONE = regex(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+")


def sizes_of(shape: str) -> list[Dim]:
    """Split sizes such as `32,n,max(n,4)`."""
    return [int(size) if SIZE.fullmatch(size) else size for size in _ONE.findall(shape)]

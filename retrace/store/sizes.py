"""The sizes of axes in the text of a type: numbers or symbolic sizes."""

from __future__ import annotations

import re

from retrace.model import Dim

SIZE = re.compile("[0-9]{1,18}")
_ONE = re.compile(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+")


def sizes_of(shape: str) -> list[Dim]:
    """Split sizes such as `32,n,max(n,4)`."""
    return [int(size) if SIZE.fullmatch(size) else size for size in _ONE.findall(shape)]

"""Notebook cells, by the number that users see.

    <ipython-input-3-6f1c...>        IPython in a terminal: a new name at each run
    /tmp/ipykernel_4711/2783934.py   a kernel: a new name at each edit

are both `In [3]`.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from retrace.model import CallSite

_TERMINAL = re.compile(r"<ipython-input-(\d+)-")
_KERNEL = f"{os.sep}ipykernel_"
_MAGIC = re.compile(r"<timed (?:eval|exec)>|<magic-timeit>")
"""File names that `%time` and `%timeit` give to the code they run."""


def is_cell(filename: str) -> bool:
    """Whether a file name is that of a cell or of a part of a cell."""
    return (
        _TERMINAL.match(filename) is not None
        or _KERNEL in filename
        or is_timed(filename)
        or _numbered(filename) is not None
    )


def is_timed(filename: str) -> bool:
    """Whether it is code that `%time` runs inside a cell, with its own line numbers."""
    return _MAGIC.match(filename) is not None


def shown(filename: str) -> str:
    """`In [3]` for a cell, `In [ ]` if its number is unknown; other file names are unchanged."""
    if (found := _TERMINAL.match(filename)) is not None:
        return f"In [{found[1]}]"
    if (number := _numbered(filename)) is not None:
        return f"In [{number}]"
    return "In [ ]" if _KERNEL in filename else filename


def line_of(site: CallSite) -> str:
    """A line as part of a definition site; lines of cells are identified by their source."""
    is_shown = site.file.startswith("In [")
    return f"<cell> {site.source}" if is_shown else f"{site.file}:{site.line}"


def _numbered(filename: str) -> str | None:
    """The number of a file in the running shell: that of its latest run."""
    shell = _shell()
    if shell is None:
        return None
    named = shell.compile.format_code_name(filename)  # ("Cell", "In[3]")
    found = None if named is None else re.search(r"\d+", named[1])
    return None if found is None else found[0]


def _shell() -> Any:
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    try:
        shell: Any = ipython.get_ipython()
    except AttributeError:  # it is still being imported
        return None
    return shell if hasattr(getattr(shell, "compile", None), "format_code_name") else None

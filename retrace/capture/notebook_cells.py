"""Cells of a notebook, by the number under which people see them.

    <ipython-input-3-6f1c...>        IPython in a terminal: another name at each run
    /tmp/ipykernel_4711/2783934.py   a kernel: another name at each edit

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
"""What `%time` and `%timeit` call the code that they were given."""


def is_cell(filename: str) -> bool:
    """Whether a file name stands for a cell, or for a part of one."""
    return (
        _TERMINAL.match(filename) is not None
        or _KERNEL in filename
        or is_timed(filename)
        or _numbered(filename) is not None
    )


def is_timed(filename: str) -> bool:
    """Whether it is code inside a cell that `%time` runs, with line numbers of its own."""
    return _MAGIC.match(filename) is not None


def shown(filename: str) -> str:
    """`In [3]` for a cell, `In [ ]` where its number is not known; any other file as it is."""
    if (found := _TERMINAL.match(filename)) is not None:
        return f"In [{found[1]}]"
    if (number := _numbered(filename)) is not None:
        return f"In [{number}]"
    return "In [ ]" if _KERNEL in filename else filename


def line_of(site: CallSite) -> str:
    """A line as part of a definition site: cells are one file, known by what they say."""
    is_shown = site.file.startswith("In [")
    return f"<cell> {site.source}" if is_shown else f"{site.file}:{site.line}"


def _numbered(filename: str) -> str | None:
    """The number that the running shell knows a file by: that of its latest run."""
    shell = _shell()
    if shell is None:
        return None
    named = shell.compile.format_code_name(filename)  # ("Cell", "In[3]")
    found = None if named is None else re.search(r"\d+", named[1])
    return None if found is None else found[0]


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    try:
        shell: Any = ipython.get_ipython() if ipython is not None else None
    except AttributeError:  # it is being imported
        return None
    return shell if hasattr(getattr(shell, "compile", None), "format_code_name") else None

"""Regular expressions that are compiled at their first use.

Compiling one takes up to half a millisecond, and of the eighty that a report loads most are never
used.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class _Regex:
    __slots__ = ("_flags", "_text", *_METHODS)

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        # Called only while the slots are empty: later uses find the compiled pattern's methods.
        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def regex(text: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that is used like one of `re.compile`, and compiled at its first use."""
    return cast("re.Pattern[str]", _Regex(text, flags))

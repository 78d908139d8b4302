"""The user's functions that ran when programs were traced, found by the code they ran.

The bytecode of a jitted function does not show the methods of the objects that it is given: those
of a model, of which each call has another.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

from retrace.capture.place import Owner, owner
from retrace.failure import asked
from retrace.jax_internals.source_stacks import codes_of

_MAX_SHARING = 16
"""Maximum number of functions with the same code."""


class Ran:
    """The functions that ran in several traces."""

    def __init__(self, jaxprs: Iterable[Any]) -> None:
        """Look for the functions; those of one code may be many, of which only one ran."""
        self._codes = {id(jaxpr): asked(_users_code, jaxpr) or () for jaxpr in jaxprs}
        # By `id`: the code of a module that was loaded twice is equal.
        self._functions: dict[int, list[FunctionType]] = {}
        every = {id(code): code for codes in self._codes.values() for code in codes}
        for found in gc.get_referrers(*every.values()) if every else ():
            if type(found) is FunctionType:
                own = self._functions.setdefault(id(found.__code__), [])
                if len(own) < _MAX_SHARING:
                    own.append(found)

    def of(self, jaxpr: Any) -> list[tuple[FunctionType, None]]:
        """The functions that ran in the trace of a program, bound to nothing that is known."""
        codes = self._codes.get(id(jaxpr), ())
        return [(found, None) for code in codes for found in self._functions.get(id(code), ())]


def _users_code(jaxpr: Any) -> tuple[CodeType, ...]:
    codes = {id(code): code for code in codes_of(jaxpr)}
    return tuple([one for one in codes.values() if owner(one.co_filename) is Owner.USER])

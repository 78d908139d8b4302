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
    """The functions that ran in several traces, looked for at most once, in all of memory."""

    def __init__(self, jaxprs: Iterable[Any]) -> None:
        """Note the code that ran; `jaxprs` are alive as long as this is."""
        self._codes = {id(jaxpr): asked(_users_code, jaxpr) or () for jaxpr in jaxprs}
        # By `id`: the code of a module that was loaded twice is equal.
        self._functions: dict[int, list[FunctionType]] | None = None

    def besides(self, functions: list[tuple[Any, Any]], jaxpr: Any) -> list[tuple[Any, Any]]:
        """The functions that ran in the trace of a program, without those that are known.

        Args:
            functions: those that are known, each with the object that it is bound to.
            jaxpr: the program.

        Returns:
            All functions of any other code that ran, of which perhaps only one did. Each comes
            with None: what it was bound to is not known.
        """
        known = {id(function.__code__) for function, _ in functions}
        codes = [code for code in self._codes.get(id(jaxpr), ()) if id(code) not in known]
        if codes and self._functions is None:
            self._functions = self._found()
        found = self._functions or {}
        return [(function, None) for code in codes for function in found.get(id(code), ())]

    def _found(self) -> dict[int, list[FunctionType]]:
        found: dict[int, list[FunctionType]] = {}
        every = {id(code): code for codes in self._codes.values() for code in codes}
        for one in gc.get_referrers(*every.values()):
            if type(one) is FunctionType:
                own = found.setdefault(id(one.__code__), [])
                if len(own) < _MAX_SHARING:
                    own.append(one)
        return found


def _users_code(jaxpr: Any) -> tuple[CodeType, ...]:
    codes = {id(code): code for code in codes_of(jaxpr)}
    return tuple([one for one in codes.values() if owner(one.co_filename) is Owner.USER])

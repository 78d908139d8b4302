"""What a custom rule holds: the functions of `custom_vjp` and `custom_jvp`, by their content.

A jaxpr has the function and a thunk for its rules, which JAX traces when somebody
differentiates. Two programs may differ in nothing but a number that a backward rule closes over.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, cast

import jax
import numpy as np

from retrace.jax_internals.names_values import HOST_ARRAYS, RULE_PARTS, TRACER

_FOLDER = os.path.dirname(jax.__file__) + os.sep
_DEEPEST = 12
_MAX_PARTS = 2_000
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


class Rules:
    """Tells rules by hashes of what they hold.

    Args:
        plain: the text of a value; None where it does not tell all of it.
        held: told each object of which no more than its type could be told.
    """

    def __init__(
        self,
        plain: Callable[[Any], str | None],
        held: Callable[[Any], None],
    ) -> None:
        self._array: Callable[[Any], str] = str
        self._plain = plain
        self._held = held
        self._open: set[int] = set()
        self._known: dict[int, str] = {}
        self._alive: list[Any] = []
        self._left = _MAX_PARTS

    def text(self, rule: Any, array: Callable[[Any], str]) -> str:
        """`<WrappedFun '0f3a...'>`; what is quoted stands for all that the rule holds.

        Args:
            rule: of a `custom_jvp` or `custom_vjp`.
            array: the text of an array that it holds, on a device or not. It is not kept: whoever
                has these rules would be held by it, and the program with it.
        """
        self._left = _MAX_PARTS
        self._array = array
        try:
            told = self._content(rule, 0, ours=True)
        finally:
            self._array = str
        digest = hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return f"<{type(rule).__name__} '{digest}'>"

    def _content(self, value: Any, depth: int, *, ours: bool) -> str:
        """The content of a value; `ours` where JAX's own code holds it."""
        kind: type = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {value!r}" if kind is not int else f"int {value:#x}"
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            self._held(value)
            return f"<{kind.__name__}>"
        if id(value) in self._open:
            return "<again>"
        self._open.add(id(value))
        try:
            return self._compound(value, kind, depth + 1, ours)
        finally:
            self._open.discard(id(value))

    def _compound(self, value: Any, kind: type, depth: int, ours: bool) -> str:
        if kind is object and ours:
            return "<sentinel>"
        if kind is FunctionType:
            return self._function(value, depth)
        if kind is MethodType:
            receiver = self._content(value.__self__, depth, ours=False)
            return f"{receiver}.{self._content(value.__func__, depth, ours=ours)}"
        if kind is tuple or kind is list:
            items = cast(Iterable[Any], value)
            return f"({','.join([self._content(item, depth, ours=ours) for item in items])})"
        if kind is dict:
            pairs = list(cast(dict[Any, Any], value).items())
            # A cache of JAX's is filled as it goes; keywords have names.
            pairs = [(k, v) for k, v in pairs if not ours or type(k) is str]
            told = [(self._content(k, depth, ours=ours), v) for k, v in pairs]
            texts = [f"{key}:{self._content(item, depth, ours=ours)}" for key, item in told]
            return f"{{{','.join(texts)}}}"
        # By the type alone: `isinstance` would ask an object of the user's for its class.
        if kind is functools.partial or _is_of_jax(kind):
            return self._wrapper(value, kind, depth, ours)
        if kind is np.ndarray or issubclass(kind, np.generic):
            return self._array(value)
        if kind is BuiltinFunctionType or kind is type or kind is np.ufunc:
            return f"<{getattr(value, '__module__', '')} {value.__name__}>"
        if (told := self._plain(value)) is not None:
            return told
        self._held(value)
        return f"<{kind.__name__}>"

    def _wrapper(self, value: Any, kind: type, depth: int, ours: bool) -> str:
        """A partial, or what JAX makes around functions of the user's."""
        if issubclass(kind, TRACER.get() or ()):
            return "<traced>"
        if issubclass(kind, jax.Array) or any(kind is row.get() for row in HOST_ARRAYS.values()):
            return self._array(value)
        if type(wrapped := _attributes(value).get("__wrapped__")) is FunctionType:
            return f"{kind.__name__} {self._content(wrapped, depth, ours=True)}"
        if issubclass(kind, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return f"partial({','.join([self._content(p, depth, ours=ours) for p in parts])})"
        parts = [_stored(value, kind, row.name) for row in RULE_PARTS.values()]
        found = [self._content(part, depth, ours=True) for part in parts if part is not None]
        if not found and not ours and (told := self._plain(value)) is not None:
            return told
        if not found and not ours:
            self._held(value)
        return f"{kind.__name__}({','.join(found)})"

    def _function(self, function: FunctionType, depth: int) -> str:
        known = self._known.get(id(function))
        if known is None:
            code = function.__code__
            ours = code.co_filename.startswith(_FOLDER)
            # JAX's own code is told by its name, and what it holds for itself by nothing.
            parts = [f"jax {code.co_qualname}" if ours else _digest(code)]
            for cell in function.__closure__ or ():
                try:
                    held: Any = cell.cell_contents
                except ValueError:  # not filled yet
                    continue
                parts.append(self._content(held, depth, ours=ours))
            defaults = (function.__defaults__, function.__kwdefaults__)
            parts += [] if ours else [self._content(each, depth, ours=False) for each in defaults]
            known = f"[{' '.join(parts)}]"
            # Inside a ring, the text hangs on where the walk entered it.
            if len(self._open) == 1 or not function.__closure__:
                self._known[id(function)] = known
                self._alive.append(function)
        return known


def _is_of_jax(kind: type) -> bool:
    module: object = type.__getattribute__(kind, "__module__")
    return type(module) is str and module.startswith(("jax.", "jaxlib."))


def _stored(value: Any, kind: type, name: str) -> Any:
    """A field of an object, without asking a property: what JAX fills later may raise."""
    for base in kind.__mro__:
        if type(member := base.__dict__.get(name)) is MemberDescriptorType:
            return getattr(value, name, None)
        if member is not None:
            break
    return _attributes(value).get(name)


def _attributes(value: Any) -> dict[str, Any]:
    found: Any = getattr(value, "__dict__", None)
    return cast(dict[str, Any], found) if type(found) is dict else {}


def _digest(code: CodeType) -> str:
    """What a code object does, wherever it stands."""
    digest = hashlib.blake2b(digest_size=8)
    waiting = [code]
    while waiting:
        each = waiting.pop()
        digest.update(each.co_code)
        digest.update(repr((each.co_names, each.co_varnames, each.co_freevars)).encode())
        for constant in each.co_consts:
            if isinstance(constant, CodeType):
                waiting.append(constant)
            elif isinstance(constant, frozenset):
                # The order of a set of strings is another in each process.
                members = cast(frozenset[object], constant)
                digest.update(repr(sorted(map(repr, members))).encode())
            elif type(constant) is not int:
                digest.update(f"{type(constant).__name__} {constant!r}".encode(errors="replace"))
            else:
                digest.update(f"{constant:#x}".encode())
    return digest.hexdigest()

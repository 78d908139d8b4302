"""The content of custom rules: of the functions of `custom_vjp` and `custom_jvp`.

A jaxpr holds the function and a thunk for its rules, which JAX only traces on differentiation.
Two programs may differ only in a number that a backward rule closes over.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, cast

import jax
import numpy as np

from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.names_values import HOST_ARRAYS, NONDIFF, RULE_PARTS, TRACER

_FOLDER = os.path.dirname(jax.__file__) + os.sep
_MAX_DEPTH = 32
"""Where a rule was differentiated, JAX's own thunks and wrappers are a dozen levels and more."""
_MAX_PARTS = 2_000
_CALLS = frozenset(
    ("WrappedFun", "partial", "method", "custom_jvp", "custom_vjp", "PjitFunction")
)
_RULED = ("custom_jvp", "custom_vjp")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


class Rules:
    """Identifies rules by hashes of their content.

    Args:
        plain: the text of a value; None if no text describes it completely.
        held: called with each object of which only the type could be recorded.
        met: called with each function that is not JAX's, and what it is bound to.
        takes_all: whether objects that can be called are written down as well.
    """

    def __init__(
        self,
        plain: Callable[[Any], str | None],
        held: Callable[[Any], None],
        met: Callable[[tuple[Any, Any]], None],
        *,
        takes_all: bool = False,
    ) -> None:
        self._array: Callable[[Any], str] = str
        self._plain = plain
        self._held = held
        self._met = met
        self._takes_all = takes_all
        self._open: set[int] = set()
        self._known: dict[int, str] = {}
        self._alive: list[Any] = []
        self._left = _MAX_PARTS

    def takes(self, value: Any, kind: type) -> bool:
        """Whether a parameter of an equation is something to write down here."""
        is_call = kind is FunctionType or kind.__name__ in _CALLS
        return is_call or (self._takes_all and callable(value))

    def text(self, rule: Any, array: Callable[[Any], str]) -> str:
        """`<WrappedFun '0f3a...'>`; the quoted hash covers the whole content of the rule.

        Args:
            rule: of a `custom_jvp` or `custom_vjp`.
            array: returns the text of an array in the rule, on a device or the host. Not kept:
                a reference to it would form a cycle and keep the program alive.
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
        """The content of a value; `ours` if it is held by JAX's own code."""
        kind: type = type(value)
        if is_listed(kind, _PLAIN):
            return f"{kind.__name__} {value!r}" if kind is not int else f"int {value:#x}"
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
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
            self._met((value.__func__, value.__self__))
            return f"{receiver}.{self._content(value.__func__, depth, ours=ours)}"
        if kind is tuple or kind is list:
            items = cast(Iterable[Any], value)
            return f"({','.join([self._content(item, depth, ours=ours) for item in items])})"
        if kind is dict:
            pairs = list(cast(dict[Any, Any], value).items())
            # JAX's caches fill up over time and are skipped; keyword arguments have string keys.
            pairs = [(k, v) for k, v in pairs if not ours or type(k) is str]
            told = [(self._content(k, depth, ours=ours), v) for k, v in pairs]
            texts = [f"{key}:{self._content(item, depth, ours=ours)}" for key, item in told]
            return f"{{{','.join(texts)}}}"
        # Checks only the type: `isinstance` would read `__class__` of user objects.
        if kind is functools.partial or _is_of_jax(kind):
            return self._wrapper(value, kind, depth, ours)
        if kind is np.ndarray or issubclass(kind, np.generic):
            return self._array(value)
        if kind is BuiltinFunctionType or kind is type or kind is np.ufunc:
            return f"<{getattr(value, '__module__', '')} {value.__name__}>"
        for base in kind.__mro__:
            if type(call := base.__dict__.get("__call__")) is FunctionType:
                self._met((call, value))
                break
        if (told := self._plain(value)) is not None:
            return told
        self._held(value)
        return f"<{kind.__name__}>"

    def _wrapper(self, value: Any, kind: type, depth: int, ours: bool) -> str:
        """A partial, or a JAX wrapper around user functions."""
        if issubclass(kind, TRACER.get() or ()):
            return "<traced>"
        if issubclass(kind, jax.Array) or any(kind is row.get() for row in HOST_ARRAYS.values()):
            return self._array(value)
        if type(wrapped := _attributes(value).get("__wrapped__")) is FunctionType:
            return f"{kind.__name__} {self._part(wrapped, depth, kind.__name__ in _RULED)}"
        if issubclass(kind, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return f"partial({','.join([self._content(p, depth, ours=ours) for p in parts])})"
        parts = {part: _stored(value, kind, row.name) for part, row in RULE_PARTS.items()}
        found = [
            self._part(value, depth, part == "transforms")
            for part, value in parts.items()
            if value is not None
        ]
        if not found and not ours and (told := self._plain(value)) is not None:
            return told
        if not found and not ours:
            self._held(value)
        return f"{kind.__name__}({','.join(found)})"

    def _part(self, part: Any, depth: int, has_rules: bool) -> str:
        """The content of what a wrapper of JAX's holds.

        `has_rules` if a function in it has the rules and is none: JAX passes it on to them.
        """
        met = self._met
        self._met = _ignore if has_rules else met
        try:
            return self._content(part, depth, ours=True)
        finally:
            self._met = met

    def _function(self, function: FunctionType, depth: int) -> str:
        known = self._known.get(id(function))
        if known is None:
            code = function.__code__
            ours = code.co_filename.startswith(_FOLDER)
            # JAX's own functions are identified by name; their internal state is omitted.
            parts = [f"jax {code.co_qualname}" if ours else _digest(code)]
            if not ours:
                self._met((function, None))
            for cell in function.__closure__ or ():
                try:
                    held: Any = cell.cell_contents
                except ValueError:  # not filled yet
                    continue
                parts.append(self._content(held, depth, ours=ours))
            defaults = (function.__defaults__, function.__kwdefaults__)
            parts += [] if ours else [self._content(each, depth, ours=False) for each in defaults]
            known = f"[{' '.join(parts)}]"
            # Inside a cycle, the text depends on where the walk entered it.
            if len(self._open) == 1 or not function.__closure__:
                self._known[id(function)] = known
                self._alive.append(function)
        return known


def rules_of(value: Any) -> Iterator[Any]:
    """The rules of a function with custom rules, as they were given to it."""
    kind = type(value)
    if type.__getattribute__(kind, "__name__") not in _RULED or not _is_of_jax(kind):
        return
    for name in ("fwd", "bwd", "jvp"):
        rule = _stored(value, kind, RULE_PARTS[name].name)
        yield rule
        if type(rule) is FunctionType and rule.__code__.co_filename.startswith(_FOLDER):
            for cell in rule.__closure__ or ():  # of `defjvps`, which makes one rule of several
                with contextlib.suppress(ValueError):
                    yield from cell.cell_contents if type(cell.cell_contents) is tuple else ()


def takes_static(value: Any) -> bool:
    """Whether rules take an argument that must not be an array (`nondiff_argnums`)."""
    return bool(_stored(value, type(value), NONDIFF.name))


def _ignore(_: object) -> None: ...


def _is_of_jax(kind: type) -> bool:
    module: object = type.__getattribute__(kind, "__module__")
    return type(module) is str and module.startswith(("jax.", "jaxlib."))


def _stored(value: Any, kind: type, name: str) -> Any:
    """A field of an object, never a property: JAX's lazy properties may raise."""
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
    """Digest of what a code object does, independent of its location."""
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
                # The order of a set of strings differs between processes.
                members = cast(frozenset[object], constant)
                digest.update(repr(sorted(map(repr, members))).encode())
            elif type(constant) is not int:
                digest.update(f"{type(constant).__name__} {constant!r}".encode(errors="replace"))
            else:
                digest.update(f"{constant:#x}".encode())
    return digest.hexdigest()

"""What a function reads besides its arguments: globals, attributes, cells of its helpers.

The names come from the bytecode, read once per code object, and user functions among them are
examined as well. The values are taken at each trace, up to a limit and without running user
code: plain content and object numbers. Reads by a computed name or inside a library are not
seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from math import isfinite
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from retrace.capture.bytecode import Chain, Item, chains_of
from retrace.capture.class_values import ClassValues, class_values
from retrace.capture.interpreter import BYTECODE, lacks
from retrace.capture.named import named_text
from retrace.capture.objects import (
    array_type,
    attributes_of,
    content_hash,
    derives,
    kind_of,
    own,
    package,
    type_name,
)
from retrace.capture.place import Owner, owner
from retrace.capture.snapshot import snapshot
from retrace.capture.steps import MISSING, getter_of, is_users, step_into
from retrace.capture.weak import ByObject
from retrace.jax_internals.custom_rules import rules_of, takes_static
from retrace.jax_internals.listed import is_listed
from retrace.model import Value

_USER = Owner.USER
_MAX_FUNCTIONS = 64
_MAX_RUNNING = 1000
"""The same where a function is to be traced again."""
_MAX_VALUES = 32
_MAX_CONTAINERS = 4
_MAX_DATA = 200
_MAX_INTEGER_BITS = 64
"""In bits."""
_IN_MEMORY = (np.ndarray, np.memmap)
_MAX_BYTES = 64 * 1024
"""Maximum size of a numpy array whose content is hashed; larger ones are identified by object."""

_ABOUT = frozenset(("__name__", "__qualname__", "__module__", "__doc__", "__code__"))
"""What is read of a function without calling it."""
_SCALARS = frozenset((bool, int, float, complex, str, bytes, type(None)))
_STATIC_RULE = Value("custom_vjp", "nondiff_argnums", None, True)
"""Recorded of a function whose rules take no array for some arguments."""


Read: TypeAlias = tuple[str, Value]


class _Visit(NamedTuple):
    """A function to examine, and the value of its first parameter, if known."""

    function: Any
    receiver: Any
    prefix: str
    """The name of the receiver, or of the function if it has none."""


class Reads:
    """What the functions of one recording read."""

    def __init__(self, number: Callable[[object], int | None]) -> None:
        """`number` identifies an object (`Tokens.number`)."""
        self._number = number
        self._is_blind = lacks(BYTECODE)
        # By identity: hashing code objects is slow.
        self._codes: ByObject[tuple[Chain, ...]] = ByObject()

    def of(self, function: FunctionType, *receivers: Any) -> tuple[Read, ...]:
        """What a user function would read if it were traced now.

        Args:
            function: the user's own function, without any wrappers.
            receivers: for a method, the object that it is bound to.
        """
        if not self._reads_any(function, receivers[0] if receivers else MISSING):
            return ()
        walk = _Walk(self._number, function)
        for _ in self._visits(walk, function, *receivers):
            pass
        return walk.reads()

    def every(
        self, function: FunctionType, *receivers: Any
    ) -> tuple[tuple[Read, ...], ClassValues]:
        """All that it would read, without limits, to look for what it read at its trace.

        Also what is not recorded because it is rarely replaced, and what another value may have
        been replaced by: functions with the name of their `def`, properties and modules.
        """
        walk = _Walk(self._number, function, limited=False)
        for _ in self._visits(walk, function, *receivers):
            pass
        return walk.reads(), walk.class_values

    def functions(self, function: FunctionType, *receivers: Any) -> list[tuple[Any, Any]]:
        """The user functions that run when a function does, including itself.

        Also those that read nothing, which may still write. Each comes with the object that is
        its first parameter, or None if that is not known.
        """
        walk = _Walk(self._number, function)
        found = [
            (visit.function, None if visit.receiver is MISSING else visit.receiver)
            for visit in self._visits(walk, function, *receivers, most=_MAX_RUNNING)
        ]
        return found or [(function, receivers[0] if receivers else None)]

    def _visits(
        self, walk: _Walk, function: FunctionType, *receivers: Any, most: int = _MAX_FUNCTIONS
    ) -> Iterator[_Visit]:
        """Visit the functions one after the other; if few, only those that read anything."""
        receiver = receivers[0] if receivers else MISSING
        visited = self._reads_any if most <= _MAX_FUNCTIONS else _is_a_users
        if self._is_blind or not visited(function, receiver):
            return
        names = function.__code__.co_varnames
        waiting = deque([_Visit(function, receiver, names[0] if names else "self")])
        seen = {id(function)}
        while waiting and len(seen) <= most:
            visit = waiting.popleft()
            yield visit
            for found in walk.visit(visit, self._chains(visit.function.__code__)):
                if id(found.function) not in seen and visited(*found[:2]):
                    seen.add(id(found.function))
                    waiting.append(found)

    def _reads_any(self, function: FunctionType, receiver: Any) -> bool:
        """Whether examining it is worthwhile; most functions name only libraries."""
        code, names = function.__code__, function.__globals__
        if (known := self._codes.get(code)) is not None:
            return bool(known)
        if owner(code.co_filename) is not _USER:
            return False
        return receiver is not MISSING or bool(code.co_freevars) or _names_any(code, names)

    def _chains(self, code: CodeType) -> tuple[Chain, ...]:
        if (known := self._codes.get(code)) is not None:
            return known
        free = dict.fromkeys(code.co_freevars, "cell")
        if code.co_argcount:
            free[code.co_varnames[0]] = "self"
        written: set[str] = set()
        found = dict.fromkeys(chains_of(code, free, written, top=True))
        chains = tuple(
            [
                chain._replace(written=(chain.steps or (chain.name,))[-1] in written)
                for chain in found
            ]
        )
        self._codes.put(code, chains)
        return chains


def _is_a_users(function: FunctionType, _: Any = None) -> bool:
    return owner(function.__code__.co_filename) is _USER


def _names_any(code: CodeType, names: dict[str, Any]) -> bool:
    for name in code.co_names:
        found = dict.get(names, name, MISSING)
        if found is not MISSING and (type(found) is not ModuleType or is_users(found)):
            return True
    for inner in code.co_consts:  # noqa: SIM110 - a generator costs more than the rest
        if type(inner) is CodeType and _names_any(inner, names):
            return True
    return False


class _Walk:
    """Takes the values that one function and its helpers read."""

    def __init__(
        self, number: Callable[[object], int | None], base: FunctionType, *, limited: bool = True
    ) -> None:
        self._number = number
        self._is_limited = limited
        self._base = base
        self._found: dict[str, Value] = {}
        self._last: dict[str, Value] = {}
        """Recorded only if there is room, since these values rarely change."""
        self._containers = 0
        self.class_values: ClassValues = {}  # only without limits

    def reads(self) -> tuple[Read, ...]:
        found = tuple((self._found | self._last).items())
        return found[:_MAX_VALUES] if self._is_limited else found

    def visit(self, visit: _Visit, chains: tuple[Chain, ...]) -> Iterator[_Visit]:
        """Take the values that one function reads, and yield the functions that it names."""
        function: FunctionType = visit.function
        cells: dict[str, Any] = {}
        for chain in chains:
            if chain.source == "global":
                value = dict.get(function.__globals__, chain.name, MISSING)
                path = self._global(function, chain.name)
            elif chain.source == "self":
                value, path = visit.receiver, visit.prefix
            else:
                cells = cells or dict(_cells(function))
                value = cells.get(chain.name, MISSING)
                path = chain.name
                if function is not self._base:
                    is_method = visit.receiver is not MISSING
                    path = f"{function.__name__ if is_method else visit.prefix}.{path}"
            if value is not MISSING:
                yield from self._follow(value, path, chain, function is self._base)

    def _global(self, function: FunctionType, name: str) -> str:
        if function.__globals__ is self._base.__globals__:
            return name
        return f"{dict.get(function.__globals__, '__name__')}.{name}"

    def _follow(self, value: Any, path: str, chain: Chain, is_own: bool) -> Iterator[_Visit]:
        taken, is_used = 0, not chain.looked
        for step in chain.steps:
            inner = step_into(value, step)
            if inner is MISSING:
                if (getter := getter_of(value, step)) is not None:
                    self._take_too(f"{path}.{step}", getter)
                    yield _Visit(getter, value, path)
                    return
                is_used = is_used and step not in _ABOUT
                break
            taken += 1
            if (
                type(inner) is FunctionType
                and not isinstance(step, Item)
                and not _is_namespace(value)
                and attributes_of(value).get(step) is not inner
            ):
                self._take_too(f"{path}.{step}", inner)
                if is_used:
                    yield _Visit(inner, value, path)
                return
            if (
                derives(kind_of(value), type)
                and own(value, "__name__") != path.rpartition(".")[2]
            ):
                self._take(path, value, last=True)  # `kind.rate` of a class held as `kind`
            value = inner
            path += f"[{step.key!r}]" if isinstance(step, Item) else f".{step}"
        kind = type(value)
        is_held = chain.source == "cell" and is_own and not taken  # which is in its closure
        if is_listed(kind, _SCALARS):
            if not is_held:
                self._take(path, value, last=chain.written)
            return
        if kind is ModuleType or (chain.source == "self" and not taken):
            self._take_too(path, value, unless=is_held)
            return
        function = _function(value)
        if is_used:
            if (rules := list(rules_of(value))) and takes_static(value):
                self._last[path] = _STATIC_RULE
            running = (*map(_function, rules), function)
            yield from [_Visit(one, MISSING, path) for one in running if one is not None]
        if function is not None and function.__name__ == path.rpartition(".")[2]:
            self._take_too(path, value, unless=is_held)
            return  # under the name of its `def`, it is rarely replaced
        self._take(path, value, last=chain.written)

    def _take_too(self, path: str, value: Any, *, unless: bool = False) -> None:
        """Take what is not recorded."""
        if not (self._is_limited or unless):
            self._take(path, value, last=True)

    def _take(self, path: str, value: Any, *, last: bool) -> None:
        is_full = self._is_limited and len(self._found) >= _MAX_VALUES
        if is_full or path in self._found or path in self._last:
            return
        kind = kind_of(value)
        if is_listed(kind, _SCALARS):
            taken = _scalar(value, kind)
        elif is_listed(kind, _IN_MEMORY) and value.nbytes <= _MAX_BYTES:
            array = str(array_type(value))
            content = {"array": array, "content": content_hash(value)}
            taken = Value("numpy.ndarray", array, None, False, content)
        elif kind is not FunctionType and (array := array_type(value)) is not None:
            token = f"#{number}" if (number := self._number(value)) is not None else None
            taken = Value(type_name(kind), array, token, False)
        elif (text := named_text(value)) is not None:
            last = True
            # What a library's closure holds is not looked at: another one may do anything.
            closed = kind is FunctionType and value.__closure__ and not _is_a_users(value)
            token = f"#{number}" if closed and (number := self._number(value)) else None
            taken = Value(type_name(kind), text, token, False)
        elif self._containers < _MAX_CONTAINERS or not self._is_limited:
            self._containers += 1
            taken = snapshot(value, _no_token, _MAX_DATA)
            if not self._is_limited:
                self.class_values[path] = class_values(kind)
        else:
            return
        (self._last if last else self._found)[path] = taken


def _scalar(value: Any, kind: type) -> Value:
    long = value.bit_length() > _MAX_INTEGER_BITS if kind is int else kind in (str, bytes)
    if long or kind is complex or kind is bytes:
        return snapshot(value, _no_token, _MAX_DATA)
    # By far the most common case, at a tenth of the cost.
    text = repr(value)
    finite = kind is not float or isfinite(value)
    return Value(kind.__name__, text, None, True, value if finite else text)


def _no_token(_: object) -> str | None:
    return None


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=False
    ):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def _is_namespace(value: Any) -> bool:
    """Whether functions found in it are plain functions, not methods."""
    return type(value) is ModuleType or derives(kind_of(value), type)


def _function(value: Any) -> FunctionType | None:
    """The plain function behind a jitted or wrapped one."""
    for _ in range(8):
        if type(value) is not FunctionType and package(kind_of(value)) not in ("jax", "jaxlib"):
            return None
        if (wrapped := attributes_of(value).get("__wrapped__")) is None:
            return value if type(value) is FunctionType else None
        value = wrapped
    return None

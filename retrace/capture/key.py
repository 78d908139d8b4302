"""The cache key of a call, in the user's own names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

import jax

from retrace.capture.snapshot import snapshot
from retrace.capture.tokens import Tokens
from retrace.capture.tree import Tree
from retrace.jax_internals.behavior import KEYWORD_STATICS_KEEP_THEIR_TYPE
from retrace.jax_internals.config import context
from retrace.jax_internals.names_frames import JITTED_INFO
from retrace.jax_internals.names_values import OPTION_NAMES, OPTIONS, SIGNATURE, UNSPECIFIED
from retrace.model import Key, Passing, Value

_POSITIONS = frozenset(("static_argnums", "static_argnames", "donate_argnums", "donate_argnames"))
_STATIC_NUMBERS, _STATIC_NAMES = OPTIONS["static_argnums"].name, OPTIONS["static_argnames"].name
_PLACED, _NAMED, _OMITTED = Passing.POSITIONAL, Passing.KEYWORD, Passing.OMITTED
_EMPTY = inspect.Parameter.empty
_VAR_POSITIONAL, _VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_Parameters: TypeAlias = list[tuple[str, Any, bool]]
_Options: TypeAlias = tuple[tuple[str, Value], ...]
_MAX_OPERATIONS = 1024
_NAMES = ("static_argnames", "donate_argnames")
"""JAX infers these from the positions, and the positions from these."""


class Keys:
    """Creates keys, using the equality tokens of one recording."""

    def __init__(self, tokens: Tokens, lost: Callable[[str], None]) -> None:
        self._tokens = tokens
        self._lost = lost
        defaults: Any = JITTED_INFO.of(jax.jit(_nothing))
        self._options = [(name, row, row.of(defaults)) for name, row in OPTIONS.items()]
        """Each option with its default."""
        self._kind = type(defaults)
        names = [row.name for _, row, _ in self._options if hasattr(defaults, row.name)]
        self._ask = attrgetter(*names) if len(names) > 1 else None
        self._defaults = None if self._ask is None else self._ask(defaults)
        """All defaults in one tuple."""
        self._operations: dict[int, tuple[Any, _Parameters, _Options]] = {}
        """What functions of JAX were jitted with, by `id`; kept alive, as JAX does."""

    def of_call(
        self,
        signature: inspect.Signature | None,
        info: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        is_array: Callable[[Any], bool] | None = None,
    ) -> Key:
        """The key of a call with these arguments and these options of `jit`.

        If a wrapper makes everything but arrays static, `is_array` is its test, and the static
        arguments are the wrapper's, not those of `jit`.
        """
        options = self._options_of(info, packed=is_array is not None)
        return self._key(_parameters(signature), options, info, args, kwargs, is_array)

    def of_operation(self, info: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Key:
        """The same for a function of JAX, which is jitted once and called from everywhere."""
        known = self._operations.get(id(info))
        if known is None or known[0] is not info:
            if len(self._operations) >= _MAX_OPERATIONS:
                self._operations.clear()
            parameters = _parameters(SIGNATURE.of(info))
            known = (info, parameters, self._options_of(info, packed=False))
            self._operations[id(info)] = known
        return self._key(known[1], known[2], info, args, kwargs)

    def _key(
        self,
        known: _Parameters,
        options: _Options,
        info: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        is_array: Callable[[Any], bool] | None = None,
    ) -> Key:
        tree = Tree(self._tokens, is_array)
        static: list[tuple[str, Value]] = []
        passing: list[tuple[str, str]] = []
        numbers: tuple[int, ...] = () if is_array else getattr(info, _STATIC_NUMBERS, ())
        static_numbers = {
            number % len(args) if args else number
            for number in numbers
            if -len(args) <= number < len(args)
        }
        static_names: tuple[str, ...] = () if is_array else getattr(info, _STATIC_NAMES, ())
        parameters = _positional(known, len(args))
        for index, (name, value) in enumerate(zip(parameters, args, strict=True)):
            passing.append((name, _PLACED))
            if index in static_numbers:
                static.append((name, self.static(value)))
            else:
                tree.add(name, value)
        if kwargs:
            kinds = {name: kind for name, kind, _ in known}
            rest = next((name for name, kind in kinds.items() if kind is _VAR_KEYWORD), None)
            for keyword in sorted(kwargs):
                value = kwargs[keyword]
                named = kinds.get(keyword, _VAR_KEYWORD) is not _VAR_KEYWORD
                name = keyword if named or not rest else f"{rest}[{keyword!r}]"
                passing.append((name, _NAMED))
                if keyword in static_names:
                    static.append((name, self.static(value, keyword=True)))
                else:
                    tree.add(name, value)
        passing += [
            (name, _OMITTED)
            for name, _, has_default in known
            if has_default and name not in parameters and name not in kwargs
        ]
        return Key(
            tuple(tree.leaves),
            tuple(tree.nodes),
            (*static, *tree.static),
            tuple(passing),
            options,
            context(self._lost, self._described),
        )

    def _options_of(self, info: Any, packed: bool) -> _Options:
        # Usually no options are given.
        if (
            type(info) is self._kind
            and self._ask is not None
            and self._ask(info) == self._defaults
        ):
            return ()
        return tuple(self.options(info, packed))

    def static(self, value: Any, keyword: bool = False) -> Value:
        """A static argument, whose type JAX compares as well."""
        by_type = KEYWORD_STATICS_KEEP_THEIR_TYPE or not keyword
        return snapshot(value, self._tokens.static if by_type else self._tokens.keyword)

    def options(self, info: Any, packed: bool = False) -> Iterator[tuple[str, Value]]:
        """The options of `jit` that differ from their defaults."""
        for name, option, default in self._options:
            if packed and name in _POSITIONS:
                continue  # they refer to the wrapper's parameters, not the user's
            value = option.of(info)
            if value is None or value is default or value == default:
                continue
            if name in _NAMES and _is_inferred(info, name):
                continue
            if isinstance(value, tuple) and all(
                type(item) is UNSPECIFIED.get() or item is None for item in value
            ):
                continue
            yield OPTION_NAMES.get(name, name), snapshot(value, self._tokens.metadata)
        if (axis := getattr(info, "axis_name", None)) is not None:  # of `pmap`
            yield "axis_name", snapshot(axis, self._tokens.metadata)

    def config(self) -> tuple[tuple[str, Value], ...]:
        """The configuration that is part of the key, by its public names."""
        return context(self._lost, self._described)

    def _described(self, value: object) -> Value:
        return snapshot(value, self._tokens.metadata)


def without_axis(key: Key) -> Key:
    """The key of a `pmap` call without its own axis, inside which it begins before jax 0.8."""
    return key._replace(
        config=tuple(
            (name, value._replace(text="", token="", data=None) if name == "axis_env" else value)
            for name, value in key.config
        )
    )


def _nothing() -> None: ...


def _is_inferred(info: Any, name: str) -> bool:
    """Whether parameter names add nothing to the given positions."""
    signature: inspect.Signature | None = SIGNATURE.of(info)
    numbers: tuple[int, ...] = getattr(info, name.replace("names", "nums"), ())
    if signature is None:
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in signature.parameters.values() if p.kind in positional]
    numbered = {names[n] for n in numbers if -len(names) <= n < len(names)}
    return numbered.issuperset(getattr(info, name))


def parameter_names(signature: inspect.Signature | None, count: int) -> list[str]:
    """A name for each of `count` positional arguments, as the user wrote them."""
    return _positional(_parameters(signature), count)


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature of a function; None if it has none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def named_arguments(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The arguments of a call, by parameter name."""
    yield from zip(parameter_names(signature, len(args)), args, strict=True)
    yield from kwargs.items()


def _parameters(signature: inspect.Signature | None) -> _Parameters:
    """The name and kind of each parameter, and whether it has a default; read only once."""
    if signature is None:
        return []
    return [
        (name, parameter.kind, parameter.default is not _EMPTY)
        for name, parameter in signature.parameters.items()
    ]


def _positional(known: _Parameters, count: int) -> list[str]:
    names: list[str] = []
    for name, kind, _ in known:
        if len(names) == count:
            break
        if kind is _VAR_POSITIONAL:
            first = len(names)
            names += [f"{name}[{index - first}]" for index in range(first, count)]
        elif kind in _POSITIONAL:
            names.append(name)
    if len(names) < count:
        names += [f"args[{index}]" for index in range(len(names), count)]
    return names

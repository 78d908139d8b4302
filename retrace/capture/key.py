"""The cache key of one call, in the user's own names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
_NAMES = ("static_argnames", "donate_argnames")
"""JAX infers them from the numbers, and the numbers from them."""


class Keys:
    """Makes keys, with the equality tokens of one recording."""

    def __init__(self, tokens: Tokens, lost: Callable[[str], None]) -> None:
        self._tokens = tokens
        self._lost = lost
        defaults: Any = JITTED_INFO.of(jax.jit(_nothing))
        self._options = [(name, row, row.of(defaults)) for name, row in OPTIONS.items()]
        """Each with its default."""

    def of_call(
        self,
        signature: inspect.Signature | None,
        info: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        is_array: Callable[[Any], bool] | None = None,
    ) -> Key:
        """The key of a call with these arguments, under these options of `jit`.

        Where a wrapper keeps what is no array out of the dynamic arguments, `is_array`
        is its own test, and the static arguments are its, not `jit`'s.
        """
        tree = Tree(self._tokens, is_array)
        static: list[tuple[str, Value]] = []
        passing: list[tuple[str, str]] = []
        static_numbers = {
            number % len(args) if args else number
            for number in (() if is_array else OPTIONS["static_argnums"].of(info, ()))
            if -len(args) <= number < len(args)
        }
        static_names: frozenset[str] = frozenset(
            () if is_array else OPTIONS["static_argnames"].of(info, ())
        )
        parameters = parameter_names(signature, len(args))
        for index, (name, value) in enumerate(zip(parameters, args, strict=True)):
            passing.append((name, Passing.POSITIONAL))
            if index in static_numbers:
                static.append((name, self.static(value)))
            else:
                tree.add(name, value)
        known: dict[str, inspect.Parameter] = {}
        if signature is not None:
            known.update(signature.parameters)
        rest = next((p.name for p in known.values() if p.kind is p.VAR_KEYWORD), None)
        for keyword in sorted(kwargs):
            value = kwargs[keyword]
            named = keyword in known and known[keyword].kind is not inspect.Parameter.VAR_KEYWORD
            name = keyword if named or not (known and rest) else f"{rest}[{keyword!r}]"
            passing.append((name, Passing.KEYWORD))
            if keyword in static_names:
                static.append((name, self.static(value, keyword=True)))
            else:
                tree.add(name, value)
        given = set(parameters) | set(kwargs)
        passing += [
            (parameter.name, Passing.OMITTED)
            for parameter in known.values()
            if parameter.default is not inspect.Parameter.empty and parameter.name not in given
        ]
        return Key(
            tuple(tree.leaves),
            tuple(tree.nodes),
            (*static, *tree.static),
            tuple(passing),
            tuple(self.options(info, packed=is_array is not None)),
            self.config(),
        )

    def static(self, value: Any, keyword: bool = False) -> Value:
        """A static argument: JAX compares its type too."""
        by_type = KEYWORD_STATICS_KEEP_THEIR_TYPE or not keyword
        return snapshot(value, self._tokens.static if by_type else self._tokens.keyword)

    def options(self, info: Any, packed: bool = False) -> Iterator[tuple[str, Value]]:
        """The options of `jit` that are not at their default."""
        for name, option, default in self._options:
            if packed and name in _POSITIONS:
                continue  # they count the wrapper's parameters, not the user's
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
        """The configuration that takes part in the key, by its public names."""
        return context(self._lost, lambda value: snapshot(value, self._tokens.metadata))


def _nothing() -> None: ...


def _is_inferred(info: Any, name: str) -> bool:
    """Whether names of parameters say no more than their numbers do."""
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
    if signature is None:
        return [f"args[{index}]" for index in range(count)]
    names: list[str] = []
    for parameter in signature.parameters.values():
        if len(names) == count:
            break
        if parameter.kind is parameter.VAR_POSITIONAL:
            first = len(names)
            names += [f"{parameter.name}[{index - first}]" for index in range(first, count)]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names + [f"args[{index}]" for index in range(len(names), count)]

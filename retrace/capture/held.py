"""What functions hold in their closures, and the function inside a JAX object."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FunctionType
from typing import Any, cast

from retrace.capture.objects import derives, kind_of, own, package
from retrace.capture.place import Owner, owner
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.names_values import CUSTOM, WRAPPED

_MAX_CELLS = 32
_NUMBERS = frozenset((bool, int, float))
_PARAMETERS = _NUMBERS | {str, type(None)}
_MESHES = frozenset(("Mesh", "P", "PartitionSpec"))
_MAX_TRANSFORM_DEPTH = 3


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function closes over, with their current values."""
    held = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars[:_MAX_CELLS], held, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet


def all_cells(
    base: FunctionType,
    layers: Iterable[FunctionType],
    maker: FunctionType | None,
    transforms: Iterable[FunctionType],
) -> dict[str, Any]:
    """The same, with those of the wrappers that decorators put around a function.

    Of a package's function around it (`maker`) only the numbers: a step size, for example. Of
    JAX's `transforms` what they were given besides the function: `argnums`, `in_axes`.
    """
    found = dict(cells(base))
    for layer in layers:
        for name, content in cells(layer):
            # The wrapped function has already been unwrapped.
            if name not in found and content is not layer.__dict__.get("__wrapped__"):
                found[name] = content
    if type(maker) is FunctionType:
        for name, content in cells(maker):
            parts = {name: content}
            if kind_of(content) is tuple:
                parts = {f"{name}[{i}]": one for i, one in enumerate(content[:_MAX_CELLS])}
            numbers = {
                path: one for path, one in parts.items() if is_listed(kind_of(one), _NUMBERS)
            }
            found = numbers | found
    for transform in transforms:
        found = dict(_parameters(transform, _MAX_TRANSFORM_DEPTH)) | found
    return found


def _parameters(transform: FunctionType, depth: int) -> Iterator[tuple[str, Any]]:
    """The numbers, names and meshes that a function of JAX's holds, as those inside it do."""
    for name, content in cells(transform):
        if type(content) is FunctionType:
            if depth and owner(content.__code__.co_filename) is Owner.JAX:
                yield from _parameters(content, depth - 1)
        elif _is_parameter(content):
            yield name, content


def _is_parameter(content: Any) -> bool:
    kind = kind_of(content)
    if kind is tuple:
        return all(map(_is_parameter, content[:_MAX_CELLS]))
    return is_listed(kind, _PARAMETERS) or (
        package(kind) == "jax" and own(kind, "__name__") in _MESHES
    )


def defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The parameters of a function that have a default, with it."""
    if given := function.__defaults__:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount][-len(given) :]
        yield from zip(names, given, strict=False)
    if named := function.__kwdefaults__:
        yield from named.items()


def contents(function: FunctionType) -> Iterator[Any]:
    """The values that a function closes over, with tuples split into their members."""
    for _, content in cells(function):
        # Tuples of functions, for example an optimizer or a transformed model.
        if derives(kind_of(content), tuple):
            yield from islice(tuple.__iter__(cast(tuple[Any, ...], content)), _MAX_CELLS)
        else:
            yield content


def is_partial(thing: Any) -> bool:
    """Whether it is a partial, of Python's or of Equinox's, which have the same attributes.

    Equinox returns one too for a method of a module that was jitted in its class.
    """
    kind = kind_of(thing)
    if derives(kind, functools.partial):
        return True
    return own(kind, "__name__") == "Partial" and package(kind) == "equinox"


def held(thing: Any) -> Any:
    """The function that a JAX object wraps, or None."""
    kind = kind_of(thing)
    if package(kind) not in ("jax", "jaxlib") or derives(kind, functools.partial):
        return None
    for name in ("__wrapped__", WRAPPED.name, CUSTOM.name, at.JITTED_FUN.name):
        inner = getattr(thing, name, None)
        if callable(inner):
            return inner
    return None

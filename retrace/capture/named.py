"""What is shown by its name, its type or its place rather than by what it contains."""

from __future__ import annotations

import enum
import re
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from retrace.capture.objects import (
    DTYPES,
    array_type,
    attributes_of,
    derives,
    dtype_text,
    function_place,
    function_text,
    kind_of,
    may_be_array,
    own,
    package,
    type_name,
)
from retrace.capture.weak import ByObject
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.names_values import SYMBOL

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PRINTS_ITSELF = frozenset(
    ("datetime", "decimal", "fractions", "ipaddress", "pathlib", "re", "uuid", "zoneinfo")
)
"""Standard library modules whose reprs are short and run no user code."""
_JAX_PRINTS_ITSELF = frozenset(
    ("AbstractMesh", "Device", "GSPMDSharding", "Mesh", "NamedSharding", "P", "PRNGImpl")
) | {"PartitionSpec", "ShapeDtypeStruct", "ShapedArray", "SingleDeviceSharding", SYMBOL.name}
_SCALARS = (int, float, complex, str, bytes)
_BY_NAME = frozenset((FunctionType, MethodType, BuiltinFunctionType, np.ufunc, ModuleType))

_content: ByObject[bool] = ByObject()
"""Whether the objects of a class are content; the same object is described at many misses."""


def is_content(kind: type) -> bool:
    """Whether the objects of a class are shown by what they contain alone.

    Of mappings and of JAX's own classes that is not known from the class.
    """
    if (known := _content.get(kind)) is None:
        known = _is_content(kind)
        _content.put(kind, known)
    return known


def _is_content(kind: type) -> bool:
    root = package(kind)
    return not (
        is_listed(kind, _BY_NAME)
        or root in ("jax", "jaxlib")
        or root in _PRINTS_ITSELF
        or derives(kind, type, dict, enum.Enum, np.generic, np.ndarray, np.dtype, *_SCALARS)
        or may_be_array(kind)
    )


def class_text(kind: type) -> str:
    """The text of a class: `<class 'mymod.Config'>`."""
    return f"<class {type_name(kind)!r}>"


def scalar_base(kind: type) -> Any:
    """The built-in scalar type that a type is or derives from."""
    if not derives(kind, *_SCALARS):
        return None
    return next(base for base in _SCALARS if derives(kind, base))


def prints_itself(kind: type) -> bool:
    """Whether the text of a value shows all of it, although it is not plain data."""
    return package(kind) in _PRINTS_ITSELF


def named_text(value: Any) -> str | None:
    """The text of a value shown by name, type or place rather than by content."""
    kind = kind_of(value)
    if kind is FunctionType:
        return function_text(value)
    if kind is MethodType:
        function, owner = value.__func__, type_name(kind_of(value.__self__))
        if type(function) is FunctionType:
            return f"<bound method {owner}.{function_place(function)}>"
        return f"<bound method of {owner}>"
    if is_listed(kind, DTYPES):
        return dtype_text(value)
    if kind is BuiltinFunctionType or kind is np.ufunc:
        return f"<built-in function {value.__name__}>"
    if kind is ModuleType:
        return f"<module {value.__name__!r}>"
    if derives(kind, type):
        return class_text(value)
    if (array := array_type(value)) is not None:
        return array
    root, name = package(kind), str(own(kind, "__name__"))
    if root in ("jax", "jaxlib"):
        if name == "PyTreeDef":
            # Its repr prints the metadata of the user's nodes.
            return f"PyTreeDef({value.num_leaves} leaves)"
        attributes = attributes_of(value)
        wrapped = attributes.get("__wrapped__") or attributes.get("fun")
        if type(wrapped) is FunctionType:
            return f"<{name} of {function_place(wrapped)}>"
        if type(public := attributes.get("__name__")) is str:
            return f"<{name} {public}>"
    if (
        root in _PRINTS_ITSELF
        or derives(kind, np.dtype)
        or (root in ("jax", "jaxlib") and name in _JAX_PRINTS_ITSELF)
    ):
        return _ADDRESS.sub("", repr(value))
    return None

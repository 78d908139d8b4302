"""Reads the user's objects without running their code.

A `__repr__`, `__getattr__` or property may be slow, raise, or change the object. A Flax
module, for example, runs its `setup` when an attribute is read.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from itertools import islice
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any, cast

import jax
import numpy as np

from retrace.capture.notebook_cells import shown
from retrace.failure import asked
from retrace.jax_internals.dims import dims
from retrace.jax_internals.listed import is_listed

_DICTIONARY = (GetSetDescriptorType, MemberDescriptorType)
_NO_ARRAYS = frozenset((tuple, list, dict, set, frozenset, FunctionType))
ARRAYS: set[type] = {np.ndarray}
"""NumPy and JAX classes known to have a shape and a dtype. They are never redefined."""
_MAX_ARRAYS = 50
_MAX_DTYPES = 1000
_dtypes: dict[Any, str] = {}
_dtype_texts: dict[Any, str] = {}
_JAX_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")
_FUNCTIONS = frozenset((FunctionType, MethodType))
_MAX_WRAPPERS = 8
"""Maximum number of functions of JAX around the user's function."""
_MAX_POSITIONS = 8
_MAX_BASENAMES = 1000
_basenames: dict[str, str] = {}
DTYPES: frozenset[type] = frozenset(
    [type(np.dtype(code)) for code in f"?{np.typecodes['AllInteger']}{np.typecodes['AllFloat']}"]
)
"""The classes of NumPy's dtypes of numbers. Each has two instances, one per byte order."""
CONTENT = 512 * 1024
"""The content of numpy arrays up to this number of bytes is hashed."""


def kind_of(value: object) -> type:
    """Like `type`, but without a type parameter that the type checker would report as missing."""
    return type(value)


def derives(kind: type, *bases: type) -> bool:
    """Like `issubclass`, but the type checker does not narrow the type."""
    return issubclass(kind, bases)


def own(kind: type, name: str) -> Any:
    """Read an attribute of a class, bypassing its metaclass."""
    return type.__getattribute__(kind, name)


def mro_attributes(kind: type) -> list[Mapping[str, Any]]:
    """The `__dict__` of each class in a type's MRO, starting with the type itself."""
    return [own(base, "__dict__") for base in own(kind, "__mro__")]


def defined(kind: type, name: str) -> Any:
    """What a type or its bases define under a name, without invoking descriptors."""
    for attributes in mro_attributes(kind):
        if name in attributes:
            return attributes[name]
    return None


def _defines(kind: type, name: str) -> bool:
    for base in own(kind, "__mro__"):  # noqa: SIM110 - a generator costs more than the rest
        if name in own(base, "__dict__"):
            return True
    return False


def dtype_text(dtype: Any) -> str:
    """The repr of a dtype of one of the classes in `DTYPES`, which NumPy takes long to write."""
    if (text := _dtype_texts.get(dtype)) is None:
        text = _dtype_texts[dtype] = repr(dtype)
    return text


def type_name(kind: type) -> str:
    """The qualified name of a type, without module for builtins: `int`, `mymod.Config`."""
    # A class body may assign anything to `__module__`.
    module, name = own(kind, "__module__"), str(own(kind, "__qualname__"))
    return f"{module}.{name}" if type(module) is str and module != "builtins" else name


def package(kind: type) -> str:
    """The top-level package that defines a type, e.g. `numpy`."""
    module = own(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def tuple_fields(kind: type) -> tuple[str, ...] | None:
    """The field names of a named tuple type; None for any other type."""
    if kind is tuple or not derives(kind, tuple):
        return None
    for attributes in mro_attributes(kind):
        names = attributes.get("_fields")
        if type(names) is tuple:
            return tuple(map(str, cast(tuple[object, ...], names)))
    return None


def attributes_of(value: object) -> dict[str, object]:
    """The `__dict__` of an object; empty if it has none, or a property of that name."""
    if type(defined(kind_of(value), "__dict__")) not in _DICTIONARY:
        return {}
    try:
        attributes: object = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return cast(dict[str, object], attributes) if type(attributes) is dict else {}


def fields(value: object) -> dict[str, object] | None:
    """The attributes of an object; None if none can be read."""
    kind = kind_of(value)
    slots = _slots(kind)
    found: dict[str, object] = {}
    for name, member in slots:
        try:
            found[name] = member.__get__(value, kind)
        except (AttributeError, TypeError):
            continue  # a slot that was never filled
    if not slots and type(defined(kind, "__dict__")) not in _DICTIONARY:
        return None
    items = cast(dict[object, object], attributes_of(value)).items()
    return found | {name: item for name, item in items if type(name) is str and name[:2] != "__"}


def _slots(kind: type) -> list[tuple[str, MemberDescriptorType]]:
    found: list[tuple[str, MemberDescriptorType]] = []
    for attributes in reversed(mro_attributes(kind)):
        names: Any = attributes.get("__slots__")
        if type(names) is tuple:
            # In the order of the source: Python sorts the members by name.
            members = [(str(name), attributes.get(name)) for name in cast(tuple[Any, ...], names)]
        elif names is not None:
            members = list(attributes.items())
        else:
            continue
        found += [(name, item) for name, item in members if type(item) is MemberDescriptorType]
    return found


def array_type(value: object) -> str | None:
    """`float32[3,4]` for anything with a shape and a dtype. The data are never touched."""
    kind = kind_of(value)
    if is_listed(kind, ARRAYS):
        return asked(_array_type, value)
    if is_listed(kind, _NO_ARRAYS) or derives(kind, np.generic) or not may_be_array(kind):
        return None
    if package(kind) in ("jax", "jaxlib") and len(ARRAYS) < _MAX_ARRAYS:
        ARRAYS.add(kind)
    # The properties may be user code, which can raise anything.
    return asked(_array_type, value)


def may_be_array(kind: type) -> bool:
    """Whether the objects of a class have a shape and a dtype."""
    return _defines(kind, "dtype") and _defines(kind, "shape")


def _array_type(array: Any) -> str:
    dtype = array.dtype
    name = _dtypes.get(dtype) if isinstance(dtype, np.dtype) else str(dtype)
    if name is None:
        # NumPy builds this string anew each time, which takes longer than everything else here.
        if len(_dtypes) >= _MAX_DTYPES:
            _dtypes.clear()
        name = _dtypes[dtype] = str(dtype)
    return f"{name}[{','.join(map(str, dims(array.shape)))}]"


def content_hash(array: np.ndarray[Any, Any]) -> str | None:
    """A hash of a numpy array's content; None if it is large or holds objects."""
    if array.nbytes > CONTENT or array.dtype.hasobject:
        return None
    return hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest()


def function_holds(function: FunctionType, code: CodeType) -> list[tuple[str, object]]:
    """The defaults and closure cells of a function, by name.

    Args:
        function: the function.
        code: its `__code__`. The program's audit hooks, if it has any, are called each time that
            this or the defaults are read.
    """
    found: list[tuple[str, object]] = []
    if code.co_argcount and (defaults := function.__defaults__):
        positional = code.co_varnames[: code.co_argcount]
        found += zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    if code.co_kwonlyargcount and (named := function.__kwdefaults__):
        found += named.items()
    if closure := function.__closure__:
        for name, cell in zip(code.co_freevars, closure, strict=True):
            try:
                found.append((name, cell.cell_contents))
            except ValueError:  # not filled yet
                continue
    return found


def text_and_holds(function: FunctionType) -> tuple[str, list[tuple[str, object]]]:
    """The text of a function (`function_text`), and what the user's function holds.

    `jax.grad(f)` holds options of its own and functions around `f`: those have no name that a
    user knows, so what `f` holds inside functions of JAX is listed as well.
    """
    code = function.__code__
    text, found = _text_of(function, code), function_holds(function, code)
    for _ in range(_MAX_WRAPPERS):
        if not code.co_filename.startswith(_JAX_FOLDER):
            break
        inner = [
            number for number, (_, held) in enumerate(found) if is_listed(type(held), _FUNCTIONS)
        ]
        if len(inner) != 1:
            break
        name, held = found[inner[0]]
        if type(held) is not FunctionType:
            # Its place stays: two functions may hold nothing, or the same.
            own: Any = cast(MethodType, held).__func__
            found[inner[0]] = name, function_text(own) if type(own) is FunctionType else ""
            found += wrapper_holds(held)
            break
        code = held.__code__
        found[inner[0]] = name, _text_of(held, code)
        found += function_holds(held, code)
    return text, found


def wrapper_holds(value: object) -> list[tuple[str, object]]:
    """What the function holds that a method or a JAX object wraps, and the receiver of a method.

    Nothing if that is no function of Python, or holds nothing.
    """
    kind = kind_of(value)
    if kind is MethodType:
        method = cast(MethodType, value)
        inner: Any = method.__func__
        own = function_holds(inner, inner.__code__) if type(inner) is FunctionType else []
        return [("__self__", method.__self__), *own]
    if package(kind) not in ("jax", "jaxlib"):
        return []
    attributes = attributes_of(value)
    for name in ("__wrapped__", "fun"):
        wrapped: Any = attributes.get(name)
        if type(wrapped) is MethodType or (
            type(wrapped) is FunctionType and function_holds(wrapped, wrapped.__code__)
        ):
            return [(name, wrapped)]
    return []


def function_place(function: FunctionType) -> str:
    """The name of a function and its place: `f at file.py:12`; that of a lambda has a column."""
    return _place_of(function, function.__code__)


def function_text(function: FunctionType) -> str:
    """The text of a function: `<function f at file.py:12>`."""
    return _text_of(function, function.__code__)


def _text_of(function: FunctionType, code: CodeType) -> str:
    return f"<function {_place_of(function, code)}>"


def _place_of(function: FunctionType, code: CodeType) -> str:
    place = f"{function.__name__} at {_basename(code.co_filename)}:{code.co_firstlineno}"
    # Several lambdas may stand on one line, with nothing else to tell them apart.
    column = _column(code) if code.co_name == "<lambda>" else None
    return f"{place}:{column}" if column else place


def _column(code: CodeType) -> int | None:
    """Where the body of a lambda begins in its line; None if Python was told not to keep it."""
    for _, _, column, _ in islice(code.co_positions(), _MAX_POSITIONS):
        if column:  # what starts a function has column 0
            return column + 1
    return None


def _basename(filename: str) -> str:
    if (known := _basenames.get(filename)) is not None:
        return known
    found = os.path.basename(shown(filename))
    if "IPython" not in sys.modules:  # in which a cell has the number of its latest run
        if len(_basenames) >= _MAX_BASENAMES:
            _basenames.clear()
        _basenames[filename] = found
    return found

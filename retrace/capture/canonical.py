"""Plain data in a canonical form: two values share one form if and only if they are equal."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePath, PurePosixPath
from types import FunctionType, MethodType
from typing import Any, Protocol, cast

import numpy as np

from retrace.capture.objects import (
    ARRAYS,
    DTYPES,
    array_type,
    content_hash,
    defined,
    derives,
    fields,
    kind_of,
    own,
    package,
)
from retrace.jax_internals.dims import symbolic
from retrace.jax_internals.listed import is_listed
from retrace.jax_internals.shardings import describe

_MAX_ITEMS = 20_000
_MAX_DEPTH = 50
_JAX_BY_REPR = frozenset(("P", "PartitionSpec", "ShapeDtypeStruct", "ShapedArray", "Device"))
_JAX_SHARDINGS = frozenset(
    (
        "GSPMDSharding",
        "NamedSharding",
        "PmapSharding",
        "PositionalSharding",
        "SingleDeviceSharding",
    )
)
_COMPARES_A_TUPLE = sys.version_info < (3, 13)
"""Whether the `==` of a dataclass compares tuples of fields, in which a NaN equals itself."""


class CannotTellError(Exception):
    """Neither plain data nor a weak reference can show what the value equals."""


class Objects(Protocol):
    """Names objects that are not plain data (`Tokens`)."""

    def identity(self, value: object) -> str: ...
    def equal(self, value: object) -> str: ...
    def type(self, kind: type) -> str: ...


class Content:
    """Writes the canonical form of one value."""

    def __init__(self, objects: Objects, *, hashable: bool) -> None:
        self._objects = objects
        self._hashable = hashable
        self._items = 0
        self._depth = 0

    def write(self, value: Any) -> str:
        """Return the form.

        Raises:
            CannotTellError: no form shows what the value equals.
        """
        kind = kind_of(value)
        if is_listed(kind, _WRITERS):
            return _WRITERS[kind](self, value)
        self._items += 1
        if self._items > _MAX_ITEMS or self._depth > _MAX_DEPTH:
            raise CannotTellError
        self._depth += 1
        form = self._derived(value, kind)
        self._depth -= 1
        return form

    def _derived(self, value: Any, kind: type) -> str:
        """The form of a value whose class is not plain data, but may compare like it."""
        if is_listed(kind, ARRAYS) and not self._hashable:
            return self._array(value, kind)
        equality, hashing = defined(kind, "__eq__"), defined(kind, "__hash__")
        if self._hashable and hashing is None:
            raise CannotTellError
        if derives(kind, type):
            return self._class(value, kind)
        if derives(kind, np.generic):
            return self._numpy_scalar(value, kind)
        for base, writer in _BASES:
            if derives(kind, base) and equality is defined(base, "__eq__"):
                if self._hashable and hashing is not defined(base, "__hash__"):
                    return self._objects.equal(value)  # JAX looks it up by its own hash
                return writer(self, value)
        if array_type(value) is not None:
            return self._array(value, kind)
        if package(kind) in ("jax", "jaxlib") and (form := self._jax(value, kind)) is not None:
            return form
        if equality is object.__eq__:
            if derives(kind, enum.Enum):
                return f"{self._objects.type(kind)}.{(fields(value) or {}).get('_name_')}"
            return self._objects.identity(value)
        if (form := self._dataclass(value, kind, equality)) is not None:
            return form
        return self._objects.equal(value)

    def number(self, value: Any) -> str:
        real, imaginary = (
            (value.real, value.imag) if derives(kind_of(value), complex) else (value, 0)
        )
        if real != real or imaginary != imaginary:  # noqa: PLR0124 - only a NaN
            # A NaN object equals only itself. It cannot be weakly referenced, but while JAX
            # has an entry for it, JAX keeps it alive, so its address is unique.
            return f"nan@{id(value)}"
        return _real(real) if imaginary == 0 else f"({_real(real)},{_real(imaginary)})"

    def text(self, value: str) -> str:
        return str.__repr__(value)

    def binary(self, value: bytes) -> str:
        return bytes.__repr__(value)

    def sequence(self, value: Any) -> str:
        base: Any = tuple
        return f"({self._join(base.__iter__(value))})"

    def list(self, value: Any) -> str:
        self._refuse_unhashable()
        base: Any = list
        return f"[{self._join(base.__iter__(value))}]"

    def mapping(self, value: Any) -> str:
        self._refuse_unhashable()
        base: Any = dict
        items: Iterable[tuple[object, object]] = base.items(value)
        return f"{{{','.join(sorted(f'{self._item(k)}:{self._item(v)}' for k, v in items))}}}"

    def set(self, value: Any) -> str:
        if derives(kind_of(value), set):
            self._refuse_unhashable()
        base: Any = set if derives(kind_of(value), set) else frozenset
        return f"{{{','.join(sorted(map(self._item, base.__iter__(value))))}}}"

    def range(self, value: Any) -> str:
        # Ranges compare as sequences: with a single item, the step does not count.
        length = len(value)
        return f"range{(length, *value[:1], *(value[1:2]))}"

    def slice(self, value: Any) -> str:
        return f"slice({self._join((value.start, value.stop, value.step))})"

    def function(self, value: Any) -> str:
        return self._objects.identity(value)

    def method(self, value: Any) -> str:
        # `object.method` creates a new one each time; equal by function and object identity.
        return f"{self._item(value.__func__)} of {self._objects.identity(value.__self__)}"

    def path(self, value: Any) -> str:
        flavour = "posix" if derives(kind_of(value), PurePosixPath) else "windows"
        return f"{flavour} {str(value)!r}"

    def dtype(self, value: Any) -> str:
        if (form := _dtypes.get(value)) is None:
            # `str` alone is "<V2" for every dtype unknown to NumPy, such as bfloat16.
            form = f"dtype {value.str} {value.name if value.fields is None else value.descr}"
            if is_listed(kind_of(value), DTYPES):
                _dtypes[value] = form
        return form

    def _item(self, value: object) -> str:
        self._items += 1
        if self._items > _MAX_ITEMS or self._depth > _MAX_DEPTH:
            raise CannotTellError
        self._depth += 1
        form = self.write(value)
        self._depth -= 1
        return form

    def _join(self, values: Iterable[object]) -> str:
        return ",".join([self._item(value) for value in values])

    def _refuse_unhashable(self) -> None:
        if self._hashable:
            raise CannotTellError

    def _numpy_scalar(self, value: Any, kind: type) -> str:
        if derives(kind, np.str_, np.bytes_):
            return repr(value.item())
        if derives(kind, np.number, np.bool):
            plain = value.item()
            if plain != plain:  # noqa: PLR0124 - only a NaN
                return f"nan@{id(value)}"
            if not derives(kind_of(plain), np.generic):
                return self.number(plain)
        elif derives(kind, np.datetime64, np.timedelta64) and not np.isnat(value):
            return f"{value.dtype} {value}"
        raise CannotTellError

    def _class(self, value: Any, kind: type) -> str:
        if package(kind) in ("jax", "jaxlib") and own(kind, "__name__") == "_ScalarMeta":
            return self._objects.type(value.dtype.type)  # jnp.float32 == np.float32
        if defined(kind, "__eq__") not in (None, object.__eq__):
            return self._objects.equal(value)
        return self._objects.type(value)

    def _array(self, value: Any, kind: type) -> str:
        if derives(kind, np.ndarray) and (content := content_hash(value)) is not None:
            return f"{array_type(value)} {content}"
        return self._objects.identity(value)

    def _jax(self, value: Any, kind: type) -> str | None:
        """The form of immutable JAX objects that cannot be weakly referenced."""
        name = str(own(kind, "__name__"))
        if name == "PyTreeDef":
            return self._structure(value)
        if (symbol := symbolic(value)) is not None:
            return symbol
        if name in _JAX_SHARDINGS:
            return describe(value)
        return repr(value) if name in _JAX_BY_REPR else None

    def _structure(self, value: Any) -> str:
        node = value.node_data()
        if node is None:
            return "*" if value.num_leaves else "()"
        # Unlike other values, it is hashable even if its metadata is not.
        hashable, self._hashable = self._hashable, False
        try:
            return f"{self._item(node)}[{self._join(value.children())}]"
        finally:
            self._hashable = hashable

    def _dataclass(self, value: Any, kind: type, equality: Any) -> str | None:
        """The form of a dataclass with a generated `==`, which compares class and fields."""
        declared = defined(kind, "__dataclass_fields__")
        if not isinstance(declared, dict) or not _is_generated(equality):
            return None
        if self._hashable and not _is_generated(defined(kind, "__hash__")):
            return None  # JAX looks it up by its own hash
        held = fields(value) or {}
        compared = [
            field.name
            for field in cast(dict[str, dataclasses.Field[Any]], declared).values()
            if field.compare and type(field) is dataclasses.Field
        ]
        if not all(name in held for name in compared):
            return None
        contents = [held[name] for name in compared]
        if not _COMPARES_A_TUPLE and any(
            type(item) is float and math.isnan(item) for item in contents
        ):
            return None
        depth = self._depth
        try:
            return f"{self._objects.type(kind)}({self._join(contents)})"
        except CannotTellError:
            # A weak reference to the whole object may still work.
            self._depth = depth
            return None


def _is_generated(method: object) -> bool:
    """Whether `dataclasses` wrote a method."""
    return type(method) is FunctionType and method.__code__.co_filename == "<string>"


def _real(value: float) -> str:
    if isinstance(value, float):
        if not math.isfinite(value) or not float.is_integer(value):
            return float.__repr__(value)
        number = float.__int__(value)
    else:
        number = int.__int__(value)  # not what a subclass returns as its number
    # Converting a huge int to decimal takes quadratic time, and Python refuses it.
    return str(number) if number.bit_length() < 600 else hex(number)


_Writer = Callable[[Content, Any], str]
_BASES: tuple[tuple[type, _Writer], ...] = (
    (int, Content.number),
    (float, Content.number),
    (complex, Content.number),
    (str, Content.text),
    (bytes, Content.binary),
    (tuple, Content.sequence),
    (list, Content.list),
    (dict, Content.mapping),
    (set, Content.set),
    (frozenset, Content.set),
    (np.dtype, Content.dtype),
    (PurePath, Content.path),
)
_WRITERS: dict[type, _Writer] = {
    bool: Content.number,
    **dict(_BASES[:10]),
    type(None): lambda _, value: repr(value),
    type(...): lambda _, value: repr(value),
    type(NotImplemented): lambda _, value: repr(value),
    range: Content.range,
    slice: Content.slice,
    FunctionType: Content.function,
    MethodType: Content.method,
    **dict.fromkeys(DTYPES, Content.dtype),
}
_dtypes: dict[Any, str] = {}
"""The forms of dtypes of numbers, which take long to write."""

"""Fingerprints of jaxprs: by what they compute, never by how variables are named.

    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0 in (c,) }

becomes one line for the inputs, one for each equation and one for the outputs,
where a variable is the number of its definition:

    0:f32[3]
    sin 0 -> f32[3]
    mul 1 2.0:f32[] -> f32[3]
    -> 2
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

import jax
import numpy as np
from jax._src import core

from retrace.jax_internals.shardings import describe, dtype_name, mesh_text
from retrace.model import Program

_MOST_CONTENT = 64 * 1024
_DEEPEST = 20


def fingerprint(jaxpr: Any) -> Program:
    """The content hash of a jaxpr and its equations, those of sub-programs included.

    The hash is the same in every process with the same JAX. Arrays on a device are
    told by their type alone, and functions among the parameters by their name.

    Args:
        jaxpr: open or closed.
    """
    return _Walk().program(jaxpr)


class _Walk:
    """One walk over a program; what was seen on it goes by `id`."""

    def __init__(self) -> None:
        self._programs: dict[int, Program] = {}
        self._types: dict[int, str] = {}
        self._alive: list[Any] = []
        """What JAX may have made for the asking, so that its `id` is not used again."""
        self._count = 0

    def program(self, jaxpr: Any) -> Program:
        if (known := self._programs.get(id(jaxpr))) is not None:
            self._count += known.equations
            return known
        before = self._count
        lines = self.lines(jaxpr)
        digest = hashlib.blake2b(
            "\n".join(lines).encode(errors="surrogatepass"), digest_size=16
        ).hexdigest()
        program = Program(digest, self._count - before)
        self._alive.append(jaxpr)
        self._programs[id(jaxpr)] = program
        return program

    def lines(self, jaxpr: Any) -> list[str]:
        """A line for the inputs, one for each equation, one for the outputs."""
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        numbers: dict[Any, str] = {}
        types = self._types
        inputs = [*inner.constvars, *inner.invars]
        for variable in inputs:
            numbers[variable] = str(len(numbers))
        lines = [" ".join([self._type(variable.aval) for variable in inputs])]
        lines += [f"const {self._constant(value)}" for value in getattr(jaxpr, "consts", ())]
        literal = core.Literal
        for equation in inner.eqns:
            arguments: list[str] = []
            for variable in equation.invars:
                if type(variable) is literal:
                    arguments.append(self._literal(variable))
                else:
                    arguments.append(numbers[variable])
            results: list[str] = []
            for variable in equation.outvars:
                numbers[variable] = str(len(numbers))
                aval = variable.aval
                results.append(types.get(id(aval)) or self._type(aval))
            parameters = self._parameters(equation.params) if equation.params else ""
            lines.append(
                f"{equation.primitive.name} {' '.join(arguments)}{parameters}"
                f" -> {' '.join(results)}"
            )
        self._count += len(inner.eqns)
        outputs = [
            self._literal(variable) if type(variable) is literal else numbers[variable]
            for variable in inner.outvars
        ]
        lines.append(f"-> {' '.join(outputs)}")
        return lines

    def _type(self, aval: Any) -> str:
        text = self._types.get(id(aval))
        if text is None:
            weak = "~" if getattr(aval, "weak_type", False) else ""
            text = self._types[id(aval)] = weak + aval.str_short(short_dtypes=True)
            self._alive.append(aval)
        return text

    def _literal(self, literal: Any) -> str:
        return f"{self._constant(literal.val)}:{self._type(literal.aval)}"

    def _constant(self, value: Any) -> str:
        for base in _SCALARS:
            if isinstance(value, base):  # also JAX's own, which know their dtype
                return base.__repr__(value)
        if _is_on_host(value):
            return _array(np.asarray(value))
        aval = getattr(value, "aval", None)
        return f"<{type(value).__name__}>" if aval is None else self._type(aval)

    def _parameters(self, parameters: dict[str, Any]) -> str:
        found: list[str] = []
        for name, value in parameters.items():
            writer = _WRITERS.get(type(value))
            text = writer(value) if writer is not None else self._value(value, 0)
            found.append(f" {name}={text}")
        return "".join(found)

    def _value(self, value: Any, depth: int) -> str:
        kind = type(value)
        if (writer := _WRITERS.get(kind)) is not None:
            return writer(value)
        if depth > _DEEPEST:
            return f"<{kind.__name__}>"
        if kind is tuple or kind is list:
            return f"({self._join(value, depth)})"
        if isinstance(value, _JAXPRS):
            return self.program(value).hash
        if isinstance(value, tuple):
            return f"{kind.__name__}({self._join(cast(Iterable[Any], value), depth)})"
        if isinstance(value, dict):
            items = cast(dict[Any, Any], value).items()
            pairs = sorted(
                f"{self._value(k, depth + 1)}:{self._value(v, depth + 1)}" for k, v in items
            )
            return f"{{{','.join(pairs)}}}"
        if isinstance(value, set | frozenset):
            members = cast(Iterable[Any], value)
            return f"{{{','.join(sorted(self._value(item, depth + 1) for item in members))}}}"
        return self._object(value, kind, depth)

    def _object(self, value: Any, kind: type, depth: int) -> str:
        if isinstance(value, core.AbstractValue):
            return self._type(value)
        if isinstance(value, np.dtype):
            return dtype_name(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__name__}.{value.name}"
        if _is_on_host(value) or isinstance(value, jax.Array):
            return self._constant(value)
        if isinstance(value, jax.sharding.Sharding):
            return describe(value)
        if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
            return mesh_text(value)
        if isinstance(value, jax.sharding.PartitionSpec):
            return repr(value)
        if kind.__module__.startswith("jax") and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            texts = [
                f"{name}={self._value(getattr(value, name, None), depth + 1)}" for name in names
            ]
            return f"{kind.__name__}({','.join(texts)})"
        if kind.__module__ == "jax._src.flattree":
            return repr(value)  # which of its arguments a scan carries; since jax 0.12
        # Functions and objects of the user's: their content is not the program's.
        name = getattr(value, "__name__", "") if isinstance(value, _NAMED) else ""
        return f"<{kind.__name__} {name}>"

    def _join(self, values: Iterable[Any], depth: int) -> str:
        writers = _WRITERS
        return ",".join(
            [
                writer(value)
                if (writer := writers.get(type(value))) is not None
                else self._value(value, depth + 1)
                for value in values
            ]
        )


_JAXPRS: tuple[Any, ...] = (core.Jaxpr, getattr(core, "ClosedJaxpr", core.Jaxpr))
"""Open and closed ones; since jax 0.12 they are one class."""
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
_HOST_ARRAYS = frozenset(("LiteralArray", "TypedNdArray"))
_SCALARS: tuple[Any, ...] = (bool, int, float, complex)
_WRITERS: dict[type, Callable[[Any], str]] = dict.fromkeys(
    (bool, int, float, complex, str, bytes, type(None)), repr
)


def _is_on_host(value: Any) -> bool:
    """A numpy array or scalar, or since jax 0.7 JAX's own wrapper around one."""
    return isinstance(value, np.ndarray | np.generic) or type(value).__name__ in _HOST_ARRAYS


def _array(array: np.ndarray[Any, Any]) -> str:
    kind = f"{dtype_name(array.dtype)}{list(array.shape)}"
    if array.nbytes > _MOST_CONTENT or array.dtype.hasobject:
        return kind
    if array.nbytes <= 16:
        return f"{kind}{array.tobytes().hex()}"
    return f"{kind}{hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest()}"

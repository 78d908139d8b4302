"""Values inside a program, as text that is the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from retrace.jax_internals.inner_programs import with_inner
from retrace.jax_internals.names_values import (
    HOST_ARRAYS,
    LITERAL,
    TYPE_TEXT,
    UNSPECIFIED,
    WEAK_TYPE,
)
from retrace.jax_internals.shardings import dtype_name

MAX_CONTENT = 512 * 1024
"""In bytes: the content of a larger array is not part of the text."""
_MAX_BYTES = 64
SCALARS: tuple[Any, ...] = (bool, int, float, complex)


def _binary(value: bytes) -> str:
    # May be megabytes: the module of an exported function, the payload of a kernel.
    if len(value) <= _MAX_BYTES:
        return repr(value)
    return f"bytes[{len(value)}]={hashlib.blake2b(value, digest_size=8).hexdigest()}"


def _integer(value: int) -> str:
    # Converting a huge int to decimal takes quadratic time, and Python refuses to do it.
    return repr(value) if value.bit_length() < 600 else hex(value)


def _unspecified(value: Any) -> str:
    return f"<{type(value).__name__} >"


WRITERS: dict[type, Callable[[Any], str]] = {
    # One for each argument and result of a jitted function.
    **({} if UNSPECIFIED.get() is None else {UNSPECIFIED.get(): _unspecified}),
    **dict.fromkeys((bool, float, complex, str, type(None)), repr),
    int: _integer,
    bytes: _binary,
    **dict.fromkeys(map(type, map(np.dtype, "?bhilBHILefdFD")), dtype_name),
}
"""How values of Python's built-in types, dtypes of numbers and the like are written, by type."""


def is_on_host(value: Any) -> bool:
    """Whether a value is a NumPy array or scalar, or (since jax 0.7) JAX's wrapper of one."""
    return isinstance(value, np.ndarray | np.generic) or type(value).__name__ in HOST_ARRAYS


def type_text(aval: Any) -> str:
    """The text of an aval; `~` stands for a weak type."""
    weak = "~" if WEAK_TYPE.of(aval, False) else ""
    return weak + TYPE_TEXT.of(aval)(short_dtypes=True).replace(" ", "")


def narrowed(value: Any, aval: Any) -> Any:
    """A number as the dtype of its aval holds it: JAX keeps Python's 64 bits in some literals."""
    if not isinstance(value, (*SCALARS, np.generic)) or not isinstance(
        dtype := getattr(aval, "dtype", None), np.dtype
    ):
        return value
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def array_text(value: np.ndarray[Any, Any]) -> str:
    """The text of a host array: its type, and if it is small its content or a digest of it."""
    if not value.shape and not value.dtype.hasobject:
        return str(value[()]).replace(" ", "")
    kind = f"{dtype_name(value.dtype)}[{','.join(map(str, value.shape))}]"
    if value.nbytes > MAX_CONTENT or value.dtype.hasobject:
        return f"{kind}="
    if value.nbytes <= 16:
        text = ",".join(map(str, value.ravel().tolist()))
        return f"{kind}=({text.replace(' ', '')})"
    return f"{kind}={hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest()}"


def captured_by(jaxpr: Any, *, unused: bool) -> tuple[list[Any], list[Any]]:
    """The variables of the arrays that a program captured, and these arrays, if it holds them.

    Args:
        jaxpr: open or closed.
        unused: whether to include those that nothing in it uses. JAX captures them while it
            traces, as where rebuilding a pytree creates an array that is replaced at once.
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    variables, values = list(inner.constvars), list(getattr(jaxpr, "consts", ()))
    if unused or len(variables) != len(values):
        return variables, values
    taken = [*inner.outvars, *[each for equation in inner.eqns for each in equation.invars]]
    used = {id(variable) for variable in taken}
    kept = [pair for pair in zip(variables, values, strict=True) if id(pair[0]) in used]
    return [variable for variable, _ in kept], [value for _, value in kept]


def literal_arrays(jaxpr: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The host arrays without axes in a program and its sub-jaxprs, which JAX writes as literals.

    They may be the user's own, changed in place since the trace; then the literal changes, too.
    """
    literal = LITERAL.get()
    for inner in with_inner(jaxpr):
        for variable in (*inner.outvars, *(v for each in inner.eqns for v in each.invars)):
            if type(variable) is literal and is_on_host(held := variable.val):
                array = np.asarray(held)
                if not array.shape and array.flags.writeable:
                    yield array

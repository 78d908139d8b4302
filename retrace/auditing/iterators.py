"""What a function advances by reading it: an iterator, and what is made of one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodWrapperType
from typing import Any

from retrace.auditing.stack import Place
from retrace.capture.objects import defined, derives, kind_of

_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)


def is_iterator(value: Any) -> bool:
    """Whether reading it advances it. The class of a weak proxy has every method."""
    return (
        not derives(kind := kind_of(value), *_PROXIES) and defined(kind, "__next__") is not None
    )


def advances(value: Any) -> bool:
    """Whether calling it advances an iterator: `partial(next, numbers)`, `numbers.__next__`."""
    if type(value) is partial:
        return advances(value.func) or any(map(is_iterator, value.args))
    return type(value) is MethodWrapperType and is_iterator(value.__self__)


def defaults(function: FunctionType) -> Iterator[tuple[Place, Any]]:
    """The default values of a function's parameters."""
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    for name, value in (
        *zip(names, given, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield Place("argument", name), value

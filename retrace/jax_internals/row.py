"""One private name of JAX: where it is, and what is lost without it.

Importing this module resolves nothing. Each access to a row looks into JAX, which usually
takes less than a microsecond, runs no JAX code and touches no device.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import jax


class Loss(NamedTuple):
    """Something that a recording lacks if JAX does not show it."""

    name: str
    """The name counted in the `losses` of a run."""
    without: str
    """What is then missing, in one sentence."""
    unseen: str | None = None
    """The part of a miss from which nothing can then be concluded (`model.Miss.unseen`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A name that retrace relies on, and that JAX may rename in any release."""

    name: str
    where: str
    look: Callable[[], Any]
    """Finds it in this JAX; returns None if missing."""
    loss: Loss | None
    """None if cosmetic."""
    since: str = "0.6"
    """The first supported release that has it."""
    until: str | None = None
    """The first release without it."""
    said: str = ""

    @property
    def lost(self) -> str | None:
        """The name of the loss, as in `losses`; None if cosmetic."""
        return None if self.loss is None else self.loss.name

    @property
    def without(self) -> str:
        """What is lost without it, in one plain sentence."""
        return self.said or (self.loss.without if self.loss is not None else "Nothing is lost.")

    @property
    def expected(self) -> bool:
        """Whether the installed JAX should have it, judging by its version."""
        return _has_come(self.since) and (self.until is None or not _has_come(self.until))

    def get(self) -> Any:
        """The object with this name; None if this JAX lacks it. Looked up once and cached."""
        return looked_up[self]

    def there(self) -> bool:
        """Whether this JAX has it."""
        return self.look() is not None

    def value(self) -> Any:
        """The current value of a slot."""
        return getattr(resolve(self.where), self.name, None)

    def of(self, held: Any, default: Any = None) -> Any:
        """The attribute with this name."""
        return getattr(held, self.name, default)

    def among(self, local: Mapping[str, Any], default: Any = None) -> Any:
        """The local variable with this name."""
        return local.get(self.name, default)


_ABSENT = object()


class _Found(dict[Row, Any]):
    """What was looked up, by row."""

    def __missing__(self, row: Row) -> Any:
        found = self[row] = row.look()
        return found


looked_up = _Found()
"""The object with each name, as `Row.get` returns it. Code run at each miss reads it from here,
without a call."""


def forget() -> None:
    """Clear the cached look-ups."""
    looked_up.clear()


@functools.cache
def _has_come(release: str) -> bool:
    return _version(release) <= _INSTALLED


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


_INSTALLED: tuple[int, ...] = tuple(jax.__version_info__[:3])  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportAttributeAccessIssue]


_resolved: dict[str | Row, Any] | None = None
"""Paths and code of frames resolved since `at_once` began."""


@contextmanager
def at_once() -> Generator[None, None, None]:
    """Resolve each path only once while many rows are looked up."""
    global _resolved
    _resolved = {}
    try:
        yield
    finally:
        _resolved = None


def resolve(path: str) -> Any:
    """A JAX module, class or function by its dotted path; None if missing."""
    if (module := sys.modules.get(path)) is not None:
        return module
    if (known := _resolved) is None:
        return _walked(path)
    found = known.get(path, _ABSENT)
    if found is _ABSENT:
        found = known[path] = _walked(path)
    return found


def _code(frames: Row) -> Any:
    """The code found by a frame row, shared by the rows of its locals."""
    if (known := _resolved) is None:
        return frames.look()
    found = known.get(frames, _ABSENT)
    if found is _ABSENT:
        found = known[frames] = frames.look()
    return found


def _walked(path: str) -> Any:
    found: Any = jax
    done = "jax"
    for part in path.split(".")[1:]:
        done = f"{done}.{part}"
        inner = getattr(found, part, _ABSENT)
        if inner is _ABSENT and isinstance(found, ModuleType):
            try:
                inner = importlib.import_module(done)
            except ImportError:
                return None
        if inner is _ABSENT:
            return None
        found = inner
    return found


def attribute(
    where: str,
    name: str,
    loss: Loss | None,
    *,
    since: str = "0.6",
    until: str | None = None,
    said: str = "",
) -> Row:
    """An attribute of a module or of a class."""
    return Row(
        name,
        where,
        lambda: getattr(resolve(where), name, None),
        loss,
        since,
        until,
        said,
    )


def later(where: str, name: str, loss: Loss | None) -> Row:
    """A class in a module that JAX imports lazily: looking it up does not import the module."""

    def look() -> str | None:
        module = sys.modules.get(where)
        return name if module is None or hasattr(module, name) else None

    return Row(name, where, look, loss)


def slot(where: str, name: str, loss: Loss | None, *, said: str = "") -> Row:
    """A module variable that is None until it is set."""
    return Row(name, where, lambda: hasattr(resolve(where), name) or None, loss, said=said)


def frame(
    where: str,
    loss: Loss | None,
    *,
    inner: str | None = None,
    since: str = "0.6",
    until: str | None = None,
    said: str = "",
) -> Row:
    """The code of a JAX function, or of the function `inner` defined in it."""
    module, _, name = where.rpartition(".")

    def look() -> CodeType | None:
        found = resolve(where)
        if inner is None:
            return code_of(found)
        within = (nested(code, inner) for code in _codes(found))
        return next((code for code in within if code is not None), None)

    return Row(inner or name, where if inner else module, look, loss, since, until, said)


def local(
    frames: Row,
    name: str,
    loss: Loss | None,
    *,
    since: str | None = None,
    until: str | None = None,
    said: str = "",
) -> Row:
    """A local variable of a JAX frame, closure variables included."""

    def look() -> str | None:
        code = _code(frames)
        # If the frame is missing, report only the frame.
        return name if code is None or name in variables(code) else None

    where = f"the frame of {frames.where}.{frames.name}"
    return Row(name, where, look, loss, since or frames.since, until or frames.until, said)


def field(
    where: str,
    name: str,
    loss: Loss | None,
    *,
    since: str = "0.6",
    until: str | None = None,
    said: str = "",
) -> Row:
    """An attribute of the instances of a class."""

    def look() -> str | None:
        kind = resolve(where)
        return name if kind is not None and has_field(kind, name) else None

    return Row(name, where, look, loss, since, until, said)


def text(
    where: str,
    value: str,
    loss: Loss | None,
    *,
    since: str = "0.6",
    until: str | None = None,
    said: str = "",
) -> Row:
    """A string that JAX uses: the value of a module variable, or in the code of a function."""

    def look() -> str | None:
        found = resolve(where)
        if isinstance(found, ModuleType):
            return value if value in vars(found).values() else None
        codes = _codes(found)
        # Functions wrapped in C++ cannot be inspected: what is missing shows at a miss.
        return value if not codes or any(_says(code, value) for code in codes) else None

    return Row(value, where, look, loss, since, until, said)


def code_of(function: Any) -> CodeType | None:
    """The code of a function, without the wrappers that JAX put around it."""
    for _ in range(8):
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _codes(function: Any) -> list[CodeType]:
    """The code of a function and of the functions that it closes over."""
    held = [function]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            continue
    return [code for one in held if (code := code_of(one)) is not None]


def nested(code: CodeType, name: str) -> CodeType | None:
    """The code of a function defined inside another, at any depth."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                return constant
            if (found := nested(constant, name)) is not None:
                return found
    return None


def variables(code: CodeType) -> tuple[str, ...]:
    """The names of all local variables of a function, closure variables included."""
    return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)


def has_field(kind: Any, name: str) -> bool:
    """Whether instances of a class have an attribute, as far as the class shows."""
    if hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", ()):
        return True
    for base in getattr(kind, "__mro__", ()):
        for method in ("__init__", "__new__"):
            made = code_of(base.__dict__.get(method))
            if made is not None and name in made.co_names:
                return True
    return False


def _says(code: CodeType, value: str) -> bool:
    return value in code.co_names or any(
        constant == value
        if isinstance(constant, str)
        else isinstance(constant, CodeType) and _says(constant, value)
        for constant in code.co_consts
    )

"""One private name of JAX: where it is, and what is lost without it.

Nothing is resolved when this is imported. A row looks into JAX each time it is asked, which
takes less than a microsecond for most, runs none of JAX's code and touches no device.
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
    """Something that a recording lacks where JAX does not show it."""

    name: str
    """As it is counted among the `losses` of a run."""
    without: str
    """What is missing then, in one sentence."""
    unseen: str | None = None
    """The part of a miss that nothing can be concluded from then (`model.Miss.unseen`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A name that retrace relies on, and that JAX may rename in any release."""

    name: str
    where: str
    look: Callable[[], Any]
    """Finds it in this JAX; None where it is not there."""
    loss: Loss | None
    """None where it is cosmetic."""
    since: str = "0.6"
    """The first release that has it, of those that are supported."""
    until: str | None = None
    """The first release that does not have it."""
    said: str = ""

    @property
    def lost(self) -> str | None:
        """The name of the loss, as it stands in `losses`; None where it is cosmetic."""
        return None if self.loss is None else self.loss.name

    @property
    def without(self) -> str:
        """What is lost without it, in one plain sentence."""
        return self.said or (self.loss.without if self.loss is not None else "Nothing is lost.")

    @property
    def expected(self) -> bool:
        """Whether the installed JAX should have it, going by its version."""
        return _has_come(self.since) and (self.until is None or not _has_come(self.until))

    def get(self) -> Any:
        """What it names; None where this JAX does not have it. Asked of JAX once."""
        found = _found.get(self, _ABSENT)
        if found is _ABSENT:
            found = _found[self] = self.look()
        return found

    def there(self) -> bool:
        """Whether this JAX has it."""
        return self.look() is not None

    def value(self) -> Any:
        """What a slot holds now."""
        return getattr(resolve(self.where), self.name, None)

    def of(self, held: Any, default: Any = None) -> Any:
        """The attribute of this name."""
        return getattr(held, self.name, default)

    def among(self, local: Mapping[str, Any], default: Any = None) -> Any:
        """The local variable of this name."""
        return local.get(self.name, default)


_ABSENT = object()
_found: dict[Row, Any] = {}


def forget() -> None:
    """Ask JAX again for what was asked before."""
    _found.clear()


@functools.cache
def _has_come(release: str) -> bool:
    return _version(release) <= _INSTALLED


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


_INSTALLED: tuple[int, ...] = tuple(jax.__version_info__[:3])  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportAttributeAccessIssue]


_resolved: dict[str | Row, Any] | None = None
"""What was found by its path, and the code of frames, since `at_once` began."""


@contextmanager
def at_once() -> Generator[None, None, None]:
    """Many rows are asked one after the other: each path is walked once."""
    global _resolved
    _resolved = {}
    try:
        yield
    finally:
        _resolved = None


def resolve(path: str) -> Any:
    """A module, a class or a function of JAX by its dotted path; None where it is not there."""
    if (module := sys.modules.get(path)) is not None:
        return module
    if (known := _resolved) is None:
        return _walked(path)
    found = known.get(path, _ABSENT)
    if found is _ABSENT:
        found = known[path] = _walked(path)
    return found


def _code(frames: Row) -> Any:
    """What a row of a frame finds: each of its locals asks."""
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
    """A class of a module that JAX imports when it is first needed: we do not import it."""

    def look() -> str | None:
        module = sys.modules.get(where)
        return name if module is None or hasattr(module, name) else None

    return Row(name, where, look, loss)


def slot(where: str, name: str, loss: Loss | None, *, said: str = "") -> Row:
    """A module's variable that is None until somebody fills it."""
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
    """The code of one of JAX's functions, or of the function `inner` that it defines."""
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
    """A local variable of a frame of JAX's, one that it closes over included."""

    def look() -> str | None:
        code = _code(frames)
        # Without the frame it is the frame that is missing.
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
    """An attribute that the instances of a class have."""

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
    """A string that JAX uses: among the variables of a module, or in the code of a function."""

    def look() -> str | None:
        found = resolve(where)
        if isinstance(found, ModuleType):
            return value if value in vars(found).values() else None
        codes = _codes(found)
        # Of what C++ has wrapped nothing can be seen: what it does not do shows at a miss.
        return value if not codes or any(_says(code, value) for code in codes) else None

    return Row(value, where, look, loss, since, until, said)


def code_of(function: Any) -> CodeType | None:
    """The code of a function, or of the one inside what JAX has wrapped around it."""
    for _ in range(8):
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _codes(function: Any) -> list[CodeType]:
    """The code of a function and of those that it closes over."""
    held = [function]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            continue
    return [code for one in held if (code := code_of(one)) is not None]


def nested(code: CodeType, name: str) -> CodeType | None:
    """The code of a function that is defined in another one, at any depth."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                return constant
            if (found := nested(constant, name)) is not None:
                return found
    return None


def variables(code: CodeType) -> tuple[str, ...]:
    """The names of all local variables of a function, those that it closes over included."""
    return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)


def has_field(kind: Any, name: str) -> bool:
    """Whether the instances of a class have an attribute, as far as the class can tell."""
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

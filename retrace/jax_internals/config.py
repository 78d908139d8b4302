"""The part of JAX's configuration that is in its cache keys, by public names."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import lru_cache
from operator import is_
from types import FrameType
from typing import Any

import jax

from retrace.jax_internals import losses, names
from retrace.jax_internals.names_frames import APPLIES, DISABLED
from retrace.jax_internals.names_values import (
    AXES,
    AXIS_ENVIRONMENT,
    AXIS_SIZES,
    CONTEXT_NAMES,
    HELD,
    HOLDER,
    HOLDER_MODULES,
    JIT_KEY_ONLY,
    MESHES,
    METADATA,
    METADATA_VALUE,
    OF_ALL_THREADS,
    OTHER_AXES,
    PUBLIC_NAMES,
    SET,
    SETTINGS,
    STATES,
    SWAP,
    TRACE_CONTEXT,
)
from retrace.jax_internals.row import looked_up
from retrace.jax_internals.shardings import mesh_text
from retrace.model import JSON, Value

_BEFORE = DISABLED.name
_PLAIN = frozenset((bool, int, float, str, type(None)))

_Device: Any = jax.Device  # pyright: ignore[reportUnknownMemberType]

Context = tuple[tuple[str, Value], ...]

_EMPTY: tuple[tuple[Any, ...], Context, tuple[str, ...]] = ((), (), ())
_last = _EMPTY


def context(
    lost: Callable[[str], None], snapshot: Callable[[object], Value] | None = None
) -> Context:
    """The configuration of this thread that is part of JAX's trace context and jit key.

    Args:
        lost: called with a reason for each value that has no name or cannot be compared.
        snapshot: describes the value of a `jax.make_user_context`; without it, such values
            are not compared.
    """
    global _last
    if losses.CONFIG in names.gone:
        return ()
    values = _values()
    last, found, uncompared = _last
    # Usually nothing has changed since the last miss: every value is the same object.
    if len(last) == len(values) and all(map(is_, last, values)):
        for reason in uncompared:
            lost(reason)
        return found
    known = _names(len(values))
    row = tuple(
        [
            value if type(value) in _PLAIN else _described(name, value, snapshot)
            for name, value in zip(known, values, strict=True)
        ]
    )
    try:
        found, uncompared = _encoded(known, row, tuple(map(type, row)))
    except TypeError:
        # A user's value may be unhashable.
        found, uncompared = _encoded.__wrapped__(known, row, ())
    if all(map(_is_inert, values)):
        _last = (values, found, uncompared)
    for reason in uncompared:
        lost(reason)
    return found


def settings() -> dict[str, JSON]:
    """All global values of `jax.config` by name; empty if JAX hides them."""
    holders: dict[str, Any] = dict(SETTINGS.get() or {})
    found: dict[str, JSON] = {}
    for name, holder in sorted(holders.items()):
        # Within a context manager, this thread's value may differ.
        ask = OF_ALL_THREADS.of(holder)
        value = HELD.of(holder) if ask is None else ask()
        if isinstance(value, enum.Enum):
            value = value.value
        if type(value) not in _PLAIN:
            value = _special(value, None).text
        found[name] = value
    return found


_MAX_FRAMES = 8


def is_jit_disabled(frame: FrameType | None) -> bool:
    """Whether `jax_disable_jit` was on where an operation was called, which JAX runs without.

    Args:
        frame: JAX's call of the operation's jitted function.
    """
    applies = looked_up[APPLIES]
    for _ in range(_MAX_FRAMES):
        if frame is None or applies is None:
            return False
        if frame.f_code is applies:
            before = frame.f_locals.get(_BEFORE)
            if isinstance(before, bool):
                return before
            # This thread had no value of its own.
            holder = (SETTINGS.get() or {}).get("jax_disable_jit")
            ask = OF_ALL_THREADS.of(holder)
            return (HELD.of(holder) if ask is None else ask()) is True
        frame = frame.f_back
    return False


def can_be_set(name: str) -> bool:
    """Whether an option can be set temporarily for a thread, as with `jax.enable_x64`."""
    return name in STATES.get()


def _is_inert(value: Any) -> bool:
    """Whether a value is safe to keep: immutable, with no references to user objects."""
    if type(value) in _PLAIN or isinstance(value, enum.Enum | frozenset):
        return True
    if type(value) is tuple:
        return not value
    if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        return not value.axis_names
    return type(value).__name__ == AXIS_ENVIRONMENT.name


def _values() -> tuple[Any, ...]:
    traced: tuple[Any, ...] = looked_up[TRACE_CONTEXT]()
    held = HELD.name
    return (*traced, *[getattr(holder, held, None) for holder in _jit_key_only()])


@lru_cache(maxsize=1)
def _holders() -> dict[str, Any]:
    """JAX's configuration objects, by public name, else by their name in the module."""
    # Before jax 0.8 the objects have no name, but the public ones are registered by name.
    public: dict[str, Any] = dict(STATES.get())
    names = {id(holder): name for name, holder in public.items()}
    found: dict[str, Any] = {}
    for module in filter(None, (row.get() for row in HOLDER_MODULES.values())):
        for name, holder in vars(module).items():
            if isinstance(holder, HOLDER.get()):
                name = names.get(id(holder)) or getattr(holder, "name", name)
                found.setdefault(name, holder)
    return found


@lru_cache(maxsize=1)
def _jit_key_only() -> tuple[Any, ...]:
    holders = _holders()
    return tuple(holders[name] for name in JIT_KEY_ONLY if name in holders)


@lru_cache(maxsize=4)
def _names(count: int) -> tuple[str | None, ...]:
    """The name of each value; None if it cannot be found.

    `jax.make_user_context` makes the context longer, and then the names are looked up again.
    """
    holders = _holders()
    only = [name for name in JIT_KEY_ONLY if name in holders]
    found: tuple[str | None, ...]
    try:
        found = tuple(CONTEXT_NAMES.get()())
    except (TypeError, NotImplementedError):
        found = _probed_names(count - len(only))
    if hasattr(jax, "make_user_context"):
        # Only user contexts can be added after JAX is imported.
        found = tuple(["user_context" if name is None else name for name in found])
    return _distinct((*found, *only))


def _distinct(names: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Make names unique: the second of two user contexts becomes `user_context[1]`."""
    return tuple(
        [
            f"{name}[{names[:index].count(name)}]" if name and name in names[:index] else name
            for index, name in enumerate(names)
        ]
    )


def _probed_names(count: int) -> tuple[str | None, ...]:
    """Find the names before jax 0.10, where the trace context has none, by changing each value.

    The change is local to this thread and does not run any of JAX's hooks.
    """
    found: list[str | None] = [None] * count
    mark = object()
    for name, holder in _holders().items():
        before = SWAP.of(holder)(mark)
        try:
            marked: tuple[Any, ...] = TRACE_CONTEXT.get()()
        finally:
            SET.of(holder)(before)
        for index, value in enumerate(marked):
            if value is mark:
                found[index] = name
    return tuple(found)


# Cached by content and for plain data only: anything else would keep JAX objects alive.
@lru_cache(maxsize=64)
def _encoded(
    names: tuple[str | None, ...], row: tuple[Any, ...], _: tuple[type, ...]
) -> tuple[Context, tuple[str, ...]]:
    found: dict[str, Value] = {}
    meshes: dict[str, str] = {}
    unnamed: list[str] = []
    for name, value in zip(names, row, strict=True):
        if name is None:
            unnamed.append("a config value without a name")
        elif name in MESHES:
            meshes[name] = value.text if isinstance(value, Value) else ""
        else:
            encoded = value if isinstance(value, Value) else _plain(value)
            if encoded.token is None:
                unnamed.append(f"the value of {name} cannot be compared")
            found[PUBLIC_NAMES.get(name, name.removeprefix("_"))] = encoded
    found["mesh"] = _mesh(meshes)
    return tuple(sorted(found.items())), tuple(unnamed)


def _mesh(texts: dict[str, str]) -> Value:
    entered, set_, abstract = (texts.get(name, "") for name in MESHES)
    # If a concrete mesh is set, the abstract one only repeats it.
    parts = [
        f"with {entered}" if entered else "",
        f"set {set_}" if set_ else f"set {abstract}" if abstract else "",
    ]
    text = "; ".join(part for part in parts if part)
    return Value("Mesh", text, text, True) if text else _plain(None)


def _plain(value: JSON) -> Value:
    text = repr(value)
    return Value(type(value).__name__, text, text, True, value)


def _described(name: str | None, value: Any, snapshot: Callable[[object], Value] | None) -> Value:
    return _axes(value) if name == AXES else _special(value, snapshot)


def _axes(env: Any) -> Value:
    """The named axes being mapped over at the call, with their sizes."""
    is_pairs = isinstance(env, tuple)  # jax 0.6
    sizes = {str(axis): size for axis, size in (env if is_pairs else AXIS_SIZES.of(env).items())}
    named = [f"{axis}:{size}" for axis, size in sizes.items()]
    if not is_pairs:
        named += [
            f"{label}={sorted(map(str, given))}"
            for label, axes in OTHER_AXES.items()
            if (given := axes.of(env))
        ]
    text = ", ".join(named)
    return Value(type(env).__name__, text, text, True, sizes or None)


def _special(value: Any, snapshot: Callable[[object], Value] | None) -> Value:
    """Describe a value that is not plain data, without keeping a reference to it."""
    kind = type(value).__name__
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, tuple):
        items: list[Value] = [_item(item, snapshot) for item in value]
        texts = ", ".join([item.text for item in items])
        known = all(item.token is not None for item in items)
        return Value(kind, texts, texts if known else None, known)
    return _item(value, snapshot)


def _item(value: Any, snapshot: Callable[[object], Value] | None) -> Value:
    kind = type(value).__name__
    text: str | None = None
    if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        text = mesh_text(value) if value.axis_names else ""
    elif isinstance(value, _Device):
        text = f"{value.platform}:{value.id}"
    elif kind == METADATA.name:
        text = repr(sorted(METADATA_VALUE.of(value, {}).items(), key=str))
    elif isinstance(value, frozenset):
        text = repr(sorted(map(str, value)))
    elif type(value) in _PLAIN or isinstance(value, tuple):
        text = repr(value)
    if text is not None:
        return Value(kind, text, text, True)
    if snapshot is not None:
        return snapshot(value)
    return Value(kind, f"<{kind}>", None, False)

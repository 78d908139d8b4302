"""JAX's configuration as it takes part in its cache keys, by public names."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import is_
from typing import Any

import jax
from jax._src import config, core, layout, mesh

from retrace.jax_internals.shardings import mesh_text
from retrace.model import JSON, Value

_MESHES = ("mesh_context_manager", "device_context", "abstract_mesh_context_manager")
"""`with mesh:`, and what `jax.set_mesh` sets; one thing to the user."""

_JIT_KEY_ONLY = (
    "device_context",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_safer_randint",
    "jax_pallas_auto_assign_collective_ids",
    "jax_pallas_auto_assign_collective_ids_limit",
)
"""In the key of the C++ path alone. JAX tells nobody which these are; read from its source."""

_PUBLIC = {
    "axis_env_state": "axis_env",
    "compute_on_context_manager": "compute_on",
    "pallas_tpu_interpret_mode_context_manager": "pallas_tpu_interpret_mode",
    "xla_metadata_context_manager": "xla_metadata",
}
_PLAIN = frozenset((bool, int, float, str, type(None)))

# Its annotations differ between versions, and are partial.
_config: Any = config
_Device: Any = jax.Device  # pyright: ignore[reportUnknownMemberType]

Context = tuple[tuple[str, Value], ...]

_NONE: tuple[tuple[Any, ...], Context, tuple[str, ...]] = ((), (), ())
_last = _NONE


def context(
    lost: Callable[[str], None], snapshot: Callable[[object], Value] | None = None
) -> Context:
    """The configuration of this thread in JAX's trace context and jit key.

    Args:
        lost: told, with a reason, of a value that has no name or cannot be compared.
        snapshot: describes the value of a `jax.make_user_context`; without it, such a
            value is compared by nothing.
    """
    global _last
    values = _values()
    last, found, losses = _last
    # Nothing has changed since the last miss, as a rule: every value is the same object.
    if len(last) == len(values) and all(map(is_, last, values)):
        for reason in losses:
            lost(reason)
        return found
    names = _names(len(values))
    row = tuple(
        [value if type(value) in _PLAIN else _special(value, snapshot) for value in values]
    )
    try:
        found, losses = _encoded(names, row, tuple(map(type, row)))
    except TypeError:
        # The content of a user's value may be unhashable.
        found, losses = _encoded.__wrapped__(names, row, ())
    if all(map(_is_inert, values)):
        _last = (values, found, losses)
    for reason in losses:
        lost(reason)
    return found


def _is_inert(value: Any) -> bool:
    """Whether a value may be kept: it holds nothing of the user's, and does not change."""
    if type(value) in _PLAIN or isinstance(value, enum.Enum | frozenset):
        return True
    if type(value) is tuple:
        return not value
    if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        return not value.axis_names
    return type(value).__name__ == "AxisEnv"


def _values() -> tuple[Any, ...]:
    traced: tuple[Any, ...] = _config.trace_context()
    return (*traced, *[holder.value for holder in _jit_key_only()])


@lru_cache(maxsize=1)
def _holders() -> dict[str, Any]:
    """JAX's configuration objects, by their public or else their module's name."""
    # Before jax 0.8 the objects know no name; the public ones are registered under theirs.
    public: dict[str, Any] = dict(getattr(_config, "config_states", {}))
    names = {id(holder): name for name, holder in public.items()}
    found: dict[str, Any] = {}
    for module in (config, core, mesh, layout):
        for name, holder in vars(module).items():
            if isinstance(holder, _config.config_ext.Config):
                name = names.get(id(holder)) or getattr(holder, "name", name)
                found.setdefault(name, holder)
    return found


@lru_cache(maxsize=1)
def _jit_key_only() -> tuple[Any, ...]:
    holders = _holders()
    return tuple(holders[name] for name in _JIT_KEY_ONLY if name in holders)


@lru_cache(maxsize=4)
def _names(count: int) -> tuple[str | None, ...]:
    """The name of each value; None where none can be found.

    `jax.make_user_context` makes the context longer, and the names are asked again.
    """
    holders = _holders()
    only = [name for name in _JIT_KEY_ONLY if name in holders]
    names: tuple[str | None, ...]
    try:
        names = tuple(_config.trace_context_names())
    except (AttributeError, NotImplementedError):
        names = _probed_names(count - len(only))
    if hasattr(jax, "make_user_context"):
        # Nothing but these can have come in since JAX was imported.
        names = tuple(["user_context" if name is None else name for name in names])
    return _told_apart((*names, *only))


def _told_apart(names: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Several user contexts bear one name; the second becomes `user_context[1]`."""
    return tuple(
        [
            f"{name}[{names[:index].count(name)}]" if name and name in names[:index] else name
            for index, name in enumerate(names)
        ]
    )


def _probed_names(count: int) -> tuple[str | None, ...]:
    """Before jax 0.10 the trace context has no names: each value is changed in turn.

    Only in this thread, and through none of JAX's hooks, so nothing notices.
    """
    found: list[str | None] = [None] * count
    mark = object()
    for name, holder in _holders().items():
        before = holder.swap_local(mark)
        try:
            marked: tuple[Any, ...] = _config.trace_context()
        finally:
            holder.set_local(before)
        for index, value in enumerate(marked):
            if value is mark:
                found[index] = name
    return tuple(found)


# By content, and of plain data alone: JAX's own objects would be kept alive.
@lru_cache(maxsize=64)
def _encoded(
    names: tuple[str | None, ...], row: tuple[Any, ...], _: tuple[type, ...]
) -> tuple[Context, tuple[str, ...]]:
    found: dict[str, Value] = {}
    meshes: dict[str, str] = {}
    losses: list[str] = []
    for name, value in zip(names, row, strict=True):
        if name is None:
            losses.append("a config value without a name")
        elif name in _MESHES:
            meshes[name] = value.text if isinstance(value, Value) else ""
        else:
            encoded = value if isinstance(value, Value) else _plain(value)
            if encoded.token is None:
                losses.append(f"the value of {name} cannot be compared")
            found[_PUBLIC.get(name, name.removeprefix("_"))] = encoded
    found["mesh"] = _mesh(meshes)
    return tuple(sorted(found.items())), tuple(losses)


def _mesh(texts: dict[str, str]) -> Value:
    entered, set_, abstract = (texts.get(name, "") for name in _MESHES)
    # Where a concrete mesh is set, the abstract one only repeats it.
    parts = [
        f"with {entered}" if entered else "",
        f"set {set_}" if set_ else f"set {abstract}" if abstract else "",
    ]
    text = "; ".join(part for part in parts if part)
    return Value("Mesh", text, text, True) if text else _plain(None)


def _plain(value: JSON) -> Value:
    text = repr(value)
    return Value(type(value).__name__, text, text, True, value)


def _special(value: Any, snapshot: Callable[[object], Value] | None) -> Value:
    """A value that is no plain data, without a reference to it."""
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
    elif kind == "AxisEnv":
        text = ", ".join(_axis_env(value))
    elif kind == "XlaMetadata":
        text = repr(sorted(getattr(value, "val", {}).items(), key=str))
    elif isinstance(value, frozenset):
        text = repr(sorted(map(str, value)))
    elif type(value) in _PLAIN or isinstance(value, tuple):
        text = repr(value)
    if text is not None:
        return Value(kind, text, text, True)
    if snapshot is not None:
        return snapshot(value)
    return Value(kind, f"<{kind}>", None, False)


def _axis_env(env: Any) -> Iterator[str]:
    yield from (f"{name}:{size}" for name, size in env.axis_sizes.items())
    for label in ("spmd_axis_names", "explicit_mesh_axis_names"):
        if names := getattr(env, label, None):
            yield f"{label}={sorted(map(str, names))}"

"""The user's call of `pmap`, of which JAX jits a flattened version since 0.8."""

from __future__ import annotations

from types import FrameType, FunctionType
from typing import Any, NamedTuple

from retrace.jax_internals import names_frames as at
from retrace.jax_internals.names_values import WRAPPED
from retrace.jax_internals.row import looked_up

_MAX_FRAMES = 6
"""Maximum number of frames between the frame of the call and that of `pmap`."""


class Options(NamedTuple):
    """Options of `pmap`, by the names that `jit` uses."""

    static_argnums: tuple[int, ...]
    donate_argnums: tuple[int, ...]
    backend: str | None
    static_argnames: tuple[str, ...] = ()
    axis_name: str = "unnamed"
    """Never the default: a function mapped by `pmap` is different from a jitted one."""


class Pmapped(NamedTuple):
    """A mapped function and its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    info: Options
    axes: tuple[tuple[str, Any], ...]
    """Options that only `pmap` has and that are not at their default."""


def pmapped(frame: FrameType | None) -> Pmapped | None:
    """Find the call of `pmap` that made the jitted call of `frame`."""
    wrapped = looked_up[at.PMAP]
    for _ in range(_MAX_FRAMES):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            return None
        if frame.f_code is wrapped:
            return _read(frame.f_locals)
    return None


def is_mapped(frame: FrameType | None) -> bool:
    """Whether a call came through `pmap`, judging only by file and function names."""
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return False
        if "pmap" in frame.f_code.co_qualname or frame.f_code.co_filename.endswith("pmap.py"):
            return True
        frame = frame.f_back
    return False


def mapped(function: Any) -> Any:
    """The function given to `pmap`, from the one that `pmap` jits instead; None for any other.

    Since jax 0.9 the jitted function flattens the arguments and holds the user's function as
    a `WrappedFun`.
    """
    if type(function) is not FunctionType:
        return None
    function = function.__dict__.get("__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None or code is not at.PMAP_FLAT.get():
        return None
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name == at.PMAP_FLAT_FUN.name:
            return WRAPPED.of(cell.cell_contents)
    return None


def prepared(prepare: Any, axis_name: object) -> tuple[Any, Options]:
    """The function and options of `pmap` before 0.8, from what prepares its calls."""
    code = at.PMAP_PREPARES.get()
    names: tuple[str, ...] = () if code is None else code.co_varnames
    given = dict(zip(names, prepare.args, strict=False))
    function, static, donated, backend = [row.among(given) for row in at.PREPARED.values()]
    return function, Options(static or (), donated or (), backend, axis_name=_axis(axis_name))


def _read(local: Any) -> Pmapped | None:
    infer: Any = at.PMAP_INFER.among(local)
    if type(infer) is not FunctionType:
        return None
    held = {
        name: cell.cell_contents
        for name, cell in zip(infer.__code__.co_freevars, infer.__closure__ or (), strict=True)
    }
    function = held.get("f") or WRAPPED.of(held.get("wrapped_fun"))
    static = at.PMAP_STATIC.among(held)
    if function is None or not isinstance(static, tuple):
        return None
    axis_name = _axis(at.PMAP_AXIS_NAME.among(held))
    donated = at.PMAP_DONATED.among(held) or ()
    info = Options(static, donated, at.PMAP_BACKEND.among(held), axis_name=axis_name)
    defaults = ((at.PMAP_IN_AXES, 0), (at.PMAP_AXIS_SIZE, None), (at.PMAP_DEVICES, None))
    axes = [
        (row.name, given) for row, default in defaults if (given := row.among(held)) != default
    ]
    return Pmapped(
        function,
        at.PMAP_ARGS.among(local, ()),
        at.PMAP_KWARGS.among(local, {}),
        info,
        tuple(axes),
    )


def _axis(name: object) -> str:
    """The user's name of an axis; JAX generates a name if the user gives none."""
    if isinstance(name, str) and not name.startswith(("<axis", "_internal_pmap")):
        return name
    return "unnamed"

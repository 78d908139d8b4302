"""Programs that JAX derives from a call's own, such as a gradient: their source and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from retrace.capture.key import parameter_names
from retrace.jax_internals import names_frames as at
from retrace.jax_internals.calls import Call, Site
from retrace.jax_internals.names_values import (
    ARGUMENTS_OF_PROGRAM,
    DEBUG_INFO,
    OPTIONS,
    SIGNATURE,
    SOURCE,
    SOURCE_OF_PROGRAM,
)
from retrace.jax_internals.shardings import leaf
from retrace.model import Leaf

_SOURCE = SOURCE.name


def source_of_call(call: Call) -> str | None:
    """JAX's name for the source of the called function."""
    source = getattr(call.info, _SOURCE, None)
    return source if isinstance(source, str) else None


def source_of_program(jaxpr: Any) -> str | None:
    """JAX's name for the source of the function that a jaxpr was traced from."""
    info = DEBUG_INFO.of(getattr(jaxpr, "jaxpr", jaxpr))
    source = SOURCE_OF_PROGRAM.of(info)
    return source if isinstance(source, str) else None


def program_leaves(site: Site) -> tuple[Leaf, ...]:
    """The inputs of a derived program, with the user's names if JAX kept them."""
    assert site.program is not None
    local = site.program.f_locals
    args = at.DERIVED_ARGS.among(local, ())
    jaxpr = at.DERIVED_JAXPR.among(local, site.jaxpr)
    info = DEBUG_INFO.of(getattr(jaxpr, "jaxpr", jaxpr))
    paths: Sequence[str] = ARGUMENTS_OF_PROGRAM.of(info) or ()
    if len(paths) != len(args) and site.call is not None:
        # JAX did not keep them. A gradient's forward program has the inputs of the call.
        paths = _leaf_names(site.call)
    if len(paths) != len(args):
        paths = [""] * len(args)
    return tuple(
        leaf(value, name or f"args[{index}]")
        for index, (name, value) in enumerate(zip(paths, args, strict=True))
    )


def _leaf_names(call: Call) -> list[str]:
    """The paths of all arrays passed to a call, in JAX's order."""
    numbers, named = OPTIONS["static_argnums"], OPTIONS["static_argnames"]
    static = {number % len(call.args) for number in numbers.of(call.info, ()) if call.args}
    names = parameter_names(SIGNATURE.of(call.info), len(call.args))
    given = [
        *(
            (n, v)
            for i, (n, v) in enumerate(zip(names, call.args, strict=True))
            if i not in static
        ),
        *((n, call.kwargs[n]) for n in sorted(call.kwargs) if n not in named.of(call.info, ())),
    ]
    return [
        name + jax.tree_util.keystr(keys)
        for name, value in given
        for keys, _ in jax.tree_util.tree_flatten_with_path(value)[0]
    ]

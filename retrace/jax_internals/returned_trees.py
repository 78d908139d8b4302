"""The treedefs of what a traced function returned, which JAX keeps with its program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax.tree_util import PyTreeDef

from retrace.jax_internals import names_audit as at
from retrace.jax_internals.traces import Trace


def of_trace(trace: Trace) -> tuple[Any, ...]:
    """The treedefs of what a trace that has just ended returned; empty if JAX hides them."""
    if trace.result is None or not trace.given:
        return ()
    if len(trace.result) > 1 and (found := of_answer(trace.result[1])):
        return found
    return of_stores(at.STORES.of(trace.given[0], ())) if at.STORES.expected else ()


def of_answer(returned: Any) -> tuple[Any, ...]:
    """That in the second part of what JAX's cached trace function returns."""
    tree = at.RETURNED_TREE.of(returned)
    return (tree,) if isinstance(tree, PyTreeDef) else ()


def of_stores(stores: Iterable[Any]) -> tuple[Any, ...]:
    """Those in the stores of a wrapped function, before jax 0.9."""
    filled = [at.STORE_VALUE.of(one) for one in stores if one]
    return tuple([one for one in filled if isinstance(one, PyTreeDef)])

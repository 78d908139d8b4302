"""The paths of a program's results, which JAX's key on disk has and a jaxpr's hash has not."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from retrace.jax_internals.names_audit import RESULT_PATHS
from retrace.jax_internals.names_values import DEBUG_INFO


def digest(jaxpr: Any) -> str | None:
    """Digest of the paths of its results; None where they are the usual ones or not known."""
    paths = result_paths(jaxpr)
    if paths == ("result",) or not isinstance(paths, tuple | None):
        return None
    # Without any, as of an operation under a gradient, they are another key as well.
    told = repr(cast("tuple[str, ...] | None", paths))
    return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=6).hexdigest()


def result_paths(jaxpr: Any) -> object:
    """The paths of a program's results, as it holds them; empty where this JAX shows none."""
    return RESULT_PATHS.of(DEBUG_INFO.of(getattr(jaxpr, "jaxpr", jaxpr)), "")

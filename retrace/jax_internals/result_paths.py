"""Result paths of a program: part of JAX's on-disk key, but not of a jaxpr's hash."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from retrace.jax_internals.names_audit import RESULT_PATHS
from retrace.jax_internals.names_values import DEBUG_INFO

_DEBUG_INFO, _RESULT_PATHS = DEBUG_INFO.name, RESULT_PATHS.name


def digest(jaxpr: Any) -> str | None:
    """Digest of the result paths; None if they are the usual ones or unknown."""
    paths = result_paths(jaxpr)
    if paths == ("result",) or not isinstance(paths, tuple | None):
        return None
    # No paths at all, as for an operation under a gradient, also changes the key.
    text = repr(cast("tuple[str, ...] | None", paths))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def result_paths(jaxpr: Any) -> object:
    """The result paths as stored in a program; empty if this JAX does not show them."""
    info = getattr(getattr(jaxpr, "jaxpr", jaxpr), _DEBUG_INFO, None)
    return getattr(info, _RESULT_PATHS, "")

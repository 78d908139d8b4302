"""Advice on operations outside all jitted functions."""

from __future__ import annotations

from typing import Literal

from retrace.model.advice.advice import Advice, Proof
from retrace.model.function import CallSite


class InCallback(Advice):
    """Use NumPy in a host callback."""

    code = "callback-numpy"


class AtImport(Advice):
    """Use NumPy while a module is imported."""

    code = "numpy-constants"


class InTrace(Advice):
    """Use NumPy for what is computed while a jitted function is traced."""

    code = "numpy-constants"


class EnableJit(Advice):
    """Turn `jax_disable_jit` off, which has jitted functions run one operation at a time."""

    code = "enable-jit"
    proof: Proof = Proof.MEANING
    at: CallSite | None = None
    """Where it was set, if that is known."""


class LeaveEager(Advice):
    """An import or a library runs these operations."""

    code = "nothing"
    who: Literal["import", "library"]
    in_trace: bool = False
    """Whether it does so while a jitted function is traced."""


class JitInit(Advice):
    """Jit the call that creates a model's parameters."""

    code = "jit-init"
    package: str
    name: str | None = None
    """The method that creates them; None if a module is created by calling its class."""


class LibraryCall(Advice):
    """A call into a library runs these operations."""

    code = "library-call"
    name: str
    package: str
    of: str | None = None
    """The user's function that the library calls and that runs them; None if the library does."""
    pure: bool = False
    """Whether the call works in a jitted function, as a layer of a model or an update does."""


class JitBlock(Advice):
    """Put a line's operations into one jitted function."""

    code = "jit-block"


class FewSizes(Advice):
    """Give a line of eager operations few sizes."""

    code = "eager-sizes"
    grows: bool = False
    joined: bool = False
    """Whether it joins a different number of arrays each time."""
    loop: bool = False
    """Whether it is a JAX loop, which compiles for each size wherever it is called."""
    captured: bool = False
    """Whether the loop keeps its number of steps, and arrays that its body reads change size."""
    draws: bool = False
    """Whether it draws random numbers, which would be others for another size."""
    doubled: bool = False
    """Whether each size is another one times a power of two, which looks intended."""
    picks: str = ""
    """The function of `jax.numpy` whose result has a size that depends on data, or `mask` for
    indexing with a mask."""
    inside: bool = False
    """Whether the line calls that function through another one."""
    body: str | None = None
    """Its body, if that is a new function object too and makes it compile again."""

"""Advice on operations outside all jitted functions, in words."""

from __future__ import annotations

from retrace.model import advice as model
from retrace.model.advice import Advice
from retrace.present.words import quoted


def of_operations(advice: Advice) -> str | None:
    """What to do about eager operations."""
    match advice:
        case model.InCallback():
            return (
                "this runs in a host callback: turn its arguments into NumPy arrays on entry "
                "(`np.asarray`) and compute with NumPy; each JAX operation compiles its own "
                "program"
            )
        case model.AtImport():
            return "this runs while its module is imported: use NumPy there"
        case model.InTrace():
            return (
                "this is computed while a jitted function is traced, once for each trace "
                "(`jax.ensure_compile_time_eval`): compute it with NumPy, or leave it"
            )
        case model.LeaveEager(who=who, in_trace=in_trace):
            one = "an import" if who == "import" else "a library"
            when = " while a jitted function is traced, once for each trace" if in_trace else ""
            return f"{one} runs these operations{when}: nothing to change here"
        case model.JitInit():
            return _init(advice.name, advice.package)
        case model.LibraryCall(name=name, package=package, of=str(own)):
            return (
                f"`{name}` of {package} calls `{own}`, which runs these operations one by one: "
                f"jit `{own}` if it takes and returns arrays alone"
            )
        case model.LibraryCall(name=name, package=package):
            return (
                f"`{name}` of {package} runs these operations: nothing to change here, unless "
                "this call can be part of a jitted function"
            )
        case model.JitBlock():
            return (
                "if this line runs often and no shape depends on data, put its operations into "
                "one jitted function"
            )
        case model.FewSizes(loop=True, body=body):
            once = "" if body is None else f"define {quoted(body)} once, outside, and "
            return (
                "this loop compiles again for each size, jitted or not: if its input can be "
                f"padded, {once}pad it to a few sizes with NumPy, and keep the carry unchanged "
                "in the added steps (`jnp.where`); otherwise leave it"
            )
        case model.FewSizes(grows=True):
            return (
                "each size compiles the operations of this line again: create the growing array "
                "at its final size with NumPy, or compute this line with NumPy"
            )
        case model.FewSizes(joined=True):
            return (
                "each number of arrays compiles this operation again: write them into one array "
                "created at its final size, or join them with NumPy "
                "(`np.concatenate`)"
            )
        case model.FewSizes():
            return (
                "each size compiles the operations of this line again: give it arrays of a few "
                "sizes (a boolean mask gives a size for each count, `jnp.where` only one), "
                "or compute it with NumPy"
            )
        case _:
            return None


def _init(name: str | None, package: str) -> str:
    """What to do about what creates a model's parameters, or an optimizer's state."""
    if name is None:
        jit = "nnx.jit" if package == "flax" else "eqx.filter_jit"
        return (
            f"this module of {package} creates its arrays one operation at a time: if it "
            f"holds nothing else, create it inside one jitted function (`{jit}`)"
        )
    text = (
        f"`{name}` of {package} creates its arrays one operation at a time: jit it and call the "
        "result once, as in"
    )
    if package == "optax":
        return f"{text} `jax.jit(optimizer.{name})(params)`"
    return (
        f"{text} `jax.jit(model.{name})(...)`; if it takes a Python flag, bind that first: "
        f"`jax.jit(partial(model.{name}, train=False))(...)`"
    )

"""Advice on operations outside all jitted functions, in words."""

from __future__ import annotations

from pathlib import PurePath

from retrace.model import advice as model
from retrace.model.advice import Advice
from retrace.plan.step import Change
from retrace.present.words import listed, quoted

_JIT_OF_MODULES = {"equinox": "eqx.filter_jit", "flax": "nnx.jit"}
"""How each library jits what takes or returns its modules."""
_MAX_LOOPS = 3
_MANY_KINDS = 4
"""Kinds of operations on a line from which one program for each size saves more than padding."""


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
        case model.EnableJit(at=at):
            where = "perhaps set by `JAX_DISABLE_JIT` in the environment"
            if at is not None:
                where = f"set at {PurePath(at.file).name}:{at.line}"
            return (
                f"turn `jax_disable_jit` off ({where}): with it, jitted functions run one "
                "operation at a time, and each operation compiles its own program"
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
                f"jit `{own}` if it takes and returns arrays alone, reads nothing that changes, "
                f"and hands none to {package} inside"
            )
        case model.LibraryCall(name=name, package=package, pure=True):
            how = (
                _JIT_OF_MODULES.get(package, "jax.jit")
                if name.endswith("__call__")
                else "jax.jit"
            )
            return (
                f"`{name}` of {package} runs these operations one by one: call it in a jitted "
                f"function (`{how}`), with what changes between calls as its arguments"
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
        case model.FewSizes():
            return _few_sizes(advice)
        case _:
            return None


def _few_sizes(advice: model.FewSizes) -> str:
    match advice:
        case model.FewSizes(loop=True, captured=True, body=body):
            once = "" if body is None else f"define {quoted(body)} once, outside, "
            return (
                "arrays that the body of this loop reads come in other sizes, and each size "
                "compiles it again, jitted or not: if rows that are added to them can be masked "
                f"where the body uses them, {once}pass them and pad them to a few sizes with "
                "NumPy; otherwise leave it"
            )
        case model.FewSizes(loop=True, body=body):
            once = "" if body is None else f"define {quoted(body)} once, outside, and "
            return (
                "this loop compiles again for each size, jitted or not: if its input can be "
                f"padded, {once}pad it to a few sizes with NumPy, and keep the carry unchanged "
                "in the added steps (`jnp.where`); otherwise leave it"
            )
        case model.FewSizes(draws=True):
            return (
                "each size compiles the operations of this line again, but they draw random "
                "numbers, which would be others for padded arrays or in NumPy: if that is all "
                "the same, draw for a few sizes; otherwise leave it"
            )
        case model.FewSizes(picks="mask"):
            return (
                "indexing with a mask picks another number of elements each time, and each "
                "number compiles the operations on them again: keep all elements, and put what "
                "changes no result for the others (`jnp.where(mask, x, 0)` for a sum), or pass "
                "`where=mask` to what takes it, like `jnp.mean` and `jnp.std`; or index with "
                "NumPy, and use NumPy for what is done with them"
            )
        case model.FewSizes(picks=name, inside=True):
            return (
                f"what this line calls picks elements by their contents (`jnp.{name}`), and each "
                "number of them compiles the operations on them again: give it the most there "
                "can be (`size=`, for sparse arrays `nse=`), and mask what is filled where "
                "results depend on it; or use NumPy for it and for what is done with them"
            )
        case model.FewSizes(picks=name) if name:
            return (
                f"`jnp.{name}` returns as many elements as its data have, and each number "
                "compiles the operations on them again: give it `size=` (the most there can be) "
                "and `fill_value=`, and mask what is filled where results depend on it; or use "
                "NumPy for it and for what is done with them"
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
        case _:
            return (
                "each size compiles the operations of this line again: give it arrays of a few "
                "sizes (a boolean mask gives a size for each count, `jnp.where` only one), "
                "or compute it with NumPy"
            )


_TAKEN = {"flax": "`rngs`, whose counts go on, or a model that it is for", "equinox": "keys"}


def _init(name: str | None, package: str) -> str:
    """What to do about what creates a model's parameters, or an optimizer's state."""
    if name is None:
        return (
            f"this module of {package} creates its arrays one operation at a time: create it "
            f"inside one jitted function (`{_JIT_OF_MODULES[package]}`), whose arguments are all "
            f"objects that it takes, such as {_TAKEN[package]}, and whose results are those that "
            "you use later"
        )
    object_, given = ("optimizer", "params") if package == "optax" else ("model", "...")
    text = (
        f"`{name}` of {package} creates its arrays one operation at a time: jit it once, as in "
        f"`{name} = jax.jit({object_}.{name})`, and call `{name}({given})` in every place: a "
        "place that is left compiles these operations itself"
    )
    if package == "optax":
        return text
    return (
        f"{text}; bind what has to be Python's first, such as a flag or a length: "
        f"`jax.jit(partial(model.{name}, train=False))`"
    )


def of_lines(change: Change, advice: model.Advice | None) -> str | None:
    """What to do about the eager operations on lines of a plan.

    None for other changes, and for those of which the advice says more.
    """
    if change.family == "eager-sizes" and isinstance(advice, model.FewSizes):
        if advice.grows:
            return _sizes(change, grows=True)
        if advice.doubled:
            return f"{_DOUBLED} {_sizes(change)}"
    if change.family == "eager-sizes" and advice is None:
        return _sizes(change)
    return _block(change) if change.family == "eager" and advice is None else None


def _block(change: Change) -> str:
    what = f"`{change.functions[0]}`" if change.functions else "this line"
    arrays = "takes and returns" if change.functions else "returns"
    but = " (all else that it takes must be static)" if change.functions else ""
    time = "" if change.loops else ", often in less time"
    compiles = f"compiles {change.seen} kinds of operations one by one"
    once = f"compiles them together{time}"
    if change.seen == 1:
        compiles = "compiles one operation again at each call, which makes a new function for it"
        once = "compiles it once"
    text = (
        f"{what} {compiles}: if it {arrays} arrays{but} and no shape in it depends on data, one "
        f"jitted function {once}. What changes between calls must be an argument of it: "
        "what it only reads stays as it was first."
    )
    if not change.loops:
        return text
    lines = listed([f"{PurePath(file).name}:{line}" for file, line in change.loops], _MAX_LOOPS)
    return (
        f"{text} Each step of its Python loop ({lines}) becomes a part of the program, which "
        "takes long to compile if there are many: then jit what one step does instead, or use "
        "`jax.lax.scan`."
    )


_DOUBLED = "each size is twice another one: leave them if that is intended. Otherwise:"


def _sizes(change: Change, *, grows: bool = False) -> str:
    if change.lines > 1:
        array = "create the growing array at its final size"
        if not grows:
            array = "pad the array that has them to a few sizes where it is created"
        text = (
            f"operations compile again for each size on {change.lines} lines: they all get the "
            f"same sizes, so {array}"
        )
    else:
        one = "one operation compiles"
        what = one if change.seen == 1 else f"{change.seen} kinds of operations compile"
        give = "give it arrays of a few sizes"
        if grows:
            give = "create the growing array at its final size"
        text = f"{what} again for each size on this line: {give}"
    text = f"{text} (with a mask if results depend on it)"
    if not change.traced:  # there NumPy would raise an error
        text += (
            ", or use NumPy for what varies (`np.asarray` of each JAX array first; last bits may "
            "differ)"
        )
    if change.lines > 1 or change.seen < _MANY_KINDS:
        return f"{text}."
    return (
        f"{text}. In one jitted function they are one program for each size, which works unless "
        "a shape in it depends on data, as with a boolean mask."
    )


def few_sizes_title(change: Change, advice: model.Advice) -> str:
    """The title of a step about the sizes of eager operations."""
    match advice:
        case model.FewSizes(joined=True):
            return f"one array, or NumPy, where {on_lines(change)} joins them"
        case model.FewSizes(draws=True):
            return f"draw random numbers for few sizes, on {on_lines(change)}"
        case model.FewSizes(picks=name) if name:
            what = "a mask" if name == "mask" else f"`jnp.{name}`"
            return f"one size from {what}, or NumPy, on {on_lines(change)}"
        case model.FewSizes(grows=True):
            return sizes_on_lines(change, "one size")
        case model.FewSizes(doubled=True):
            return sizes_on_lines(change, "few sizes in")
        case model.FewSizes(captured=True):
            return f"few sizes of what the loop reads on {on_lines(change)}"
        case _:
            return f"few lengths of the loop on {on_lines(change)}"


def sizes_on_lines(change: Change, sizes: str) -> str:
    """What lines should get, or else NumPy if they do not also run inside a trace."""
    if change.traced:
        return f"{sizes.removesuffix(' in')} on {on_lines(change)}"
    return f"{sizes}, or NumPy, on {on_lines(change)}"


def on_lines(change: Change) -> str:
    """The lines of a step."""
    return "this line" if change.lines == 1 else f"these {change.lines} lines"

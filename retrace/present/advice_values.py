"""Advice on Python values in the key, in words."""

from __future__ import annotations

from retrace.model import advice as model
from retrace.model.advice import Advice, Proof
from retrace.present.as_argument import AS_ARRAY, argument, leaf, not_static
from retrace.present.words import listed, names, quoted

"""How to set a hyperparameter: a Python number would be weakly typed, with its own program."""
_MAX_VALUES = 4
_MAX_VALUE_LENGTH = 20


def of_values(advice: Advice) -> str | None:  # noqa: C901, PLR0912 - a case each
    """What to do about static arguments and the static data of trees."""
    who = names(advice.paths)
    it, many = ("it", False) if len(advice.paths) == 1 else ("them", True)
    asks = advice.proof is Proof.MEANING
    match advice:
        case model.LeaveOutValue():
            return _left_out(advice, who, it)
        case model.ReuseObject(in_tree=True):
            # An argument by its name alone also holds arrays, which are others each time.
            is_whole = not any("." in path or "[" in path for path in advice.paths)
            return f"create {'the static data of ' if is_whole else ''}{who} once and reuse {it}"
        case model.ReuseObject(each=(_, *_) as each):
            return f"create one {who} for each {names(each)}, outside the loop, and reuse {it}"
        case model.ReuseObject(package=where):
            text = f"create {who} once, outside the loop, and pass the same object to every call"
            return text if where is None else f"{text}; if {where} creates it, report it there"
        case model.OneNaN():
            return (
                f"always pass the same NaN object as {who} (`math.nan`), or None if it means "
                "nothing"
            )
        case model.CompareByValue(type=type_, package=str(package)):
            one = quoted(type_.rpartition(".")[2])
            kept = f"for each setting keep one {one}" if advice.varies else f"keep one {one}"
            return f"{kept} and reuse it as {who}: {package} treats a new one as different"
        case model.CompareByValue(type=type_, held=held):
            if advice.varies and (held or advice.alone):
                return (
                    f"keep one {quoted(type_)} object for all that hold the same, and pass that "
                    f"as {who}: calls pass others with other contents too"
                )
            if advice.varies:
                each = names(advice.classes or (type_,))
                return f"give {each} an `__eq__` and a `__hash__` by value, for {who}"
            text = f"pass the same {quoted(type_)} object as {who} every time"
            if advice.alone:
                return text
            if held:
                return (
                    f"{text}; one that is created again must hold the same {names(held)} and be "
                    "equal to it (`==`) in all else that it holds"
                )
            return (
                f"{text}, or give the class an `__eq__` and a `__hash__` by value, as a frozen "
                "dataclass has (with tuples in place of lists)"
            )
        case model.PassHeld():
            return _held(advice, who)
        case model.OneType(type=type_):
            kind = "one type" if type_ is None else f"a Python {type_}"
            if asks:
                return (
                    f"if {who} means the same in both calls, pass {it} as one type: another "
                    "type may change the dtype of the results"
                )
            return f"pass {who} as {kind} at every call"
        case model.FewValues(why=why):
            return _few(why, who, it, many)
        case model.BranchInProgram():
            each = f"each value of {who} needs its own program"
            if many:
                each = _own_programs(who)
            return (
                f"{each}; if it controls an `if` or a `for`, "
                "`jax.lax.cond` or `jax.lax.fori_loop` (but then without reverse-mode gradients) "
                "would make it a single program"
            )
        case model.ToArray(in_tree=True):
            return leaf(advice, who, it)
        case model.ToArray(mixed=True):
            number = "Python numbers they are" if many else "a Python number it is"
            array = "arrays" if many else "an array"
            return (
                f"pass {who} as {array} at every call (`jnp.asarray`): as {number} static, and "
                "each value needs its own program"
            )
        case model.ToArray():
            return not_static(advice, who, it, many)
        case model.ToArgument():
            return argument(advice, who, it, many)
        case model.PrintOutside():
            return (
                f"only what is printed depends on {who}: print it outside the function, and all "
                "values share one program"
            )
        case model.TripsInProgram(one_type=one_type):
            is_count = (
                "are trip counts of JAX loops" if many else "is the trip count of a JAX loop"
            )
            return (
                f"{who} {is_count}: `jax.lax.fori_loop` and `jax.lax.while_loop` accept one that "
                "is not static (but then without reverse-mode gradients); otherwise keep "
                f"{it} to a few values"
            ) + ("; pass it as one type" if one_type else "")
        case model.LoopInProgram(seen=seen, one_type=one_type):
            is_said = "is unrolled" if seen else "would be unrolled"
            return (
                f"a Python loop over {who} {is_said}: `jax.lax.fori_loop` accepts a bound that "
                "is not static (but then without reverse-mode gradients), `jax.lax.scan` "
                f"compiles one block for each length; otherwise keep {it} to a few values"
            ) + ("; pass it as one type" if one_type else "")
        case model.PassDecision():
            return _decision(advice, who)
        case model.InjectHyperparams(holder=holder, kept=kept):
            keep = f"; and keep one {quoted(kept)}: JAX compiles one program per object"
            return (
                f"create {quoted(holder)} once with `optax.inject_hyperparams`, which keeps the "
                "arguments of what makes it as arrays in the optimizer's state, and set there "
                f"the one that decides {who}, {AS_ARRAY}; name its other arguments in "
                "`static_args`, so that they stay as they are"
            ) + (keep if kept else "")
        case model.DefineOnce(classes=classes):
            return (
                f"define {names(classes)} once, where it does not run again (a module, its own "
                "cell): JAX treats each definition as a different class"
            )
        case _:
            return None


def _held(advice: model.PassHeld, who: str) -> str:
    held = names(advice.held)
    if advice.of:
        leaves = "leaves" if len(advice.held) > 1 else "a leaf"
        arguments = "arguments" if len(advice.held) > 1 else "an argument"
        besides = names(advice.besides)
        static = f", {besides} as static data" if besides else ""
        return (
            f"{who} is another {quoted(advice.of)} over other arrays, which the program holds: "
            f"register the class as a pytree with {held} as {leaves}{static}, and {who} is no "
            f"longer static; or keep one object{f' for each {besides}' if besides else ''} and "
            f"pass {held} as {arguments}, since by itself it goes on with its first arrays"
        )
    if held:
        return (
            f"{who} is a new function over a different {held}: keep one for each and reuse it, "
            f"or pass {held} as an argument"
        )
    if advice.unsure:
        what = "looks the same" if advice.alike else "is a new function of the same code"
        return (
            f"{who} {what} and gives the same equations over arrays that were not compared: if "
            "they are equal, create it once and reuse it; otherwise pass them as an argument, "
            "since one that is kept goes on with its first arrays"
        )
    if advice.alike:
        many = len(advice.paths) > 1
        they = "they hold or read" if many else "it holds or reads"
        return (
            f"{who} {'look' if many else 'looks'} the same but {'give' if many else 'gives'} a "
            f"different program: {they} something else. Keep one for each and reuse it"
        )
    return (
        f"{who} is a new function of the same code that gives a different program: it holds or "
        "reads something else. Keep one for each and reuse it, or pass what differs"
    )


def _own_programs(who: str) -> str:
    return f"different values of {who}, or of one of them, need programs of their own"


def _few(why: str, who: str, it: str, many: bool) -> str:
    match why:
        case "functions":
            return (
                f"keep {who} to a few functions, each created once: JAX compiles one program "
                "for each"
            )
        case "results":
            return (
                f"{who} only names the results: leave {it} out of the static arguments, and name "
                "the results outside of the jitted function"
            )
        case "carried":
            return (
                f"{who} only goes into what the results carry: leave {it} out of the key, and "
                f"add {it} to the results outside of the jitted function"
            )
        case "separate" if many:  # which of them decides is not known
            return f"{_own_programs(who)}: keep them to a few"
        case "separate":
            return f"each value of {who} needs its own program: keep {it} to a few"
        case "flags" if many:
            return f"{who} are flags: each combination of their values has its own program"
        case "flags":
            return f"{who} is a flag: each of its two values has its own program"
        case "shapes" if many:
            return f"keep {who} to a few values: shapes depend on them, or on one of them"
        case "shapes":
            return f"keep {who} to a few values: shapes depend on {it}"
        case _:
            return f"keep {who} to a few values: JAX compiles a program for each"


def _left_out(advice: model.LeaveOutValue, who: str, it: str) -> str:
    name = advice.name
    if advice.read_with:
        these = names(advice.read_with)
        return (
            f"pass one value of {who} in all calls with this {these}: their program is the same "
            f"for both values; calls with another {these} depend on {it}"
        )
    if advice.passing:
        text = (
            f"pass {quoted(name)} what it reads, in place of the whole {quoted(advice.passing)}: "
            f"its program is the same for both values of {who}"
        )
        return f"{text}, which {names(advice.read_by)} needs" if advice.read_by else text
    if advice.read_by:
        depends = "depends" if len(advice.read_by) == 1 else "depend"
        return (
            f"{quoted(name)} gives the same program for both values of {who}, but "
            f"{names(advice.read_by)} {depends} on {it}: pass {quoted(name)} what it "
            "reads, in place of the whole object"
        )
    where = "the tree's static data" if advice.in_tree else "the static arguments"
    if advice.of_object and advice.type is None and not advice.in_tree:
        where = "what its class compares (`field(compare=False)`, `__eq__`, `__hash__`)"
    with_ = f"with this {names(advice.seen_with)}, " if advice.seen_with else ""
    readers = list(map(quoted, (name, *advice.may_read)))
    if advice.of_object or advice.in_tree:
        readers.append("another jitted function")
    reader = " or ".join([", ".join(readers[:-1]), readers[-1]] if readers[1:] else readers)
    text = (
        f"leave {who} out of {where} unless {reader} reads {it}: {with_}the program is "
        "the same for both values"
    )
    if advice.type is not None:
        text += f"; and give {quoted(advice.type)} an `__eq__` and a `__hash__` by value"
    if advice.arrays:
        text += f", which compare {names(advice.arrays)} by identity (`is`, `id`)"
    if advice.held:
        many = len(advice.held) > 1
        text += (
            f", and create {names(advice.held)} once: {'they are' if many else 'it is'} "
            f"equal only to {'themselves' if many else 'itself'}"
        )
    return text


def _decision(advice: model.PassDecision, who: str) -> str:
    number = sum(map(len, advice.values))
    phrase = " ".join(f"{{{_some(values)}}}" for values in advice.values)
    text = (
        f"{who} had {number} values and gave {len(advice.values)} programs, {phrase}: pass what "
        f"{quoted(advice.name)} decides by it (say, a bool) as the static argument, not {who} "
        "itself"
    )
    return (
        f"{text}; pass what it computes from it as an argument that is not static"
        if advice.constant
        else text
    )


def _some(values: tuple[str, ...]) -> str:
    return listed([value[:_MAX_VALUE_LENGTH] for value in values], _MAX_VALUES).replace(
        " and ", ", "
    )

"""Advice on function objects, in words."""

from __future__ import annotations

from retrace.model import advice as model
from retrace.model.advice import Advice, Proof, What
from retrace.present.as_argument import AS_ARRAY
from retrace.present.passing_words import (
    UNEXPLAINED,
    and_pass,
    arguments,
    arrays,
    jit,
    once,
    or_computed,
    whom,
)
from retrace.present.words import names, quoted


def of_functions(advice: Advice) -> str | None:  # noqa: C901, PLR0912 - a case each
    """What to do about a function object, its options, its state or its body."""
    asks = advice.proof is Proof.MEANING
    match advice:
        case model.Library(name=name, package=where, holder=holder) if holder == name:
            return (
                f"{quoted(name)} is an object of {where}, and each call has a new one: create it "
                f"once and use that for all calls; if {where} creates it, report it there"
            )
        case model.Library(name=name, package=where, holder=holder) if holder:
            return (
                f"{quoted(name)} is a method of a new {quoted(holder)} each time: create that "
                f"object once and use it for all calls; if {where} creates it, report it there"
            )
        case model.Library(name=name, package=where, maker=maker, is_body=True) if maker:
            return (
                f"`{maker}` of {where} creates {quoted(name)} again at each call: if this call "
                "takes and returns arrays, make it part of a jitted function, with what changes "
                "as its arguments; otherwise leave it"
            )
        case model.Library(name=name, package=where, is_body=True):
            return (
                f"{quoted(name)} belongs to {where}, which created it again: make this call part "
                "of a jitted function, or create the object that it comes from once; if "
                f"{where} creates it at each call and the call cannot be jitted, report it there"
            )
        case model.Library(name=name, package=where, maker=maker, wraps=wraps) if maker:
            does = "wraps" if wraps else "creates"
            return (
                f"`{maker}` of {where} {does} {quoted(name)} again at each call, and each call "
                f"compiles it again: nothing to change here; report it to {where}"
            )
        case model.Library(name=name, package=where, rejits=True):
            return (
                f"{quoted(name)} is a method of the same object, which {where} jits again: call "
                f"what jits it once; if {where} does so at each call, report it there"
            )
        case model.Library(name=name, package=where, wraps=True):
            return (
                f"{where} wrapped {quoted(name)} again: create the object that it is passed to "
                f"once and use that for all calls; if {where} wraps it at each call, report it "
                "there"
            )
        case model.LibraryPasses(name=name, by=by, package=where):
            return (
                f"`{by}` of {where} passes the arguments of {quoted(name)} differently: "
                "nothing to change, unless you make the other call"
            )
        case model.Library(name=name, package=where):
            return (
                f"{quoted(name)} belongs to {where}, which created it again: create the object "
                f"it comes from once and jit that once; if {where} creates it at each call, "
                "report it there"
            )
        case model.KeepTraced():
            return (
                f"keep {whom(advice)} in a variable and pass that object each time: a new one "
                "is traced again"
            )
        case model.PassTraced():
            differs = names(advice.paths)
            if not differs:
                return (
                    f"{whom(advice)} was created again and is a different program each time: if "
                    "it should be the same, keep it in a variable"
                )
            return (
                f"{whom(advice)} holds a different {differs} each time: keep one for each "
                f"value, or pass {differs} to it as {arguments(advice.paths)}"
            )
        case model.OwnCell():
            return f"keep {whom(advice)} in its own cell, and only run that again after an edit"
        case model.JitForEach():
            return _for_each(advice)
        case model.JitAndPass():
            return and_pass(advice)
        case model.JitOnce(unread=unread) if unread and not asks:
            them = "them" if len(unread) > 1 else "it"
            return (
                f"{_jit_once(advice)}: nothing in its program depends on {names(unread)} (if an "
                f"`if` may read {them} later, pass {them}){_goes_on(advice)}"
            )
        case model.JitOnce(renames=renames, unknown=unknown):
            wrapped = advice.what is What.WRAPPED
            reads = _CALLS_BACK if advice.calls_back else _reads_more(asks, unknown, wrapped)
            return f"{_jit_once(advice)}{_RENAMES if renames else reads}{_goes_on(advice)}"
        case model.OneReceiver(name=name, type=type_, is_method=True):
            return (
                f"keep one {quoted(type_)} object and pass all that differs, if anything, to "
                f"{quoted(name)} as arguments, static where a shape, an `if` or a loop depends "
                "on it, or where it is no array: JAX compiles one program per object"
            )
        case model.OneReceiver(type=type_):
            return (
                f"pass what differs between instances of {quoted(type_)} as arguments, and keep "
                "one instance: JAX compiles one program per instance"
            )
        case model.KeepBound(name=name, is_method=True):
            kept = "jax.pmap" if advice.mapped else "jax.jit"
            text = f"keep `{kept}(...{name})` in a variable or attribute, and call that"
            return text + _reads_more(asks) + _goes_on(advice)
        case model.KeepBound(name=name):
            return (
                f"keep one {quoted(name)} instance and one jitted function made from it, and "
                f"call that{_reads_more(asks)}{_goes_on(advice)}"
            )
        case model.OneOption(name=name):
            what = names(advice.paths) or "its options"
            return (
                f"{quoted(name)} was jitted with two settings of {what}, one program for each: "
                "if one setting is enough, jit it once; if you need both, leave them"
            )
        case model.OneConfig(defined_later=True):
            one = len(advice.paths) == 1
            return (
                f"JAX had no {names(advice.paths)} at the earlier call: a module imported since "
                f"defines {'it' if one else 'them'}; import it before the first call"
            )
        case model.OneConfig(in_thread=True):
            return (
                f"{names(advice.paths)} was set by a context manager in another thread, and only "
                "applies there: enter the context in this thread as well, or set it with "
                "`jax.config.update`"
            )
        case model.OneConfig():
            what = names(advice.paths)
            if asks:
                return (
                    f"if all calls should compute with the same {what}, set it once, before the "
                    "first call; if you need both settings, leave them"
                )
            return (
                f"make every call in the same context, or set {what} once, before the first "
                "call, if all of the program should compute with it"
            )
        case model.FewMapped(name=name, axes=axes, proof=model.Proof.PROGRAM):
            return (
                f"nothing in {quoted(name)} depends on the size of the mapped axis {names(axes)} "
                "but JAX compiles it for each size: call it outside the map, or map over one or "
                "a few sizes"
            )
        case model.FewMapped(axes=axes):
            return (
                f"JAX compiles again for each size of the mapped axis {names(axes)}: pad what is "
                "mapped over with NumPy to one or a few sizes, and mask the padding"
            )
        case model.KeepCaches(calls_back=calls_back):
            unless = ", unless its callback holds something else since" if calls_back else ""
            return f"do not clear the caches between calls of a function{unless}"
        case model.PassState(name=name):
            if not advice.paths:
                return f"pass what {quoted(name)} reads from outside as an argument"
            kind = arguments(advice.paths, "static" if advice.static else "")
            return f"pass {names(advice.paths)} to {quoted(name)} as {kind}"
        case model.KeepMethod(name=name):
            text = (
                f"keep the bound method {quoted(name)} in a variable and pass that (each access "
                f"to `.{name}` creates a new object), or jit the function around it once"
            )
            text = f"{text}; if it reads other values each time, pass those" if asks else text
            return text + _goes_on(advice)
        case model.DefineBodyOnce():
            return _around_loop(advice)
        case _:
            return None


def _around_loop(advice: model.DefineBodyOnce) -> str:
    """What to do about a loop outside all jitted functions whose body is created again."""
    bodies, holds, asks = advice.bodies, advice.holds, advice.proof is Proof.MEANING
    around, rest = "the function around it", ""
    if advice.untraceable:
        around = "the part around it that computes"
        rest = (
            "; what prints, sets attributes, calls `next` or makes Python numbers of arrays "
            "stays outside"
        )
    if advice.package is not None:
        differs = ", with what differs passed in" if asks else ""
        return (
            f"jit {around} once, and call that{differs}: {advice.package} creates a new loop at "
            f"each call{rest}"
        )
    if advice.inject and advice.inject == holds:
        return (
            f"create {names(advice.inject)} once with `optax.inject_hyperparams`, which keeps "
            f"what differs as arrays in the optimizer's state, jit {around} once with that "
            f"state among its arguments, and call it{rest}"
        )
    if holds:
        left_out = {*advice.each, *advice.made}
        passed = (*(name for name in holds if name not in left_out), *advice.numbers)
        each = f" for each {names(advice.each)} that it is given" if advice.each else ""
        traced = tuple(name for name in passed if name not in advice.flags)
        flags = tuple(name for name in passed if name in advice.flags)
        ways = [f"{names(traced)} among its arguments"] if traced else []
        ways += [f"{names(flags)} among its static arguments"] if flags else []
        given = f", with {' and '.join(ways)}" if ways else ""
        if advice.made:
            given += f" and {names(advice.made)} created inside it"
        return (
            f"jit {around} once{each}{given}, and call that: {names(bodies)} cannot be created "
            f"once, since {_differing(advice)}; what a "
            f"jitted function only reads stays as it was first{_static(advice.integers)}{rest}"
        )
    what = "what this line defines" if bodies == ("<lambda>",) else names(bodies)
    what = f"the partial of {what}" if advice.partial and len(bodies) == 1 else what
    is_made = "are created" if len(bodies) > 1 else "is created"
    return (
        f"jit {around} once (with texts and objects as static arguments), and call that{rest}; a "
        f"`scan`, `while_loop` or `cond` is also served if {what} {is_made} once, at module level"
        f"{', and what differs is passed in' if asks else ''}"
    )


def _differing(advice: model.DefineBodyOnce) -> str:
    unknown = advice.unknown
    known = tuple(name for name in advice.holds if name not in unknown)
    said = [f"{names(known)} {'differ' if len(known) > 1 else 'differs'}"] if known else []
    if unknown:
        said.append(f"{names(unknown)} may differ (too large to be compared)")
    return " and ".join(said)


def _static(integers: tuple[str, ...]) -> str:
    if not integers:
        return ""
    it = "them" if len(integers) > 1 else "it"
    return f"; {names(integers)} must be static if a shape depends on {it}"


def _jit_once(advice: model.JitOnce) -> str:
    where = "outside the loop or at module level"
    return f"{jit(advice)} {whom(advice)} {once(advice)}, {where}, and call the result"


def _goes_on(advice: model.JitOnce | model.KeepBound | model.KeepMethod) -> str:
    reads = advice.reads
    if not reads:
        return ""
    later = "those that change later" if len(reads) > 1 else "that if it changes later"
    return f"; it goes on with the first {names(reads)}: pass {later}"


_RENAMES = "; only the names or the static data of its results differ: give those outside of it"


_CALLS_BACK = (
    "; a program goes on with its first callback into Python: leave it if that is another one, "
    "or holds something else, each time"
)


def _reads_more(asks: bool, unknown: tuple[str, ...] = (), wrapped: bool = False) -> str:
    if not asks:
        return ""
    perhaps = f", perhaps {names(unknown)}" if unknown else ""
    if wrapped:
        return (
            f"; what wraps it holds something, or it reads something{perhaps}, that changed the "
            "program: keep one for each, or pass that as well"
        )
    return (
        f"; it reads something from outside that changed the program{perhaps}: pass that as "
        "well, or keep one for each where it is no array (a function, an optimizer)"
    )


def _for_each(advice: model.JitForEach) -> str:
    if advice.inside:
        return (
            f"jit {quoted(advice.name)} once, create {names(advice.paths)} inside it, and pass "
            f"{names(advice.traced)} to it as {arrays(advice)} (an `if` on it stays "
            "outside)"
        )
    text = f"keep one jitted {quoted(advice.name)} for each {names(advice.paths)}, and call that"
    if advice.injects:
        return (
            f"create the optimizer of {quoted(advice.name)} once with "
            "`optax.inject_hyperparams`, which keeps what differs as arrays in its state, set it "
            f"there, {AS_ARRAY}, and jit its {quoted(advice.name)} once; or {text}"
        )
    if advice.same:
        text = (
            f"create {names(advice.paths)} once, jit one {quoted(advice.name)} over that, and "
            "call it"
        )
    if advice.reads:
        also = f"{names(advice.traced)} and " if advice.traced else ""
        text += f"; pass {also}the arrays that it reads, also through what it calls, as arguments"
    elif advice.traced:
        text += f"; pass {names(advice.traced)} as {arrays(advice)}"
        them = "them" if len(advice.traced) > 1 else "it"
        text += or_computed(them) if advice.computed else ""
    if advice.static:
        text += f"; pass {names(advice.static)} as {arguments(advice.static, 'static')}"
    return text + (UNEXPLAINED if advice.unexplained else "")

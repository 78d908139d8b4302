"""Each cause in one or two sentences, with the user's own names."""

from __future__ import annotations

from typing import Any, assert_never, cast

from retrace.causes import Cause
from retrace.model import Change, Component, Kind, Leaf, Miss, Stage, Verdict
from retrace.present.program import evidence
from retrace.present.view import View
from retrace.present.words import clean, count, did, listed, name, operation, place, turned

PATTERNS = {
    "compiles-twice": "compiles twice: one call passes a Python number (weak type), the other an "
    "array (strong type)",
    "placed-later": "placed later: inputs were uncommitted on the first call and committed "
    "afterwards",
    "equal-but-not-the-same": "same contents, different object",
    "grows-by-one": "grows by one: every call has a new shape",
    "last-partial-batch": "last partial batch: the dataset size is not a multiple of the batch "
    "size",
    "many-sizes": "many sizes: JAX compiles one program for each",
    "ping-pong": "ping-pong: the same settings alternate",
    "thousand-tiny-programs": "a thousand tiny programs: each operation is compiled separately",
}
"""The patterns that have a name, in words."""


def pattern(name: str) -> str:
    """A pattern in words, also one that is not known here."""
    return PATTERNS.get(name) or clean(name.replace("-", " "))


def explanation(view: View, verdict: Verdict) -> str:
    """Why a miss happened: one or two sentences, never empty."""
    miss, nearest = verdict.miss, verdict.nearest
    who = " ".join((f"`{name(miss.function)}`", *view.around(miss.function, "`")))
    if miss.derived is not None:
        who = f"the {clean(miss.derived)} program of {who}"
    before = "an earlier call" if nearest is None else view.earlier(nearest, miss)
    if verdict.follows is not None and verdict.changes == ():
        said = _followed(view, verdict, who)
    else:
        said = _sentence(view, verdict, who, before)
    if miss.raised is not None:
        said += f" It raised {clean(miss.raised)} and left no entry in JAX's cache."
    if miss.in_flight is not None:
        said += f" The recording ends while it was in its {miss.in_flight.value} stage."
    return said[0].upper() + said[1:]


def _followed(view: View, verdict: Verdict, who: str) -> str:
    """Of a miss that has its cause from another one."""
    miss = verdict.miss
    again = f"{who} was {did(miss)}"
    other = view.by_id.get(verdict.follows or "")
    label = "the call" if other is None else view.earlier(other.miss, miss)
    if miss.derived is None and miss.parent == verdict.follows:
        made = "the function that was made of it; both are one first trace"
        return f"{who} was {did(miss, '')} inside {label}, {made}."
    if other is not None and other.miss.raised is not None:
        return f"{again} because {label}, the same call, raised and left no entry in JAX's cache."
    if miss.derived is None and verdict.detail is None:
        what = "lowering" if other is not None and Stage.LOWER in other.miss.stages else "trace"
        went_on = did(miss, "").removesuffix(" without a trace")
        return f"{who} was {went_on} from the {what} of {label}: both are one program."
    if miss.derived is None:
        return f"{again} because {label}, the same call in another thread, was still under way."
    return f"{again} because {label}, the call it belongs to, missed, for the same cause."


def _sentence(  # noqa: C901, PLR0912 - one case for each cause, and nothing else
    view: View, verdict: Verdict, who: str, before: str
) -> str:
    miss, changes = verdict.miss, verdict.changes
    again = f"{who} was {did(miss)}"
    written = view.place(miss)
    detail = f": {clean(verdict.detail, 160)}" if verdict.detail else ""
    as_well = f"; {clean(verdict.detail, 160)} as well" if verdict.detail else ""
    match verdict.cause:
        case Cause.FIRST_TRACE:
            if verdict.repeat:
                why = detail or ": it is not a new function"
                return f"{who} was {did(miss, '')} as part of its first use{why}."
            return f"{who} was {_first(miss)} for the first time in this process."
        case Cause.FUNCTION_REDEFINED if verdict.detail:
            return (
                f"{again} because {clean(verdict.detail, 160)} and created a new function "
                "object, and JAX identifies a function by object identity. "
                f"{_rest(verdict, before)}"
            )
        case Cause.FUNCTION_REDEFINED:
            return (
                f"{again} because its `def` at {written} ran again and created a new function "
                "object, and JAX identifies a function by object identity. "
                f"{_rest(verdict, before)}"
            )
        case Cause.LAMBDA_RECREATED:
            return (
                f"{again} because the lambda at {written} created a new function object, and "
                f"JAX identifies a function by object identity. {_rest(verdict, before)}"
            )
        case Cause.PARTIAL_RECREATED:
            return (
                f"{again} because a new `functools.partial` of it was created, and JAX treats "
                f"each partial as another function{as_well}. {_rest(verdict, before)}"
            )
        case Cause.TRANSFORM_RECREATED:
            made = (
                listed([f"`{clean(wrapper)}`" for wrapper in miss.function.wrappers])
                or "a transform"
            )
            return (
                f"{again} because {made} was applied to it again, and each application creates "
                f"a new function{as_well}. {_rest(verdict, before)}"
            )
        case Cause.METHOD_REBOUND:
            what = "instance" if miss.function.kind is Kind.CALLABLE else "bound method"
            return f"{again} because its {what} is not the same object as for {before}{detail}."
        case Cause.SOURCE_CHANGED:
            return (
                f"{again} because its source at {written} was edited after {before} and run or "
                "loaded again."
            )
        case Cause.JIT_OPTIONS_CHANGED:
            what = _listed(changes, Component.OPTIONS) or "other options"
            return f"{again} because `jax.jit` was given other options than for {before}: {what}."
        case Cause.CONFIG_CHANGED:
            what = _listed(changes, Component.CONFIG) or "a setting"
            at = "".join(f", {said}" for change in changes[:1] for said in set_at(view, change))
            return (
                f"{again} because JAX's configuration differs from that of {before}: {what}{at}. "
                "JAX compiles one program for each setting."
            )
        case Cause.STATIC_ARGUMENT_CHANGED:
            what = _listed(changes, Component.STATIC) or "a value"
            return (
                f"{again} because a static argument differs from that of {before}: {what}. JAX "
                "compiles one program for each value of a static argument."
            )
        case Cause.CALL_SIGNATURE_CHANGED:
            what = _listed(changes, Component.SIGNATURE) or "the number of arguments differs"
            return f"{again} because its arguments are passed differently from {before}: {what}."
        case Cause.TREE_STRUCTURE_CHANGED:
            what = _listed(changes, Component.TREE) or "the structure differs"
            return f"{again} because its pytree structure differs from that of {before}: {what}."
        case Cause.SHAPE_CHANGED:
            what = _arrays(verdict, Component.SHAPE)
            return f"{again} because shapes differ from those of {before}: {what}."
        case Cause.DTYPE_CHANGED:
            what = _arrays(verdict, Component.DTYPE)
            return f"{again} because dtypes differ from those of {before}: {what}."
        case Cause.WEAK_TYPE_CHANGED:
            return (
                f"{again} because weak types differ from those of {before}: "
                f"{_arrays(verdict, Component.WEAK_TYPE)}. A Python number is weakly typed; an "
                "array with an explicit dtype is not."
            )
        case Cause.SHARDING_CHANGED:
            what = _listed(changes, Component.SHARDING) or "the placement differs"
            return f"{again} because arrays are placed differently from {before}: {what}."
        case Cause.CACHE_CLEARED:
            return (
                f"{again} with the same key as {before} because the cache was cleared in "
                f"between{_by(verdict)}."
            )
        case Cause.CACHE_EVICTED:
            return (
                f"{again} with the same key as {before} because JAX dropped that entry from a "
                f"full cache{detail}."
            )
        case Cause.JAXPR_CHANGED:
            return (
                f"{again} with the same key as {before} and became a different program: it "
                f"reads something that is not an argument{_read(verdict)}{detail}."
                f"{_read_at(view, verdict)}"
            )
        case Cause.EAGER_OP:
            where = view.called_from(miss)
            at = f" on {where}" if where else ""
            said = f"{who} ran outside every jitted function{at}, so JAX compiled it separately."
            if changes and verdict.nearest is not None:
                said += f" Compared with {before}: {_changed(verdict)}."
            return said
        case Cause.CONTROL_FLOW_RECREATED:
            bodies = list(dict.fromkeys(name(body) for body in miss.bodies))
            were = "were" if len(bodies) > 1 else "was"
            return (
                f"An eager `{operation(miss)}` was {did(miss)} because "
                f"{listed([f'`{body}`' for body in bodies]) or 'its body'} {were} defined again, "
                "and JAX identifies the body of an eager loop or branch by object identity. The "
                f"work of {before} was repeated."
            )
        case Cause.UNKNOWN if miss.unseen:
            why = clean(verdict.detail, 160) if verdict.detail else "JAX does not show it"
            seen = (
                f" What it shows, compared with {before}: {_changed(verdict)}." if changes else ""
            )
            return f"{again}; the reason is unknown because {why}.{seen}"
        case Cause.UNKNOWN:
            return (
                f"{again}, and retrace does not know why: function, arguments, static values, "
                f"options and config were compared with {before}, and nothing differs. This is "
                "a bug in retrace: please report it with the output of "
                f"`retrace show {miss.id}`."
            )
    assert_never(verdict.cause)


def _read(verdict: Verdict) -> str:
    """What was seen to change outside of a function, or what else it can be."""
    cells = [c for c in verdict.changes if c.component is Component.CLOSURE]
    said = [_one(change) for change in (*cells, *verdict.reads)]
    if said:
        return f", of which {listed(said)} changed"
    return " (a global, a closure, a clock, the order of a set)"


def _read_at(view: View, verdict: Verdict) -> str:
    found = evidence(view, verdict, 1)
    return f" Compared with {_nearest(view, verdict)}, {found[0]}." if found else ""


def _nearest(view: View, verdict: Verdict) -> str:
    return "it" if verdict.nearest is None else view.earlier(verdict.nearest, verdict.miss)


def _first(miss: Miss) -> str:
    stages = {*miss.stages, miss.in_flight}
    if Stage.TRACE not in stages:
        return did(miss, "").replace(" without a trace", "")
    return "traced and compiled" if Stage.COMPILE in stages else "traced"


def _by(verdict: Verdict) -> str:
    if not verdict.detail:
        return ""
    detail = clean(verdict.detail, 160)
    return f" {detail}" if detail.startswith("by ") else f": {detail}"


def _rest(verdict: Verdict, before: str) -> str:
    """What else differs in the function, and whether the work was wasted."""
    changes, reads = verdict.changes, verdict.reads
    parts = (Component.CODE, Component.CLOSURE, Component.DEFAULTS)
    differing = [change for change in changes if change.component in parts]
    if differing:
        named = [f"its {change.component.value} {_one(change)}" for change in differing]
        said = listed(named, 2, "more change")
        return f"It also differs from {before} in {said}."
    if any(change.component is Component.PROGRAM for change in changes):
        said = f"Its code is the same as in {before}, its program is not"
        read = listed([_one(change) for change in reads], 2)
        return f"{said}: it reads {read}, which changed." if read else f"{said}."
    return f"Nothing else differs from {before}: this work was wasted."


def _one(change: Change) -> str:
    """One change in words: `lr`: 0.1 -> 0.2."""
    detail = turned(change.detail, 120)
    if change.path is None:
        return detail
    return f"`{clean(change.path)}` ({detail})" if detail else f"`{clean(change.path)}`"


def set_at(view: View, change: Change) -> tuple[str, ...]:
    """Where an option of the configuration was set, if that was seen of either side."""
    for side, said in ((change.new, "set at"), (change.old, "it was set at")):
        at = cast(dict[str, Any], side).get("set_at") if isinstance(side, dict) else None
        if at is not None:
            return (f"{said} {place(at['file'], at['line'], view.bases)}",)
    return ()


def _listed(changes: tuple[Change, ...], component: Component) -> str:
    own = [_one(change) for change in changes if change.component is component]
    return listed(own, 3)


def _changed(verdict: Verdict) -> str:
    return listed([_one(change) for change in verdict.changes], 2, "more change")


def _arrays(verdict: Verdict, component: Component) -> str:
    own = [change for change in verdict.changes if change.component is component]
    said: list[str] = []
    for change in own[:2]:
        old, new = sides(verdict, change)
        said.append(f"`{clean(change.path or 'an argument')}` is {new} (was {old})")
    if len(own) > 2:
        said.append(count(len(own) - 2, "more array"))
    return listed(said) or "they differ"


def sides(verdict: Verdict, change: Change) -> tuple[str, str]:
    """Both sides of a change of an array, as JAX writes its type."""
    old = None if verdict.nearest is None else leaf(verdict.nearest, change.path)
    new = leaf(verdict.miss, change.path)
    if old is None or new is None:
        return clean(change.old), clean(change.new)
    return array(old), array(new)


def array(leaf: Leaf) -> str:
    """`weak int32[]`, `float32[3,4]`."""
    axes = ",".join(map(str, leaf.shape))
    return clean(f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}[{axes}]")


def leaf(miss: Miss, path: str | None) -> Leaf | None:
    """The array at a path of a miss."""
    return next((leaf for leaf in miss.key.leaves if leaf.path == path), None)

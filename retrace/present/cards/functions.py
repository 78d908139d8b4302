"""Words for the causes that lie in the function object."""

from __future__ import annotations

from retrace.model import Component, Kind
from retrace.present.cards.card import Told, Words, then, unless_told, with_more
from retrace.present.changes import in_words
from retrace.present.words import clean, listed


def _redefined(told: Told) -> str:
    how = told.detail or f"its `def` at {told.written} ran again"
    return (
        f"{told.again} because {how} and created a new function object, and JAX identifies a "
        f"function by object identity. {_rest(told)}"
    )


def _lambda(told: Told) -> str:
    return (
        f"{told.again} because the lambda at {told.written} created a new function object, and "
        f"JAX identifies a function by object identity. {_rest(told)}"
    )


def _partial(told: Told) -> str:
    return (
        f"{told.again} because a new `functools.partial` of it was created, and JAX treats "
        f"each partial as another function{_as_well(told)}. {_rest(told)}"
    )


def _transform(told: Told) -> str:
    made = listed([f"`{clean(wrapper)}`" for wrapper in told.miss.function.wrappers])
    return (
        f"{told.again} because {made or 'a transform'} was applied to it again, and each "
        f"application creates a new function{_as_well(told)}. {_rest(told)}"
    )


def _method(told: Told) -> str:
    what = "instance" if told.miss.function.kind is Kind.CALLABLE else "bound method"
    how = f": {told.detail}" if told.detail else ""
    return f"{told.again} because its {what} is not the same object as for {told.before}{how}."


def _source(told: Told) -> str:
    return (
        f"{told.again} because its source at {told.written} was edited after {told.before} and "
        "run or loaded again."
    )


def _as_well(told: Told) -> str:
    return f"; {told.detail} as well" if told.detail else ""


def _rest(told: Told) -> str:
    """What else differs in the function, and whether the work was wasted."""
    changes, before = told.changes, told.before
    parts = (Component.CODE, Component.CLOSURE, Component.DEFAULTS)
    differing = [change for change in changes if change.component in parts]
    if differing:
        named = [f"its {change.component.value} {in_words(change)}" for change in differing]
        said = listed(named, 2, "more change")
        return f"It also differs from {before} in {said}."
    if any(change.component is Component.PROGRAM for change in changes):
        said = f"Its code is the same as in {before}, its program is not"
        read = listed([in_words(change) for change in told.verdict.reads], 2)
        return f"{said}: it reads {read}, which changed." if read else f"{said}."
    return f"Nothing else differs from {before}: this work was wasted."


FUNCTION_REDEFINED = Words(
    meaning="A `def` ran again and created a new function object, which JAX has not seen.",
    sentence=_redefined,
    because=unless_told("the `def` ran again"),
)
LAMBDA_RECREATED = Words(
    meaning="A `lambda` was evaluated again and created a new function object.",
    sentence=_lambda,
    because=then("a new lambda object was created"),
)
PARTIAL_RECREATED = Words(
    meaning=(
        "A new `functools.partial` was created. JAX never finds one again, whatever it binds."
    ),
    sentence=_partial,
    because=with_more("a new partial was created"),
)
TRANSFORM_RECREATED = Words(
    meaning="`jax.grad`, `jax.vmap` or another transform was applied again.",
    sentence=_transform,
    because=with_more("the transform was applied again"),
)
METHOD_REBOUND = Words(
    meaning="A bound method or a callable instance is not the same object as before.",
    sentence=_method,
    because=unless_told("the method was bound again"),
)
SOURCE_CHANGED = Words(
    meaning="The code was edited, and run or loaded again.",
    sentence=_source,
    because=then("the source was edited"),
)

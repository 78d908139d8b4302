"""The wording of causes that lie in the function object."""

from __future__ import annotations

from retrace.model import Component, Kind
from retrace.present.cards.card import Case, Words, replaced_by_detail, then, with_more
from retrace.present.changes import in_words
from retrace.present.words import clean, listed


def _redefined(case: Case) -> str:
    how = case.detail or f"its `def` at {case.written} ran again"
    return (
        f"{case.again} because {how} and created a new function object, and JAX identifies a "
        f"function by object identity. {_rest(case)}"
    )


def _lambda(case: Case) -> str:
    return (
        f"{case.again} because the lambda at {case.written} created a new function object, and "
        f"JAX identifies a function by object identity. {_rest(case)}"
    )


def _partial(case: Case) -> str:
    return (
        f"{case.again} because a new `functools.partial` of it was created, and JAX treats "
        f"each partial as another function{_as_well(case)}. {_rest(case)}"
    )


def _transform(case: Case) -> str:
    made = listed([f"`{clean(wrapper)}`" for wrapper in case.miss.function.wrappers])
    return (
        f"{case.again} because {made or 'a transform'} was applied to it again, and each "
        f"application creates a new function{_as_well(case)}. {_rest(case)}"
    )


def _method(case: Case) -> str:
    what = "instance" if case.miss.function.kind is Kind.CALLABLE else "bound method"
    how = f": {case.detail}" if case.detail else ""
    return f"{case.again} because its {what} is not the same object as for {case.before}{how}."


def _source(case: Case) -> str:
    return (
        f"{case.again} because its source at {case.written} was edited after {case.before} and "
        "run or loaded again."
    )


def _as_well(case: Case) -> str:
    return f"; {case.detail} as well" if case.detail else ""


def _rest(case: Case) -> str:
    """What else differs in the function, and whether the work was wasted."""
    changes, before = case.changes, case.before
    parts = (Component.CODE, Component.CLOSURE, Component.DEFAULTS)
    differing = [change for change in changes if change.component in parts]
    if differing:
        named = [f"its {change.component.value} {in_words(change)}" for change in differing]
        text = listed(named, 2, "more change")
        return f"It also differs from {before} in {text}."
    if any(change.component is Component.PROGRAM for change in changes):
        text = f"Its code is the same as in {before}, its program is not"
        read = listed([in_words(change) for change in case.verdict.reads], 2)
        return f"{text}: it reads {read}, which changed." if read else f"{text}."
    if case.verdict.avoidable == "yes":
        return f"Nothing else differs from {before}: this work was wasted."
    # What a library's function around it holds is no part of the user's.
    return f"Nothing else of it that was recorded differs from {before}."


FUNCTION_REDEFINED = Words(
    meaning="A `def` ran again and created a new function object, which JAX has not seen.",
    sentence=_redefined,
    because=replaced_by_detail("the `def` ran again"),
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
    because=replaced_by_detail("the method was bound again"),
)
SOURCE_CHANGED = Words(
    meaning="The code was edited, and run or loaded again.",
    sentence=_source,
    because=then("the source was edited"),
)

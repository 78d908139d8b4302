"""Words for the causes of what runs outside all jitted functions."""

from __future__ import annotations

from retrace.present.cards.card import Told, Words, then
from retrace.present.changes import all_of
from retrace.present.words import did, listed, name, operation


def _operation(told: Told) -> str:
    where = told.view.called_from(told.miss)
    at = f" on {where}" if where else ""
    said = f"{told.who} ran outside every jitted function{at}, so JAX compiled it separately."
    if told.changes and told.verdict.nearest is not None:
        said += f" Compared with {told.before}: {all_of(told.verdict)}."
    return said


def _body(told: Told) -> str:
    bodies = list(dict.fromkeys(name(body) for body in told.miss.bodies))
    were = "were" if len(bodies) > 1 else "was"
    return (
        f"An eager `{operation(told.miss)}` was {did(told.miss)} because "
        f"{listed([f'`{body}`' for body in bodies]) or 'its body'} {were} defined again, "
        "and JAX identifies the body of an eager loop or branch by object identity. The "
        f"work of {told.before} was repeated."
    )


EAGER_OP = Words(
    meaning="An operation ran outside all jitted functions and was compiled separately.",
    sentence=_operation,
    because=None,
)
CONTROL_FLOW_RECREATED = Words(
    meaning="The body of an eager loop or branch is a new function object.",
    sentence=_body,
    because=then("the body was defined again"),
)

"""The wording of causes outside all jitted functions."""

from __future__ import annotations

from retrace.present.cards.card import Case, Words, then
from retrace.present.changes import all_of
from retrace.present.words import did, listed, name, operation
from retrace.reason.eager import is_in_trace


def _operation(case: Case) -> str:
    where = case.view.called_from(case.miss)
    at = f" on {where}" if where else ""
    when = "outside every jitted function"
    if is_in_trace(case.miss):
        when = "while another function was traced, but outside its program,"
    text = f"{case.who} ran {when}{at}, so JAX compiled it separately."
    if case.changes and case.verdict.nearest is not None:
        text += f" Compared with {case.before}: {all_of(case.verdict)}."
    return text


def _body(case: Case) -> str:
    bodies = list(dict.fromkeys(name(body) for body in case.miss.bodies))
    were = "were" if len(bodies) > 1 else "was"
    program = case.verdict.program
    is_same = program is None or program.kind in (None, "identical")
    repeated = f" The work of {case.before} was repeated." if is_same else ""
    return (
        f"An eager `{operation(case.miss)}` was {did(case.miss)} because "
        f"{listed([f'`{body}`' for body in bodies]) or 'its body'} {were} defined again, "
        f"and JAX identifies the body of an eager loop or branch by object identity.{repeated}"
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

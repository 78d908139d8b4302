"""The wording of causes in how a function is jitted and called, apart from its arrays."""

from __future__ import annotations

from retrace.present.cards.card import Case, Words
from retrace.present.changes import set_at


def _options(case: Case) -> str:
    what = case.own or "other options"
    return f"{case.again} because `jax.jit` got different options than for {case.before}: {what}."


def _config(case: Case) -> str:
    what = case.own or "a setting"
    at = "".join(f", {text}" for first in case.changes[:1] for text in set_at(case.view, first))
    return (
        f"{case.again} because JAX's configuration differs from that of {case.before}: "
        f"{what}{at}. JAX compiles one program for each setting."
    )


def _static(case: Case) -> str:
    what = case.own or "a value"
    return (
        f"{case.again} because a static argument differs from that of {case.before}: {what}. JAX "
        "compiles one program for each value of a static argument."
    )


def _signature(case: Case) -> str:
    what = case.own or "the number of arguments differs"
    return (
        f"{case.again} because its arguments are passed differently from {case.before}: {what}."
    )


def _tree(case: Case) -> str:
    what = case.own or "the structure differs"
    return (
        f"{case.again} because its pytree structure differs from that of {case.before}: {what}."
    )


JIT_OPTIONS_CHANGED = Words(
    meaning="The same function was jitted with other options.",
    sentence=_options,
    because=None,
)
CONFIG_CHANGED = Words(
    meaning="A JAX setting that is part of the key has another value.",
    sentence=_config,
    because=None,
)
STATIC_ARGUMENT_CHANGED = Words(
    meaning=(
        "A static argument has another value, or one with the same contents that is not equal."
    ),
    sentence=_static,
    because=None,
)
CALL_SIGNATURE_CHANGED = Words(
    meaning=("The call passes an argument by keyword instead of by position, or leaves it out."),
    sentence=_signature,
    because=None,
)
TREE_STRUCTURE_CHANGED = Words(
    meaning="The pytree structure of the arguments differs, or static data in it does.",
    sentence=_tree,
    because=None,
)

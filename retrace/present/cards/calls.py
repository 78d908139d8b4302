"""Words for the causes that lie in how a function is jitted and called, its arrays apart."""

from __future__ import annotations

from retrace.model import Component
from retrace.present.cards.card import Told, Words
from retrace.present.changes import of_component, set_at


def _options(told: Told) -> str:
    what = of_component(told.changes, Component.OPTIONS) or "other options"
    return (
        f"{told.again} because `jax.jit` was given other options than for {told.before}: {what}."
    )


def _config(told: Told) -> str:
    what = of_component(told.changes, Component.CONFIG) or "a setting"
    at = "".join(f", {said}" for first in told.changes[:1] for said in set_at(told.view, first))
    return (
        f"{told.again} because JAX's configuration differs from that of {told.before}: "
        f"{what}{at}. JAX compiles one program for each setting."
    )


def _static(told: Told) -> str:
    what = of_component(told.changes, Component.STATIC) or "a value"
    return (
        f"{told.again} because a static argument differs from that of {told.before}: {what}. JAX "
        "compiles one program for each value of a static argument."
    )


def _signature(told: Told) -> str:
    own = of_component(told.changes, Component.SIGNATURE)
    what = own or "the number of arguments differs"
    return (
        f"{told.again} because its arguments are passed differently from {told.before}: {what}."
    )


def _tree(told: Told) -> str:
    what = of_component(told.changes, Component.TREE) or "the structure differs"
    return (
        f"{told.again} because its pytree structure differs from that of {told.before}: {what}."
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

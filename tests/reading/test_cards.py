"""The cards of the causes: what the type checker cannot check."""

from __future__ import annotations

from collections import Counter

from retrace.causes import OF_FUNCTION, Cause
from retrace.compare.keys import NOT_IN_KEY
from retrace.model import Component, Kind, Pattern
from retrace.reason.cards import card
from retrace.reason.patterns import OF_FUNCTION as PATTERNS


def test_each_part_of_the_key_and_each_kind_of_function_is_on_one_card() -> None:
    components = Counter(part for cause in Cause for part in card(cause).components)
    assert components == Counter({*Component} - NOT_IN_KEY)
    kinds = Counter(kind for cause in Cause for kind in card(cause).kinds)
    assert kinds == Counter(Kind)


def test_each_cause_has_a_card_of_its_own() -> None:
    cards = [card(cause) for cause in Cause]
    assert len({*map(id, cards)}) == len(cards)


def test_what_lies_in_a_function_is_in_no_part_of_the_key() -> None:
    assert not any(card(cause).components for cause in OF_FUNCTION)
    of_kinds = {cause for cause in Cause if card(cause).kinds}
    assert of_kinds - {Cause.EAGER_OP} == OF_FUNCTION - {Cause.SOURCE_CHANGED}


def test_each_pattern_is_looked_for() -> None:
    # Except for operations on one line, which belong to no single function.
    assert {name for name, _ in PATTERNS} == {*Pattern} - {Pattern.THOUSAND_TINY_PROGRAMS}

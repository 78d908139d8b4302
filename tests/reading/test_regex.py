"""Patterns that are compiled at their first use behave like those of `re`."""

from __future__ import annotations

import re

import pytest

from retrace.regex import regex


@pytest.mark.parametrize("first", ["findall", "fullmatch", "match", "search"])
def test_a_pattern_is_used_like_one_of_re(first: str) -> None:
    pattern = regex(r"(\d+)x", re.IGNORECASE)
    compiled = re.compile(r"(\d+)x", re.IGNORECASE)
    for method in (first, "search", first):
        assert repr(getattr(pattern, method)("12X")) == repr(getattr(compiled, method)("12X"))
    assert pattern.sub("-", "1x 2X 3") == "- - 3"
    assert pattern.split("a1xb") == ["a", "1", "b"]
    assert pattern.pattern == compiled.pattern
    assert [found[1] for found in pattern.finditer("1x22x")] == ["1", "22"]


def test_nothing_is_compiled_before_the_first_use() -> None:
    broken = regex("(")
    with pytest.raises(re.error):
        broken.search("")

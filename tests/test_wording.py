"""No test holds to retrace's own wording, except in golden files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrace

WORDS = 4
"""So many words in a row are a phrase; fewer may be needed to tell two messages apart."""
TESTS = Path(__file__).parent
ALLOWED = {
    "lines of JAX's log, which retrace reads": (
        *("with global shapes and", "global shapes and types", "TRACING CACHE MISS at"),
        *("jaxpr to MLIR module", "to MLIR module conversion"),
    ),
    "what a generated page leaves out": ("identical to that of",),
    "what the tests themselves report": (
        *("of a derived program", "in one of the", "the name of the", "name of the job"),
    ),
}
"""Phrases that are in both, by the reason."""
_RUN = re.compile(r"[A-Za-z][A-Za-z'-]*(?:[,;:]? [A-Za-z][A-Za-z'-]*)+")


def phrases(text: str) -> Iterator[str]:
    """All sequences of `WORDS` words; names in backquotes, numbers and holes are no words."""
    for run in _RUN.findall(" ".join(text.split())):
        words = re.split("[,;:]? ", run)
        for start in range(len(words) - WORDS + 1):
            yield " ".join(words[start : start + WORDS])


def literals(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of each string that is not a docstring, with holes in f-strings."""
    pieces: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            pieces.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            pieces.update(node.values)
            parts = [it.value if isinstance(it, ast.Constant) else "{}" for it in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in pieces
        ):
            yield node.lineno, node.value


@pytest.fixture(scope="module")
def known() -> set[str]:
    """All phrases of retrace."""
    folder = Path(retrace.__path__[0])
    return {
        phrase
        for file in folder.rglob("*.py")
        for _, text in literals(file.read_text())
        for phrase in phrases(text)
    }


def repeated(source: str, known: set[str]) -> list[tuple[int, str]]:
    """The lines of a test with a phrase of retrace; text of several lines is a program."""
    return [
        (line, phrase)
        for line, text in literals(source)
        if "\n" not in text.strip("\n")
        for phrase in phrases(text)
        if phrase in known
    ]


def test_no_test_repeats_a_phrase_of_retrace(known: set[str]) -> None:
    found = {
        phrase: f"{file.relative_to(TESTS)}:{line}"
        for file in sorted(TESTS.rglob("*.py"))
        if file != Path(__file__)
        for line, phrase in repeated(file.read_text(), known)
    }
    allowed = {phrase for some in ALLOWED.values() for phrase in some}
    assert {phrase: where for phrase, where in found.items() if phrase not in allowed} == {}
    assert found.keys() == allowed  # no exception outlives its reason


@pytest.mark.parametrize(
    "source",
    [
        "assert '{}' in said",
        "assert f'{{name}} {}: {{number}}' in said",
        "with pytest.raises(ValueError, match='.* {},'): pass",
        "pytest.mark.parametrize('said', ['x', '{}\\n'])",
        "assert said == ('and {} '\n 'once more')",
    ],
)
def test_a_repeated_phrase_is_found(source: str, known: set[str]) -> None:
    phrase = min(known)
    assert phrase in {found for _, found in repeated(source.format(phrase), known)}


def test_programs_and_docstrings_are_no_phrases(known: set[str]) -> None:
    phrase = min(known)
    source = f"def test_it():\n    '{phrase}'\n    run('x = 1\\n# {phrase}')\n"
    assert repeated(source, known) == []

"""Private names of JAX are only in the one room that may know them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrace
from retrace.jax_internals import names

PACKAGE = Path(retrace.__path__[0])
ROOM = PACKAGE / "jax_internals"


def distinctive() -> frozenset[str]:
    """Names in the table that are unlikely elsewhere: private ones and long ones."""
    found = {row.name for row in names.TABLE}
    return frozenset(
        name
        for name in found
        if (name.startswith("_") and len(name) > 4) or "/" in name or name.count("_") > 1
    )


def named(source: str) -> Iterator[tuple[int, str]]:
    """Yield each string and attribute in some code, except attributes of `self`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.Attribute) and not _is_self(node.value):
            yield node.lineno, node.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def breaches(source: str) -> list[tuple[int, str]]:
    private = distinctive()
    return [
        (line, text)
        for line, text in named(source)
        if text in private or text.startswith(("jax._src", "jaxlib."))
    ]


def test_no_private_name_of_jax_is_in_another_room() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line} {text}"
        for path in PACKAGE.rglob("*.py")
        if ROOM not in path.parents
        for line, text in breaches(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "getattr(f, '_committed')",
        "x._committed",
        "code.co_name == 'trace_to_jaxpr'",
        "'jax._src.core' in sys.modules",
    ],
)
def test_a_private_name_would_be_found(source: str) -> None:
    assert len(distinctive()) > 60
    assert breaches(source)

"""The site: `python -m sphinx -W docs site` makes it; the pages are read on GitHub as well."""

# ruff: noqa: INP001 - Sphinx reads it, nobody imports it

# pyright: basic

from __future__ import annotations

import re
from pathlib import Path

import retrace

project = "retrace"
author = "The retrace authors"
version = release = retrace.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["skills"]
html_theme = "sphinx_book_theme"
html_title = "retrace"
html_theme_options = {
    "repository_url": "https://github.com/retrace-jax/retrace",
    "repository_branch": "main",
    "path_to_docs": "docs",
    "use_repository_button": True,
    "use_edit_page_button": True,
}
# What other pages of the repository are, from here.
_SOURCE = "https://github.com/retrace-jax/retrace/blob/main/"
_HERE = Path(__file__).parent
default_role = "code"  # one backtick in a docstring
autodoc_typehints = "none"  # the signature has them
autodoc_member_order = "bysource"


_LISTS = {"causes/README": "*", "decisions/README": "*"}


def _add_lists(_: object, name: str, source: list[str]) -> None:
    """The pages of a folder, below the page that presents them."""
    if (which := _LISTS.get(name)) is not None:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{which}\n```\n"


def _link_to_repository(_: object, name: str, source: list[str]) -> None:
    """Let links to files that are neither pages nor pictures lead to the repository."""
    folder = (_HERE / name).parent

    def linked(match: re.Match[str]) -> str:
        target, hash_, anchor = match[1].partition("#")
        path = (folder / target).resolve()
        is_page = path.suffix in (".md", ".png") and path.is_relative_to(_HERE)
        if not path.exists() or (is_page and not path.is_relative_to(_HERE / "skills")):
            return match[0]
        return f"]({_SOURCE}{path.relative_to(_HERE.parent)}{hash_}{anchor})"

    source[0] = re.sub(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)", linked, source[0])


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_lists)  # pyright: ignore[reportAttributeAccessIssue]
    app.connect("source-read", _link_to_repository)  # pyright: ignore[reportAttributeAccessIssue]

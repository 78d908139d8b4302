"""Names the arrays of a call as an earlier call did, if only the container types differ.

`batch[0]` of a tuple is `batch.x` of a named tuple, and `batch['x']` of a dict is `batch.x` of a
dataclass: it is the same array, and its sizes are one thing to change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrace.compare.tree import Arguments
from retrace.model import Key
from retrace.regex import regex

_LABEL = regex(r"\['(.*)'\]|\.(.*)|\[([0-9]+)\]", re.DOTALL)


def renamed(key: Key, first: Key) -> Key:
    """The key, using the labels that the first key has for containers of the same arrays."""
    if key.tree is first.tree or key.tree == first.tree:
        return key
    own, other = Arguments(key), Arguments(first)
    paths: dict[str, str] = {}
    children: dict[str, tuple[str, ...]] = {}
    waiting = [(root, root) for root in own.roots]
    while waiting:
        path, theirs = waiting.pop()
        if path in paths:
            continue
        paths[path] = theirs
        if (node := own.nodes.get(path)) is None:
            continue
        known = other.nodes.get(theirs)
        labels = node.children if known is None else _paired(node.children, known.children)
        # Keep the container's own order if nothing was renamed.
        same = known is not None and labels != node.children
        children[path] = known.children if known is not None and same else node.children
        waiting += [
            (path + label, theirs + named)
            for label, named in zip(node.children, labels, strict=True)
        ]
    if all(path == theirs for path, theirs in paths.items()):
        return key
    return key._replace(
        leaves=tuple(leaf._replace(path=paths.get(leaf.path, leaf.path)) for leaf in key.leaves),
        tree=tuple(
            node._replace(
                path=paths.get(node.path, node.path),
                children=children.get(node.path, node.children),
            )
            for node in key.tree
        ),
    )


def _paired(own: tuple[str, ...], first: tuple[str, ...]) -> tuple[str, ...]:
    """For each label, the label of the same child in the first key: by name, else by position."""
    if own == first or len(own) != len(first):
        return own
    names, known = _bare(own), _bare(first)
    if len(set(names)) == len(names) and set(names) == set(known):
        by_name = dict(zip(known, first, strict=True))
        return tuple(by_name[name] for name in names)
    is_tuple = all(label.startswith("[") for label in own) != all(
        label.startswith("[") for label in first
    )
    has_order = all(label.startswith((".", "[")) and "'" not in label for label in (*own, *first))
    return first if is_tuple and has_order else own


def _bare(labels: Sequence[str]) -> list[str]:
    found = [_LABEL.fullmatch(label) for label in labels]
    return [
        label if match is None else next(part for part in match.groups() if part is not None)
        for label, match in zip(labels, found, strict=True)
    ]

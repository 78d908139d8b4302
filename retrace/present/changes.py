"""Changes in words, with the user's own names, and as other programs read them."""

from __future__ import annotations

from typing import Any, cast

from retrace.model import Change, Component, Leaf, Miss, Verdict
from retrace.present.view import View
from retrace.present.words import clean, count, listed, place, turned


def in_words(change: Change) -> str:
    """One change in words: `lr`: 0.1 -> 0.2."""
    detail = turned(change.detail, 120)
    if change.path is None:
        return detail
    return f"`{clean(change.path)}` ({detail})" if detail else f"`{clean(change.path)}`"


def change_fields(change: Change) -> dict[str, Any]:
    """One change as JSON."""
    return {
        "component": change.component.value,
        "path": change.path,
        "detail": change.detail,
        "old": change.old,
        "new": change.new,
        "exact": change.exact,
    }


def set_at(view: View, change: Change) -> tuple[str, ...]:
    """Where an option of the configuration was set, if that was seen of either side."""
    for side, said in ((change.new, "set at"), (change.old, "it was set at")):
        at = cast(dict[str, Any], side).get("set_at") if isinstance(side, dict) else None
        if at is not None:
            return (f"{said} {place(at['file'], at['line'], view.bases)}",)
    return ()


def of_component(changes: tuple[Change, ...], component: Component) -> str:
    """The changes of one part of the key; empty where there are none."""
    own = [in_words(change) for change in changes if change.component is component]
    return listed(own, 3)


def all_of(verdict: Verdict) -> str:
    """The first two changes, and how many more there are; empty where there are none."""
    return listed([in_words(change) for change in verdict.changes], 2, "more change")


def of_arrays(verdict: Verdict, component: Component) -> str:
    """The arrays in which one thing changed: "`x` is int32[3] (was int32[2])"."""
    own = [change for change in verdict.changes if change.component is component]
    said: list[str] = []
    for change in own[:2]:
        old, new = sides(verdict, change)
        said.append(f"`{clean(change.path or 'an argument')}` is {new} (was {old})")
    if len(own) > 2:
        said.append(count(len(own) - 2, "more array"))
    return listed(said) or "they differ"


def sides(verdict: Verdict, change: Change) -> tuple[str, str]:
    """Both sides of a change of an array, as JAX writes its type."""
    old = None if verdict.nearest is None else leaf(verdict.nearest, change.path)
    new = leaf(verdict.miss, change.path)
    if old is None or new is None:
        return clean(change.old), clean(change.new)
    return array(old), array(new)


def array(leaf: Leaf) -> str:
    """`weak int32[]`, `float32[3,4]`."""
    axes = ",".join(map(str, leaf.shape))
    return clean(f"{'weak ' if leaf.weak_type else ''}{leaf.dtype}[{axes}]")


def leaf(miss: Miss, path: str | None) -> Leaf | None:
    """The array at a path of a miss."""
    return next((leaf for leaf in miss.key.leaves if leaf.path == path), None)

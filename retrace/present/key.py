"""Writes out a cache key, together with the closest key's values where they differ."""

from __future__ import annotations

from collections.abc import Iterator

from retrace.compare.values import differences
from retrace.model import Key, Leaf, Miss, Node, Value, Verdict
from retrace.model.parts import PARTS, Arrays, Containers, Named, Values, Worded, Words, by_kind
from retrace.present.changes import array
from retrace.present.detail import fields
from retrace.present.words import clean, count, turned

_MAX_ARRAYS = 40
"""Maximum number of arrays listed; changed ones come first."""


def key_lines(verdict: Verdict, *, whole: bool = True) -> Iterator[str]:
    """The key of a miss, part by part; unless `whole`, unchanged parts are only counted."""
    key = verdict.miss.key
    old = None if verdict.nearest is None else verdict.nearest.key
    yield ""
    yield "  key       " + (_against(verdict.nearest) if verdict.nearest is not None else "")
    whole = whole or old is None
    found = by_kind(
        key,
        arrays=lambda _: _leaves(key, old, whole),
        containers=lambda tree: _tree(tree, old, whole),
        values=lambda row, values: _values(row, values, old, whole),
        words=_words,
    )
    for row in sorted(PARTS, key=lambda row: _ORDER.index(type(row))):
        yield from found[row.name]


_ORDER = (Arrays, Values, Words, Containers)


def _words(words: Worded) -> Iterator[str]:
    if words:
        texts = [f"{clean(name, 60)} {clean(how)}" for name, how in words[:_MAX_ARRAYS]]
        yield f"    passed: {', '.join(texts)}"


def _tree(tree: tuple[Node, ...], old: Key | None, whole: bool) -> Iterator[str]:
    containers = [node for node in tree if node.type not in ("None", "NoneType")]
    metas = {(node.path, field): v for node in old.tree for field, v in node.meta} if old else {}
    if not whole and old is not None and tree == old.tree:
        if containers:
            yield f"    tree: {count(len(containers), 'container')} as before"
    elif containers:
        yield f"    tree: {count(len(containers), 'container')}"
        for node in containers[:_MAX_ARRAYS]:
            at = clean(node.path, 60) or "the arguments"
            yield f"      {at}   {clean(node.type)} of {len(node.children)}"
            for field, value in node.meta:
                was = metas.get((node.path, field))
                mark = " -> differs from before" if was is not None and was != value else ""
                yield f"        {clean(field, 40)} = {value_text(value)}{mark}"


def _against(nearest: Miss) -> str:
    return f"(-> marks what differs from {nearest.id})"


def _leaves(key: Key, old: Key | None, whole: bool) -> Iterator[str]:
    if not key.leaves:
        yield "    no arrays"
        return
    before = {leaf.path: leaf for leaf in old.leaves} if old is not None else {}
    rows = [
        (_leaf_text(before.get(leaf.path), leaf, old is not None), leaf) for leaf in key.leaves
    ]
    rows.sort(key=lambda row: " -> " not in row[0])  # stable: what changed comes first
    yield f"    {count(len(rows), 'array')}"
    if not whole:
        changed = [row for row in rows if " -> " in row[0]]
        if same := len(rows) - len(changed):
            yield f"      {same:,} as before"
        rows = changed
    pad = max((len(clean(leaf.path, 60)) for _, leaf in rows[:_MAX_ARRAYS]), default=0)
    for text, leaf in rows[:_MAX_ARRAYS]:
        yield f"      {clean(leaf.path, 60):<{pad}}   {text}"
    if len(rows) > _MAX_ARRAYS:
        yield f"      and {count(len(rows) - _MAX_ARRAYS, 'more array')} (--format json has all)"
    gone = [path for path in before if path not in {leaf.path for leaf in key.leaves}]
    for path in gone[:_MAX_ARRAYS]:
        yield f"      {clean(path, 60):<{pad}}   {_described(before[path])} -> absent"


def _leaf_text(old: Leaf | None, new: Leaf, compared: bool) -> str:
    if not compared or old == new:
        return _described(new)
    if old is None:
        return f"absent -> {_described(new)}"
    if array(old) == array(new):
        return f"{array(old)} {_placed(old) or _OPEN} -> {_placed(new) or _OPEN}"
    after = (
        _described(new)
        if _placed(old) != _placed(new)
        else f"{array(new)} {_placed(new)}".rstrip()
    )
    return f"{array(old)} -> {after}"


_OPEN = "uncommitted"
"""What stands in place of nothing, for an array without a sharding of its own."""


def _described(leaf: Leaf) -> str:
    return f"{array(leaf)} {_placed(leaf)}".rstrip()


def _placed(leaf: Leaf) -> str:
    text = [clean(leaf.sharding)] if leaf.sharding else []
    if leaf.committed:
        text.append("committed")
    if leaf.memory_kind not in (None, "device", "unpinned_host"):
        text.append(clean(leaf.memory_kind))
    return ", ".join(text)


def _values(row: Values, new: Named, key: Key | None, whole: bool) -> Iterator[str]:
    compared = key is not None
    old = row.of(key) if key is not None else ()
    if not new and not old:
        return
    before, after = dict(old), dict(new)
    names = list(dict.fromkeys((*after, *before)))
    if row.is_context or not whole:  # JAX has fifty settings, and most programs set none
        texts = [name for name in names if compared and before.get(name) != after.get(name)]
        same = "as before" if compared else "(--format json has them)"
        noun = "setting" if row.of_jax else "value"
        alike = len(names) - len(texts)
        yield f"    {row.title}: {count(alike, noun)} {same}" if alike else f"    {row.title}"
        names = texts
    else:
        yield f"    {row.title}"
    for name in names:
        a, b = before.get(name), after.get(name)
        now = "absent" if b is None else value_text(b)
        if not compared or (a is not None and b is not None and a == b):
            yield f"      {clean(name, 60)} = {now}"
            continue
        found = () if a is None or b is None else differences(a, b, aligned=True)
        if found and found[0].path:
            yield f"      {clean(name, 60)} = {now}"
            yield from (f"        -> {turned(fields((one,)))}" for one in found[:_MAX_ARRAYS])
            if len(found) > _MAX_ARRAYS:
                yield f"        and {count(len(found) - _MAX_ARRAYS, 'more field')}"
            continue
        was = "absent" if a is None else value_text(a)
        now = now if was != now else "another one that looks the same"
        yield f"      {clean(name, 60)} = {was} -> {now}"


def value_text(value: Value) -> str:
    """A value as the program printed it, cut."""
    text = clean(value.text)
    return text if value.exact else f"{text} ({clean(value.type)})"

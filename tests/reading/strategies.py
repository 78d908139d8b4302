"""Keys, misses and edits of them: made by Hypothesis, or by hand in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from retrace.causes import Cause
from retrace.model import (
    Class,
    Component,
    Dim,
    Function,
    Key,
    Kind,
    Leaf,
    Miss,
    Node,
    Passing,
    Program,
    Stage,
    Value,
)

# A busy machine is no failure: nothing here is a matter of time.
settings.register_profile("reading", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reading")

ALL = (Stage.TRACE, Stage.LOWER, Stage.COMPILE)


def leaf(path: str = "x", *shape: Dim, dtype: str = "float32", weak: bool = False) -> Leaf:
    return Leaf(path, shape, dtype, weak, None, False, None)


def value(text: str, token: str | None = "", kind: str = "int", data: Any = None) -> Value:
    return Value(kind, text, f"={text}" if token == "" else token, True, data)


def function(number: int = 1, kind: Kind = Kind.DEF, **fields: Any) -> Function:
    base = Function("f", "f", "f", kind, "t.py", 1, "t.py:1 f", number, "code")
    return base._replace(**fields)


def miss(
    number: int,
    key: Key | None = None,
    *stages: Stage,
    function: Function = function(),  # noqa: B008 - frozen
    program: str | None = None,
    **fields: Any,
) -> Miss:
    base = Miss(f"r-{number}", "r", number, float(number), "main", function, key or Key())
    seconds = dict.fromkeys(stages or ALL, 0.1)
    known = None if program is None else Program(program, 3)
    return replace(base, stages=seconds, program=known, **fields)


Spec: TypeAlias = "Leaf | NodeSpec"


class NodeSpec(NamedTuple):
    """A container and what it holds, by label."""

    type: str
    children: dict[str, Spec]
    meta: dict[str, Value]
    made: Class | None = None


DTYPES = ("float32", "int32", "uint8")
DEVICES = (None, "cpu:0", "NamedSharding(data)")

leaves = st.builds(
    Leaf,
    path=st.just(""),
    shape=st.lists(st.sampled_from((1, 2, 3, "n", "n@2", "2*n+1")), max_size=2).map(tuple),
    dtype=st.sampled_from(DTYPES),
    weak_type=st.booleans(),
    sharding=st.sampled_from(DEVICES),
    committed=st.booleans(),
    memory_kind=st.sampled_from((None, "device")),
)

# Few texts and few tokens: equal ones must meet. A value without token is told by content.
values = st.builds(
    Value,
    type=st.sampled_from(("int", "Config")),
    text=st.sampled_from(("1", "2")),
    token=st.sampled_from((None, "a", "b", "c")),
    exact=st.booleans(),
    data=st.sampled_from((None, {"lr": 1})),
    classes=st.sampled_from(((), (), (Class("m.Config", 2, "t.py", 3),))),
)

classes = st.sampled_from((None, Class("m.State", 1), Class("m.State", 2, "t.py", 3)))


def _nodes(children: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    labels = st.sampled_from(("['a']", "['b']", "['c']"))
    dicts = st.builds(
        NodeSpec,
        type=st.just("dict"),
        children=st.dictionaries(labels, children, max_size=3),
        meta=st.just(dict[str, Value]()),
        made=st.none(),
    )
    states = st.builds(
        NodeSpec,
        type=st.sampled_from(("TrainState", "Module")),
        children=st.fixed_dictionaries({".step": children}, optional={".params": children}),
        meta=st.dictionaries(st.sampled_from(("tx", "apply_fn", "")), values, max_size=2),
        made=classes,
    )
    return dicts | states | st.just(NodeSpec("NoneType", {}, {}))


specs = st.recursive(leaves, _nodes, max_leaves=5)

names = st.sampled_from(("x", "state", "batch"))
named = st.dictionaries(st.sampled_from(("n", "mode")), values, max_size=2)


def flatten(path: str, spec: Spec, leaves: list[Leaf], nodes: list[Node]) -> None:
    if isinstance(spec, Leaf):
        leaves.append(spec._replace(path=path))
        return
    meta = tuple(spec.meta.items())
    nodes.append(Node(path, spec.type, tuple(spec.children), meta, spec.made))
    for label, child in spec.children.items():
        flatten(path + label, child, leaves, nodes)


@st.composite
def keys(draw: st.DrawFn) -> Key:
    """Any key that a call could have."""
    found: list[Leaf] = []
    nodes: list[Node] = []
    arguments = draw(st.dictionaries(names, specs, max_size=3))
    for name, spec in arguments.items():
        flatten(name, spec, found, nodes)
    static = draw(named)
    passing = st.sampled_from((Passing.POSITIONAL, Passing.KEYWORD))
    signature = {name: str(draw(passing)) for name in (*arguments, *static)}
    return Key(
        tuple(found),
        tuple(nodes),
        tuple(static.items()),
        tuple(signature.items()),
        tuple(draw(named).items()),
        tuple(draw(named).items()),
    )


functions = st.builds(
    function,
    st.integers(1, 3),
    st.just(Kind.DEF),
    code=st.sampled_from(("code", "other", None)),
    closure=named.map(lambda cells: tuple(cells.items())),
    bound=named.map(lambda cells: tuple(cells.items())),
    defaults=named.map(lambda cells: tuple(cells.items())),
    reads=named.map(lambda cells: tuple(cells.items())),
)

stages = st.sampled_from(
    (ALL, ALL, (Stage.LOWER, Stage.COMPILE), (Stage.TRACE,), (Stage.COMPILE,), ())
)


@st.composite
def misses(draw: st.DrawFn) -> Miss:
    """Any miss of one site, numbered 0."""
    ran = draw(stages)
    return replace(
        miss(0, draw(keys()), function=draw(functions)),
        stages=dict.fromkeys(ran, 0.1),
        nested=draw(st.booleans()),
        raised=draw(st.sampled_from((None, None, None, "ValueError"))),
        epoch=draw(st.integers(0, 1)),
        derived=draw(st.sampled_from((None, None, None, "backward"))),
        program=draw(st.sampled_from((None, Program("p", 1), Program("q", 2)))),
        thread=draw(st.sampled_from(("main", "worker"))),
    )


def numbered(found: list[Miss]) -> list[Miss]:
    """The same misses, one after the other in one process."""
    made = [
        replace(miss, id=f"r-{number}", number=number, time=float(number))
        for number, miss in enumerate(found)
    ]
    for number, miss in enumerate(made):
        if number and miss.derived is not None and miss.parent is None:
            miss.parent = made[number - 1].id
    return made


class Planted(NamedTuple):
    """A key, the same with one edit, and what has to be found."""

    old: Key
    new: Key
    component: Component
    path: str
    cause: Cause


@st.composite
def planted(draw: st.DrawFn) -> Planted:
    """One edit of one key: a leaf, a static value, a static field, an option..."""
    key = draw(keys())
    edits = ["static", "options", "config", "signature", "added"]
    if key.leaves:
        edits += ["shape", "dtype", "weak_type", "sharding", "none"]
    if key.tree:
        edits.append("class")
    if fields := [(node, name) for node in key.tree for name, _ in node.meta]:
        edits.append("meta")
    edit = draw(st.sampled_from(edits))
    if edit in ("static", "options", "config"):
        old = key._replace(**{edit: (*getattr(key, edit), ("k", value("1")))})
        new = key._replace(**{edit: (*getattr(key, edit), ("k", draw(_others)))})
        cause = {
            "static": Cause.STATIC_ARGUMENT_CHANGED,
            "options": Cause.JIT_OPTIONS_CHANGED,
            "config": Cause.CONFIG_CHANGED,
        }[edit]
        return Planted(old, new, Component(edit), "k", cause)
    if edit == "signature":
        old = key._replace(signature=(*key.signature, ("k", "positional")))
        new = key._replace(signature=(*key.signature, ("k", "keyword")))
        return Planted(old, new, Component.SIGNATURE, "k", Cause.CALL_SIGNATURE_CHANGED)
    if edit == "added":
        new = key._replace(leaves=(*key.leaves, leaf("k", 2)))
        return Planted(key, new, Component.TREE, "k", Cause.TREE_STRUCTURE_CHANGED)
    if edit == "class":
        node = draw(st.sampled_from(key.tree))
        edited = node._replace(made=Class("m.State", 3, "t.py", 9))
        nodes = tuple(edited if n is node else n for n in key.tree)
        cause = Cause.TREE_STRUCTURE_CHANGED
        return Planted(key, key._replace(tree=nodes), Component.TREE, node.path, cause)
    if edit == "meta":
        node, name = draw(st.sampled_from(fields))
        meta = {**dict(node.meta), name: value("3", "never drawn")}
        edited = node._replace(meta=tuple(meta.items()))
        nodes = tuple(edited if n is node else n for n in key.tree)
        path = f"{node.path}.{name}" if name else node.path
        cause = Cause.TREE_STRUCTURE_CHANGED
        return Planted(key, key._replace(tree=nodes), Component.TREE, path, cause)
    chosen = draw(st.sampled_from(key.leaves))
    if edit == "none":
        rest = tuple(each for each in key.leaves if each is not chosen)
        nodes = (*key.tree, Node(chosen.path, "NoneType", ()))
        new = key._replace(leaves=rest, tree=nodes)
        cause = Cause.TREE_STRUCTURE_CHANGED
        return Planted(key, new, Component.TREE, chosen.path, cause)
    edited, cause = {
        "shape": (chosen._replace(shape=(*chosen.shape, 7)), Cause.SHAPE_CHANGED),
        "dtype": (chosen._replace(dtype="bool"), Cause.DTYPE_CHANGED),
        "weak_type": (
            chosen._replace(weak_type=not chosen.weak_type),
            Cause.WEAK_TYPE_CHANGED,
        ),
        "sharding": (
            chosen._replace(committed=not chosen.committed),
            Cause.SHARDING_CHANGED,
        ),
    }[edit]
    new = key._replace(leaves=tuple(edited if each is chosen else each for each in key.leaves))
    return Planted(key, new, Component(edit), chosen.path, cause)


_others = st.sampled_from(
    (
        value("2"),
        value("1.0", kind="float"),
        value("1", "looks equal, compares unequal"),
        value("5", None),
    )
)

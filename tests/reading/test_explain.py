"""Judges misses and checks that each has one cause."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrace.causes import Cause
from retrace.model import (
    CallSite,
    Component,
    Detail,
    How,
    Key,
    Kind,
    Miss,
    Node,
    Program,
    Receiver,
    Recording,
    Stage,
    Value,
    Verdict,
)
from retrace.model.advice import (
    CastNumber,
    JitForEach,
    OneCallStyle,
    OneConfig,
    OneDtype,
    ToArray,
)
from retrace.present.advice import advised as words
from retrace.present.detail import detail
from retrace.present.verdict_detail import in_words
from retrace.reason.history import revise
from retrace.reason.rules import in_key
from retrace.reason.verdict import Judge, judge
from tests.reading.strategies import (
    Planted,
    function,
    leaf,
    miss,
    misses,
    numbered,
    planted,
    value,
)

COMPILED = (Stage.LOWER, Stage.COMPILE)


def verdicts(*found: Miss) -> list[Verdict]:
    return judge(Recording([], numbered(list(found))))


def causes(*found: Miss) -> list[str]:
    return [verdict.cause.value for verdict in verdicts(*found)]


def call(key: Key | None = None, *stages: Stage, **fields: Any) -> Miss:
    return miss(0, key, *stages, **fields)


def sized(*shape: int) -> Key:
    return Key((leaf("x", *shape),))


@given(st.lists(misses(), max_size=8))
def test_every_miss_has_one_cause_and_it_is_among_its_changes(found: list[Miss]) -> None:
    for verdict in verdicts(*found):
        if verdict.cause is Cause.UNKNOWN:
            # An equal key that nothing dropped: a few misses fill no cache.
            assert not in_key(verdict.changes)
        if verdict.cause is Cause.FIRST_TRACE:
            assert (verdict.changes, verdict.avoidable) == ((), "no")
            # A call that continues an earlier trace is reported along with it.
            assert verdict.nearest is None or verdict.repeat
        else:
            assert verdict.nearest is not None
            assert verdict.nearest.raised is None
            assert verdict.nearest.number < verdict.miss.number


@given(planted(), st.booleans())
def test_a_planted_edit_has_its_cause_whatever_became_of_the_function(
    edit: Planted, redefined: bool
) -> None:
    new = function(2 if redefined else 1)
    first, second = verdicts(call(edit.old), call(edit.new, function=new))
    assert first.cause is Cause.FIRST_TRACE
    assert second.cause is edit.cause
    assert (second.changes[0].component, second.changes[0].path) == (edit.component, edit.path)
    assert any(c.component is Component.FUNCTION for c in second.changes) is redefined
    assert second.fix is not None


@given(st.lists(misses(), max_size=6))
def test_judging_live_and_from_a_file_is_the_same(found: list[Miss]) -> None:
    live = Judge()
    one_by_one = [live.judge(miss) for miss in numbered(found)]
    # Conclusions from the whole history are not known when a miss arrives.
    assert [replace(v, pattern=None) for v in verdicts(*found)] == revise(one_by_one)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (Kind.DEF, "function-redefined"),
        (Kind.LAMBDA, "lambda-recreated"),
        (Kind.PARTIAL, "partial-recreated"),
        (Kind.TRANSFORM, "transform-recreated"),
        (Kind.METHOD, "method-rebound"),
        (Kind.CALLABLE, "method-rebound"),
    ],
)
def test_a_new_function_object_under_an_equal_key(kind: Kind, cause: str) -> None:
    one, two = function(1, kind), function(2, kind)
    assert causes(call(function=one), call(function=two)) == ["first-trace", cause]
    edited = function(2, kind, code="edited")
    assert causes(call(function=one), call(function=edited)) == ["first-trace", "source-changed"]


def test_a_redefinition_shows_its_closure() -> None:
    def over(number: int, alpha: str) -> Miss:
        return call(function=function(number, closure=(("alpha", value(alpha)),)))

    _, other, same = verdicts(over(1, "0.5"), over(2, "0.1"), over(3, "0.1"))
    assert other.cause is same.cause is Cause.FUNCTION_REDEFINED
    assert ("alpha", "0.5 -> 0.1") in [(c.path, detail(c)) for c in other.changes]
    assert [c.component for c in same.changes] == [Component.FUNCTION]
    assert (other.avoidable, same.avoidable) == ("maybe", "yes")
    assert "`alpha`" in (words(other.fix) if other.fix else "")


def test_an_equal_key_further_back_beats_a_near_one_of_the_same_function() -> None:
    one, two = function(1), function(2)
    found = verdicts(
        call(sized(3), function=one), call(sized(4), function=two), call(sized(3), function=two)
    )
    assert [v.cause.value for v in found] == [
        "first-trace",
        "shape-changed",
        "function-redefined",
    ]


def test_a_gradient_is_not_its_function_recreated() -> None:
    plain = function(1)
    grads = [function(n, Kind.TRANSFORM, wrappers=("grad",)) for n in (2, 3)]
    assert causes(call(function=plain), *(call(function=grad) for grad in grads)) == [
        "first-trace",
        "first-trace",
        "transform-recreated",
    ]


def test_lambdas_of_one_notebook_are_compared_with_their_own_kind() -> None:
    def made(number: int, code: str) -> Miss:
        return call(function=function(number, Kind.LAMBDA, code=code))

    assert causes(made(1, "a"), made(2, "b"), made(3, "a")) == [
        "first-trace",
        "source-changed",
        "lambda-recreated",
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (Receiver("F", 1, "a"), Receiver("F", 1, "a"), "of the same `F`"),
        (Receiver("F", 1, "a"), Receiver("F", 2, "a"), "of an equal `F`"),
        (Receiver("F", 1, "a"), Receiver("F", 2, "b"), "unequal"),
        (Receiver("F", None, None), Receiver("F", None, None), "of another `F`"),
    ],
)
def test_a_rebound_method_says_of_what(before: Receiver, after: Receiver, said: str) -> None:
    one, two = (function(n, Kind.METHOD, receiver=r) for n, r in ((1, before), (2, after)))
    _, verdict = verdicts(call(function=one), call(function=two))
    assert said in (in_words(verdict.detail) or "")


@pytest.mark.parametrize("name", ["None", "a -> b", "x and, `y`", "line\nbreak", "x" * 5_000])
def test_a_hostile_name_stays_one_name_in_the_detail(name: str) -> None:
    made = {"base": 7, "decorators": (name,)}
    one, two = (function(n, Kind.DEF, **made) for n in (1, 2))
    _, verdict = verdicts(call(function=one), call(function=two))
    assert verdict.cause is Cause.FUNCTION_REDEFINED
    assert verdict.detail == Detail(How.APPLIED_AGAIN, (name,))


def test_the_highest_of_several_changes_is_the_cause() -> None:
    old = Key((leaf("x", 3),), signature=(("x", "positional"),), config=(("x64", value("0")),))
    new = Key((leaf("x", 4),), signature=(("x", "keyword"),), config=(("x64", value("1")),))
    _, verdict = verdicts(call(old), call(new))
    assert [change.component.value for change in verdict.changes] == [
        "config",
        "signature",
        "shape",
    ]
    assert verdict.cause is Cause.CONFIG_CHANGED


def test_an_omitted_static_default_is_the_way_of_calling() -> None:
    given = Key(static=(("n", value("3")),), signature=(("n", "keyword"),))
    assert causes(call(given), call(Key())) == ["first-trace", "call-signature-changed"]


def test_another_static_value_than_the_omitted_default_is_another_value() -> None:
    given = Key(static=(("n", value("3")),), signature=(("n", "keyword"),))
    omitted = Key(signature=(("n", "omitted"),))
    for default, expected in (("3", "call-signature-changed"), ("2", "static-argument-changed")):
        made = function(1, defaults=(("n", value(default)),))
        _, verdict = verdicts(call(omitted, function=made), call(given, function=made))
        assert verdict.cause == expected
        assert {change.component for change in verdict.changes} == {"static", "signature"}


def test_what_a_library_recreates_belongs_to_it() -> None:
    file = "/lib/site-packages/optax/base.py"
    first, again = (function(n, in_library=True, file=file) for n in (1, 2))
    _, verdict = verdicts(call(function=first), call(function=again))
    assert (verdict.cause, verdict.avoidable) == ("function-redefined", "maybe")
    assert verdict.fix is not None and "optax" in words(verdict.fix)


def test_settings_that_jax_did_not_have_before_come_from_an_import() -> None:
    flag = value("False")
    old, new = (("x64", flag),), (("x64", flag), ("grid", value("None")), ("export", flag))
    _, verdict = verdicts(
        call(Key(config=old), program="p"), call(Key(config=new), program="p", thread="other")
    )
    assert (verdict.cause, verdict.avoidable) == (Cause.CONFIG_CHANGED, "yes")
    assert isinstance(verdict.fix, OneConfig)
    assert (verdict.fix.defined_later, verdict.fix.in_thread) == (True, False)
    assert "import" in words(verdict.fix)


def test_a_setting_that_is_also_changed_is_not_only_imported() -> None:
    old = (("x64", value("False")),)
    new = (("x64", value("True")), ("grid", value("None")))
    _, verdict = verdicts(call(Key(config=old)), call(Key(config=new)))
    assert isinstance(verdict.fix, OneConfig)
    assert not verdict.fix.defined_later


@pytest.mark.parametrize(("via", "worth"), [(None, "yes"), ("ocean:Setup.run", "maybe")])
def test_what_a_library_passes_as_well_would_still_miss(via: str | None, worth: str) -> None:
    keys = (
        Key(config=(("x64", value(flag)),), static=(("timers", value(time)),))
        for flag, time in (("False", "0"), ("True", "9"))
    )
    made = function(in_library=True, file="/lib/site-packages/ocean/core.py")
    _, verdict = verdicts(*(call(key, function=made, via=via, program="p") for key in keys))
    assert (verdict.cause, verdict.avoidable) == (Cause.CONFIG_CHANGED, worth)


def test_an_omitted_array_default_is_the_way_of_calling() -> None:
    given = Key((leaf("t"),), signature=(("t", "positional"),))
    assert causes(call(Key()), call(given)) == ["first-trace", "call-signature-changed"]


@pytest.mark.parametrize("cleared", [{"epoch": 1}, {"function_epoch": 1}])
def test_a_cleared_cache(cleared: dict[str, int]) -> None:
    assert causes(call(), call(None, **cleared), call(None, **cleared)) == [
        "first-trace",
        "cache-cleared",
        "unknown",
    ]


def test_an_entry_is_evicted_where_a_cache_can_have_been_full() -> None:
    first, *between = (replace(call(), inner=inner) for inner in (0, 1000, 1100))
    others = [replace(one, function=function(9 + n)) for n, one in enumerate(between)]
    assert causes(first, others[0], call())[-1] == "unknown"
    assert causes(first, *others, call())[-1] == "cache-evicted"
    # JAX shares the entry between a call and an ahead-of-time compilation.
    ahead = replace(first, program=Program("p", 3), ahead=True)
    again = call(None, *COMPILED, program="p")
    assert causes(ahead, *others, again)[-1] == "cache-evicted"


def test_a_redefinition_after_a_clear_is_a_redefinition() -> None:
    assert causes(call(), call(function=function(2), epoch=1)) == [
        "first-trace",
        "function-redefined",
    ]


def test_the_same_function_is_preferred_among_equal_keys() -> None:
    found = causes(call(), call(function=function(2)), call(epoch=1))
    assert found == ["first-trace", "function-redefined", "cache-cleared"]


def test_another_program_under_an_equal_key() -> None:
    assert causes(call(program="a"), call(program="b"), call(program="b")) == [
        "first-trace",
        "jaxpr-changed",
        "unknown",
    ]


@pytest.mark.parametrize("cleared", [{"epoch": 1}, {"function_epoch": 1}])
def test_another_program_after_a_clear_is_not_the_fault_of_the_clear(
    cleared: dict[str, Any],
) -> None:
    first, second = call(program="a"), call(program="b", **cleared)
    _, verdict = verdicts(first, second)
    assert verdict.cause is Cause.JAXPR_CHANGED
    assert verdict.detail is not None and verdict.detail.how is How.DROPPED
    assert verdict.fix is not None
    assert verdict.fix.code == "pass-state"


def test_a_value_that_may_have_been_unequal_explains_an_equal_key() -> None:
    key = Key(static=(("cfg", Value("Config", "Config(...)", None, False)),))
    _, verdict = verdicts(call(key), call(key))
    assert verdict.cause is Cause.STATIC_ARGUMENT_CHANGED
    assert "is unknown" in detail(verdict.changes[0])


def test_a_trace_that_raises_is_not_another_first_trace() -> None:
    found = verdicts(call(raised="TypeError"), call(raised="TypeError"), call(), call(epoch=1))
    assert [v.cause.value for v in found] == [*["first-trace"] * 3, "cache-cleared"]
    assert [v.repeat for v in found] == [False, True, True, False]


def test_a_repeat_of_a_raise_has_the_cause_of_the_first() -> None:
    failing = call(sized(4), raised="TypeError")
    nearer = call(Key((leaf("x", 4, dtype="int32"),)))
    found = verdicts(call(sized(3)), failing, nearer, failing)
    assert [v.cause.value for v in found] == [
        "first-trace",
        "shape-changed",
        "shape-changed",
        "shape-changed",
    ]
    assert [v.nearest and v.nearest.number for v in found] == [None, 0, 0, 0]


def test_placement_alone_explains_a_call_that_was_not_traced() -> None:
    def placed(size: int, committed: bool) -> Key:
        arrays = (leaf(f"p[{i}]", size) for i in range(3))
        return Key(tuple(x._replace(committed=committed) for x in arrays))

    found = verdicts(
        call(placed(3, False)), call(placed(4, True)), call(placed(3, True), *COMPILED)
    )
    assert found[2].cause is Cause.SHARDING_CHANGED
    assert (found[2].program_change, found[2].avoidable) == ("identical", "yes")
    assert found[2].pattern == "placed-later"


@pytest.mark.parametrize(
    "before",
    [
        {"nested": True, "parent": "r-9"},
        {"ahead": True},
    ],
)
def test_a_first_compilation_after_a_trace_has_no_cause_of_its_own(
    before: dict[str, Any],
) -> None:
    found = verdicts(call(None, Stage.TRACE, **before), call(None, *COMPILED))
    assert [(v.cause.value, v.repeat) for v in found] == [
        ("first-trace", False),
        ("first-trace", True),
    ]


def test_another_program_of_the_same_trace_is_derived_not_evicted() -> None:
    found = verdicts(call(program="forward"), call(None, *COMPILED, program="under grad"))
    assert [(v.cause.value, v.repeat) for v in found] == [
        ("first-trace", False),
        ("first-trace", True),
    ]


def test_several_backward_programs_of_one_call() -> None:
    back = {"derived": "backward", "parent": "r-0"}
    found = verdicts(
        call(),
        call(None, *COMPILED, program="a", **back),
        call(None, *COMPILED, program="b", **back),
    )
    assert [v.cause.value for v in found] == ["first-trace"] * 3


def test_a_backward_program_follows_the_call_it_belongs_to() -> None:
    found = causes(
        call(sized(3)),
        call(None, *COMPILED, program="a", derived="backward", parent="r-0"),
        call(sized(4)),
        call(None, *COMPILED, program="a", derived="backward", parent="r-2"),
    )
    assert found == ["first-trace", "first-trace", "shape-changed", "shape-changed"]


def _placed_beside_a_mesh() -> Planted:
    on_mesh = leaf("b")._replace(sharding="NamedSharding(data)", committed=True)
    on_one = leaf("a")._replace(sharding="cpu:0")
    old = Key(leaves=(on_one, on_mesh))
    new = Key(leaves=(on_one._replace(committed=True), on_mesh))
    return Planted(old, new, Component.SHARDING, "a", Cause.SHARDING_CHANGED)


@given(planted())
@example(_placed_beside_a_mesh())
def test_a_backward_program_of_an_equal_key_has_the_advice_of_its_call(edit: Planted) -> None:
    backward: dict[str, Any] = {"program": "a", "derived": "backward"}
    *_, forward, back = verdicts(
        call(edit.old),
        call(None, *COMPILED, parent="r-0", **backward),
        call(edit.new),
        call(None, *COMPILED, parent="r-2", **backward),
    )
    assert (back.cause, back.changes, back.follows) == (edit.cause, (), forward.miss.id)
    assert (back.fix, back.avoidable) == (forward.fix, forward.avoidable)


def test_two_threads_at_once() -> None:
    first = miss(0, thread="a", time=0.0)
    second = miss(1, thread="b", time=0.1)
    found = judge(Recording([], [first, second]))
    assert [(v.cause.value, v.repeat) for v in found] == [
        ("first-trace", False),
        ("first-trace", True),
    ]


def test_processes_have_separate_histories() -> None:
    other = replace(call(), run="s", id="s-0")
    found = judge(Recording([], [call(), other]))
    assert [v.cause.value for v in found] == ["first-trace"] * 2


OP = function(1, Kind.OP, name="concatenate")
LINE = CallSite("t.py", 7, "<module>", None, in_library=False)


def test_eager_operations_are_eager_whatever_changed() -> None:
    found = verdicts(*(call(sized(n), function=OP, call_site=LINE) for n in range(5)))
    assert {v.cause for v in found} == {Cause.EAGER_OP}
    assert [v.avoidable for v in found] == ["no", *["maybe"] * 4]
    assert [c.component.value for c in found[1].changes] == ["shape"]
    assert {v.pattern for v in found[1:]} == {"grows-by-one"}


def scan(number: int, size: int, *, new: bool) -> Miss:
    body = function(number, name="cell", site="t.py:3 cell")
    scan = function(number + 100, Kind.OP, name="cell", jax_name="scan", site="scan")
    return call(sized(size), function=scan, bodies=(body,), new_bodies=(new,))


def test_a_new_body_is_recreated_unless_the_key_changed_too() -> None:
    found = causes(
        scan(1, 3, new=True), scan(2, 3, new=True), scan(3, 4, new=True), scan(3, 5, new=False)
    )
    assert found == ["eager-op", "control-flow-recreated", "eager-op", "eager-op"]
    recreated = verdicts(scan(1, 3, new=True), scan(2, 3, new=True))[1]
    assert [c.component for c in recreated.changes] == [Component.FUNCTION]
    assert in_key(recreated.changes) == ()


@pytest.mark.parametrize(
    ("limit", "worth", "sure"), [("3", "yes", "likely"), ("4", "maybe", "ask")]
)
def test_a_body_over_another_value_may_be_another_program_where_none_was_seen(
    limit: str, worth: str, sure: str
) -> None:
    steps = [scan(number, 3, new=True) for number in range(2)]
    for step, text in zip(steps, ("3", limit), strict=True):
        step.bodies = (step.bodies[0]._replace(closure=(("limit", value(text)),)),)
    again = verdicts(*steps)[1]
    assert again.cause is Cause.CONTROL_FLOW_RECREATED
    assert again.fix is not None
    assert (again.avoidable, again.fix.sure) == (worth, sure)


def test_patterns_are_named() -> None:
    total = [Key((leaf("total", dtype="int32", weak=weak),)) for weak in (True, False)]
    assert [v.pattern for v in verdicts(*map(call, total))] == [None, "compiles-twice"]
    assert verdicts(call(sized(32)), call(sized(17)))[1].pattern == "last-partial-batch"
    sizes = verdicts(*(call(sized(n)) for n in (5, 9, 2, 30, 11)))
    assert {v.pattern for v in sizes[1:]} == {"many-sizes"}
    states = [Key((), (Node("s", "State", (), (("tx", value("sgd", t)),)),)) for t in "abc"]
    fresh = verdicts(*map(call, states))
    assert {v.pattern for v in fresh[1:]} == {"equal-but-not-the-same"}
    assert {v.avoidable for v in fresh[1:]} == {"yes"}


def test_advice_names_the_leaf_and_the_dtype() -> None:
    old, new = (Key((leaf("total", dtype="int32", weak=weak),)) for weak in (True, False))
    fix = verdicts(call(old), call(new))[1].fix
    assert fix is not None
    assert fix.code == "cast-carry"
    assert "`total`" in words(fix)
    assert "np.int32" in words(fix)


def advised(first: Miss, second: Miss) -> str:
    fix = verdicts(first, second)[1].fix
    return "" if fix is None else words(fix)


def test_advice_names_everything_that_changed() -> None:
    both = (Key((leaf("a", weak=weak), leaf("b", weak=weak))) for weak in (False, True))
    types = (Key((leaf("a", dtype=it), leaf("b", dtype=it))) for it in ("int32", "float32"))
    for keys, kind in ((both, CastNumber), (types, OneDtype)):
        fix = verdicts(*map(call, keys))[1].fix
        assert isinstance(fix, kind) and fix.paths == ("a", "b")


def test_advice_on_a_function_over_another_function() -> None:
    def over(text: str, number: int) -> Miss:
        return call(
            function=function(number, closure=(("apply", value(text, text, "function")),))
        )

    fix = verdicts(over("dense", 1), over("conv", 2))[1].fix
    assert isinstance(fix, JitForEach) and (fix.name, fix.paths) == ("f", ("apply",))


def test_advice_names_the_field_and_not_the_whole_object() -> None:
    def over(rate: str, number: int) -> Miss:
        cells = ("cfg", value("Config", rate, "m.Config")), ("cfg.rate", value(rate, rate))
        return call(function=function(number, closure=cells))

    assert "pass `cfg.rate` as" in advised(over("0.1", 1), over("0.2", 2))


def test_more_arguments_than_before_may_be_intended() -> None:
    few, many = (
        Key(tuple(leaf(f"rest[{n}]") for n in range(count)), signature=signature)
        for count, signature in (
            (1, (("rest[0]", "positional"),)),
            (2, (("rest[0]", "positional"), ("rest[1]", "positional"))),
        )
    )
    assert verdicts(call(few), call(many))[1].avoidable == "maybe"
    fix = verdicts(call(few), call(many))[1].fix
    assert isinstance(fix, OneCallStyle) and fix.paths == ("rest",) and fix.variadic


def test_a_number_among_the_static_fields_can_be_a_leaf() -> None:
    states = (
        Key((), (Node("s", "State", (), (("epoch", value(n, n, "int")),)),)) for n in ("1", "2")
    )
    fix = verdicts(*map(call, states))[1].fix
    assert isinstance(fix, ToArray) and fix.paths == ("s.epoch",) and fix.in_tree


def test_no_advice_on_how_a_library_calls_its_own_functions() -> None:
    own = [call(sized(size), nested=True, parent="r-9") for size in (3, 4)]
    theirs = [replace(one, function=one.function._replace(in_library=True)) for one in own]
    assert "pad" in advised(*own)
    assert advised(*theirs) == ""


def test_devices_that_take_turns_each_have_a_program() -> None:
    def on(device: str) -> Key:
        return Key((leaf("x")._replace(sharding=f"SingleDevice({device})", committed=True),))

    first = call(Key((leaf("x"),)))
    placed, moved = (call(on(device), *COMPILED) for device in ("cpu:0", "cpu:1"))
    said = [v.fix.code for v in verdicts(first, placed, moved) if v.fix is not None]
    assert said == ["one-sharding", "one-sharding"]
    assert [v.fix.code for v in verdicts(first, placed) if v.fix is not None] == ["place-first"]


def test_of_equal_keys_the_one_of_a_function_that_holds_the_same_is_nearest() -> None:
    def made(number: int, rate: str, **fields: Any) -> Miss:
        return call(function=function(number, closure=(("rate", value(rate)),), **fields))

    found = verdicts(made(1, "0.1"), made(2, "0.2"), made(3, "0.1"), made(4, "0.3"))
    nearest = [None if v.nearest is None else v.nearest.number for v in found]
    assert nearest == [None, 0, 0, 2]
    assert [c.path for c in found[2].changes] == [None]
    # An edit takes precedence: that another edit undid it is what happened.
    edited = verdicts(made(1, "0.1"), made(2, "0.2", code="edited"), made(3, "0.1"))
    assert [v.cause.value for v in edited][1:] == ["source-changed", "source-changed"]


def test_a_last_batch_comes_from_the_line_of_the_others() -> None:
    full, rest = call(sized(32), call_site=LINE), call(sized(17), call_site=LINE)
    elsewhere = replace(rest, call_site=LINE._replace(line=9))
    assert [v.pattern for v in verdicts(full, rest)] == [None, "last-partial-batch"]
    assert verdicts(full, elsewhere)[1].pattern is None


def test_a_third_size_is_not_a_last_batch() -> None:
    sizes = [call(sized(size), call_site=LINE) for size in (32, 17, 9)]
    found = verdicts(*sizes)
    assert [v.pattern for v in found] == [None] * 3
    assert {v.fix.code for v in found if v.fix is not None} == {"pad-shape"}


def test_the_lines_above_a_helper_identify_an_evaluation_set() -> None:
    train = replace(call(sized(32), call_site=LINE), lines="in train")
    evaluate = replace(call(sized(17), call_site=LINE), lines="in evaluate")
    assert verdicts(train, evaluate)[1].pattern is None


def test_a_call_in_another_style_may_also_have_other_arrays() -> None:
    def written(how: str, size: int) -> Miss:
        return call(Key((leaf("x", size),), signature=(("x", how),)))

    assert verdicts(written("positional", 3), written("keyword", 3))[1].avoidable == "yes"
    assert verdicts(written("positional", 3), written("keyword", 4))[1].avoidable == "maybe"


# How much work it is


MANY: dict[str, Callable[[int], Miss]] = {
    "sizes": lambda number: call(sized(number + 1)),
    "static": lambda number: call(
        Key((leaf("x", 3),), static=(("n", value(str(number), str(number), data=number)),)),
        program=Program(f"p{number % 3}", 1),
    ),
    "closure": lambda number: call(
        function=function(number, closure=(("w", value(str(number), data=number)),))
    ),
    "lambda": lambda number: call(function=function(number, Kind.LAMBDA)),
    "eager": lambda number: call(sized(number + 1), function=function(1, Kind.OP)),
}


@pytest.mark.parametrize("kind", MANY)
def test_the_work_for_a_miss_does_not_grow_with_their_number(kind: str) -> None:
    few, many = [_calls([MANY[kind](number) for number in range(n)]) for n in (200, 800)]
    assert many < 5 * few


def _calls(found: list[Miss]) -> int:
    """The number of function calls needed to judge the misses."""
    calls = 0

    def called(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        verdicts(*found)
    finally:
        sys.setprofile(None)
    return calls

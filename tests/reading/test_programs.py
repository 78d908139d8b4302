"""Compares two programs and checks the kind of difference and its evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrace.compare.alignment import MAX_EXACT, Alignment, align, hunks
from retrace.compare.patch import Content, apply, patch
from retrace.compare.programs import Difference, compare
from retrace.compare.repeats import long_runs
from retrace.compare.rewired import Rewired
from retrace.compare.source_lines import place
from retrace.model import Frame, Listing

Row = tuple[str, list[int], int]
"""An equation's text with `|` for tabs, its variables, and its source line."""


def listing(
    rows: list[Row], inputs: tuple[str, ...] = ("f32[8]",), inner: tuple[Listing, ...] = ()
) -> Listing:
    """A program whose last result is its output."""
    equations = [text.replace("|", "\t") for text, _, _ in rows]
    wires = [wire for _, taken, _ in rows for wire in taken]
    lines = sorted({line for _, _, line in rows})
    outputs = (f"${len(inputs) + len(rows) - 1}",)
    digest = f"{hash((tuple(equations), tuple(wires), inputs, outputs)) % 2**64:032x}"
    return Listing(
        id=digest[8:],
        hash=digest,
        size=len(rows),
        inputs=inputs,
        constants=(),
        equations=equations,
        wires=wires,
        places=[lines.index(line) for _, _, line in rows],
        stacks=tuple((Frame("model.py", line, "step", 1, False),) for line in lines),
        outputs=outputs,
        inner={program.hash: program.id for program in inner},
    )


def chain(*texts: str) -> Listing:
    """A program in which each equation takes the previous result."""
    return listing([(text, [index], index + 10) for index, text in enumerate(texts)])


def against(old: Listing, new: Listing, *inner: Listing) -> Difference:
    return compare(old, new, {program.id: program for program in (old, new, *inner)})


SIN, COS, DOUBLE = "sin|$|f32[8]", "cos|$|f32[8]", "mul|$ 2.0:f32[]|f32[8]"


def test_equal_content_is_identical() -> None:
    assert against(chain(SIN, DOUBLE), chain(SIN, DOUBLE)).kind == "identical"


def test_sizes_are_reported_with_their_axes() -> None:
    def mean(size: int) -> Listing:
        rows: list[Row] = [
            (f"reduce_sum|$|f32[]|axes=(0,)|shape=({size},)", [0], 1),
            (f"div|$ {size}.0:f32[]|f32[]", [1], 1),
            (f"sub|$ $|f32[{size}]", [0, 2], 2),
        ]
        return listing(rows, (f"f32[{size}]",))

    found = against(mean(32), mean(17))
    assert found.kind == "shapes-only"
    assert [(s.old, s.new, s.equations, s.inputs) for s in found.sizes] == [
        (32, 17, 1, ((0, 0),))
    ]


def test_constants_are_reported_with_their_line() -> None:
    found = against(chain(SIN, DOUBLE), chain(SIN, DOUBLE.replace("2.0", "3.0")))
    assert found.kind == "constants-only"
    (constant,) = found.constants
    assert (constant.old, constant.new, constant.place and constant.place.line) == (
        "2.0",
        "3.0",
        11,
    )


def test_another_axis_is_another_program() -> None:
    found = against(chain("sum|$|f32[]|axes=(0,)"), chain("sum|$|f32[]|axes=(1,)"))
    assert found.kind == "different"


def test_a_size_and_a_constant_of_its_own_are_different() -> None:
    old = listing([("mul|$ 2.0:f32[]|f32[8]", [0], 1)])
    new = listing([("mul|$ 7.5:f32[]|f32[9]", [0], 1)], ("f32[9]",))
    assert against(old, new).kind == "different"


def test_a_block_that_runs_more_often_is_repeated() -> None:
    layer = ["dot|$|f32[8]", "tanh|$|f32[8]"]

    def layers(number: int) -> Listing:
        rows: list[Row] = [(SIN, [0], 40)]
        rows += [(text, [len(rows) + i], 41) for i, text in enumerate(layer * number)]
        return listing([*rows, (COS, [len(rows)], 42)])

    for old, new in ((5, 7), (7, 5), (1, 2)):
        found = against(layers(old), layers(new))
        (block,) = found.repeats
        assert found.kind == "repeated"
        assert (block.primitives, block.old, block.new) == (("dot", "tanh"), old, new)
        assert block.place is not None and block.place.line == 41


def test_lines_are_reported_if_more_differs() -> None:
    found = against(chain(SIN, SIN, DOUBLE), chain(SIN, COS, COS, DOUBLE))
    assert found.kind == "different"
    assert found.minimal
    said = {line.place and line.place.line: line[1:] for line in found.lines}
    assert said[11] == ((("cos", 1),), (("sin", 1),), ())
    assert said[12][0] == (("cos", 1),)


def test_the_same_equations_over_other_variables_are_different() -> None:
    two = ("f32[]", "f32[]")
    old, new = (listing([("sub|$ $|f32[]", wires, 1)], two) for wires in ([0, 1], [1, 0]))
    found = against(old, new)
    assert found.kind == "different"
    assert found.rewired == Rewired("arguments", "sub", place(new, 0), swapped=True)
    bodies = [listing([(SIN, [0], 1)] * 2 + [(COS, wires, 2)]) for wires in ([1], [2])]

    def outer(body: Listing) -> Listing:
        return listing([(f"scan|$|f32[8]|jaxpr=@{body.hash}|length=4", [0], 5)], inner=(body,))

    found = against(outer(bodies[0]), outer(bodies[1]), *bodies)
    assert found.rewired == Rewired("arguments", "cos", place(bodies[1], 2))


def test_the_same_equations_with_other_results_or_inputs() -> None:
    one = listing([(SIN, [0], 1), (COS, [0], 1)])
    assert one.outputs
    for other, what, swapped in (
        (one._replace(outputs=("$1",), hash="x"), "results", False),
        (one._replace(inputs=(*one.inputs, "f32[]"), hash="y"), "inputs", False),
    ):
        found = against(one, other).rewired
        assert found is not None and (found.what, found.swapped) == (what, swapped)
    two = one._replace(outputs=("$1", "$2"), hash="a")
    found = against(two, two._replace(outputs=("$2", "$1"), hash="b")).rewired
    assert found == Rewired("results", swapped=True)


def test_sub_programs_are_looked_into() -> None:
    def outer(body: Listing) -> Listing:
        return listing([(f"scan|$|f32[8]|jaxpr=@{body.hash}|length=4", [0], 5)], inner=(body,))

    bodies = [chain(SIN, DOUBLE), chain(SIN, DOUBLE.replace("2.0", "3.0")), chain(SIN, COS)]
    programs = [outer(body) for body in bodies]
    constant = against(programs[0], programs[1], *bodies)
    assert constant.kind == "constants-only"
    assert constant.constants[0].place is not None and constant.constants[0].place.line == 11
    other = against(programs[0], programs[2], *bodies)
    assert other.kind == "different"
    assert [line.place and line.place.line for line in other.lines] == [11]


def test_a_program_inside_itself_does_no_harm() -> None:
    a, b = (
        listing([(f"pjit|$|{t}|jaxpr=@{n * 32}", [0], 1)])
        for t, n in (("f32[8]", "a"), ("f32[9]", "b"))
    )
    a.inner["a" * 32], b.inner["b" * 32] = a.id, b.id
    assert against(a, b).kind in ("different", "shapes-only")


# Properties. Few tokens, so that there is much to confuse.
texts = st.lists(st.sampled_from([SIN, COS, DOUBLE]), max_size=9)


def longest_common(a: list[str], b: list[str]) -> int:
    """The exhaustive answer, by dynamic programming."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row
        row = [0]
        for index, y in enumerate(b):
            row.append(before[index] + 1 if x == y else max(row[-1], before[index + 1]))
    return row[-1]


def kept(alignment: Alignment) -> int:
    return sum(block.length for block in alignment.blocks)


@given(texts, texts)
def test_the_edits_are_the_fewest_and_symmetric(a: list[str], b: list[str]) -> None:
    found, back = align(a, b), align(b, a)
    assert found.minimal
    assert kept(found) == kept(back) == longest_common(a, b)
    for block in found.blocks:
        assert a[block.old : block.old + block.length] == b[block.new : block.new + block.length]


@given(
    st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=400)
)
def test_planted_edits_are_found(seed: int, planted: list[tuple[int, bool]]) -> None:
    old = [str((seed + index * index) % 13) for index in range(2000)]
    new = list(old)
    for at, insert in planted:
        if insert:
            new.insert(at % len(new), "new")
        else:
            del new[at % len(new)]
    found = align(old, new)
    edits = len(old) + len(new) - 2 * kept(found)
    assert found.minimal or len(planted) > MAX_EXACT
    assert edits <= len(planted) if found.minimal else edits <= 4 * len(planted)
    assert all(
        hunk.old_end > hunk.old or hunk.new_end > hunk.new
        for hunk in hunks(found, len(old), len(new))
    )


@st.composite
def contents(draw: st.DrawFn) -> Content:
    inputs = tuple(draw(st.lists(st.sampled_from(["f32[8]", "i32[]"]), min_size=1, max_size=3)))
    names = draw(
        st.lists(
            st.sampled_from(["sin|$|f32[8]", "add|$ $|f32[8]", "split|$|f32[8] f32[8]"]),
            max_size=8,
        )
    )
    made = len(inputs)
    wires: list[tuple[int, ...]] = []
    for text in names:
        taken = text.count("$")
        wires.append(tuple(draw(st.integers(0, made - 1)) for _ in range(taken)))
        made += 2 if text.startswith("split") else 1
    equations = tuple(text.replace("|", "\t") for text in names)
    return Content(inputs, (), equations, tuple(wires), (f"${draw(st.integers(0, made - 1))}",))


@given(contents(), contents())
def test_the_difference_applied_to_the_old_gives_the_new(old: Content, new: Content) -> None:
    assert apply(patch(old, new), old) == new
    assert apply(patch(new, old), new) == old
    assert patch(old, old).equations == () and patch(old, old).wires == ()


@given(texts, texts)
def test_a_comparison_is_symmetric_up_to_direction(a: list[str], b: list[str]) -> None:
    there, back = against(chain(*a), chain(*b)), against(chain(*b), chain(*a))
    assert there.kind == back.kind
    assert sorted((c.old, c.new) for c in there.constants) == sorted(
        (c.new, c.old) for c in back.constants
    )


# Loops inside sub-programs, and loops that did not run.


def calling(body: Listing, equation: str = "pjit|$|f32[8]|jaxpr=@{}") -> Listing:
    return listing([(equation.format(body.hash), [0], 5)], inner=(body,))


def layers(number: int) -> Listing:
    rows: list[Row] = [(SIN, [0], 40)]
    rows += [(text, [len(rows) + i], 41) for i, text in enumerate([COS, DOUBLE] * number)]
    return listing([*rows, (COS, [len(rows)], 42)])


def blocks(
    found: Difference,
) -> list[tuple[tuple[str, ...], int | None, int | None, int | None, bool]]:
    return [
        (block.primitives, block.old, block.new, block.place and block.place.line, block.loop)
        for block in found.repeats
    ]


@pytest.mark.parametrize(("old", "new"), [(5, 7), (7, 5), (1, 3), (0, 3), (3, 0)])
def test_a_loop_unrolled_in_a_sub_program_is_repeated(old: int, new: int) -> None:
    bodies = layers(old), layers(new)
    middle = [calling(body) for body in bodies]
    found = against(*map(calling, middle), *bodies, *middle)
    assert found.kind == "repeated"
    assert blocks(found) == [(("cos", "mul"), old, new, 41, False)]


@pytest.mark.parametrize(("old", "new"), [(5, 7), (0, 3), (3, 0)])
def test_a_scan_of_another_length_is_repeated(old: int, new: int) -> None:
    body = chain(SIN, DOUBLE)
    scans = [calling(body, f"scan|$|f32[8]|jaxpr=@{{}}|length={n}") for n in (old, new)]
    outer = [calling(scan) for scan in scans]
    assert blocks(against(*scans, body)) == [(("sin", "mul"), old, new, 5, True)]
    assert blocks(against(*outer, body, *scans)) == [(("sin", "mul"), old, new, 5, True)]
    assert against(*scans, body).kind == "repeated"


@pytest.mark.parametrize(
    ("old", "new"),
    [("#f0e1d2c3b4a5", "#0123456789ab"), ("30", "#0123456789ab"), ("5", "9" * 5000)],
)
def test_a_scan_of_unknown_length_is_repeated(old: str, new: str) -> None:
    body = chain(SIN, DOUBLE)
    scans = [calling(body, f"scan|$|f32[8]|jaxpr=@{{}}|length={n}") for n in (old, new)]
    found = against(*scans, body)
    assert found.kind == "repeated"
    assert [(block.old, block.new, block.loop) for block in found.repeats] == [(None, None, True)]


def test_a_scan_over_more_rows_is_a_matter_of_shapes() -> None:
    body = chain(SIN, DOUBLE)
    text = "scan|$|f32[8]|jaxpr=@{}|length="
    old, new = (
        listing([(f"{text.format(body.hash)}{n}", [0], 5)], (f"f32[{n}]",), (body,))
        for n in (32, 17)
    )
    assert against(old, new, body).kind == "shapes-only"


def test_a_loop_and_a_constant_are_different() -> None:
    bodies = layers(5), layers(7)
    old, new = (
        listing(
            [(f"pjit|$|f32[8]|jaxpr=@{body.hash}", [0], 5), (f"mul|$ {n}:f32[]|f32[8]", [1], 6)],
            inner=(body,),
        )
        for body, n in zip(bodies, ("0.5", "0.3"), strict=True)
    )
    assert against(old, new, *bodies).kind == "different"


def test_code_written_twice_is_not_a_loop() -> None:
    # `if deep: x = cos(sin(x)); x = cos(sin(x))`, each on its own line.
    found = against(chain(DOUBLE), chain(SIN, COS, SIN, COS, DOUBLE))
    assert found.kind == "different"


def looped(number: int, outputs: str, before: str = COS, inputs: int = 1) -> Listing:
    """`y = cos(x)`, then repeatedly `x = mul(x)`, then `z = sin(y)`; results by name."""
    first = inputs
    rows: list[Row] = [(before, [0], 40)]
    rows += [(DOUBLE, [first + i if i else 0], 41) for i in range(number)]
    made = listing([*rows, (SIN, [first], 42)], ("f32[8]",) * inputs)
    names = {"x": first + number if number else 0, "y": first, "z": first + number + 1, "0": 0}
    if number:
        names["f"] = first + 1
    told = tuple(f"${names[name]}" for name in outputs)
    return made._replace(outputs=told, hash=f"{made.hash[16:]}{hash(told) % 2**64:016x}")


@pytest.mark.parametrize(("old", "new"), [(3, 5), (5, 3), (1, 4), (0, 3), (3, 0)])
def test_a_loop_and_results_of_other_variables_are_different(old: int, new: int) -> None:
    for outputs in ("x", "y", "xyz", "z0", "zxx"):
        found = against(looped(old, outputs), looped(new, outputs))
        assert found.kind == "repeated", outputs
    for before, after in (("xy", "yy"), ("xz", "x"), ("z", "x"), ("y0", "yz")):
        found = against(looped(old, before), looped(new, after))
        assert found.kind == "different", (before, after)


def test_the_result_of_the_first_round_is_the_same() -> None:
    assert against(looped(3, "fx"), looped(5, "fx")).kind == "repeated"
    assert against(looped(3, "f"), looped(5, "x")).kind == "different"


def test_a_loop_and_anything_else_are_different() -> None:
    old, new = looped(3, "x"), looped(5, "x")
    captured = [
        made._replace(constants=(f"f32[5]={digest}",))
        for made, digest in ((old, "a1"), (new, "a1"), (new, "b2"))
    ]
    assert against(captured[0], captured[1]).kind == "repeated"
    found = against(captured[0], captured[2])
    assert (found.kind, len(found.constants)) == ("different", 1)
    scaled = [
        looped(number, "x", before=f"add|$ {value}:f32[]|f32[8]")
        for number, value in ((3, 0.5), (5, 0.25))
    ]
    assert against(*scaled).kind == "different"
    # `sin` of the loop's result instead of `sin` of the value before it.
    other = new._replace(wires=[*new.wires[:-1], 6], hash="0" * 32)
    assert against(old, other).kind == "different"


def test_two_variables_go_through_a_loop() -> None:
    def fibonacci(number: int, *outputs: int) -> Listing:
        rows: list[Row] = [("add|$ $|f32[8]", [i, i + 1], 41) for i in range(number)]
        made = listing([*rows, (SIN, [number + 1], 42)], ("f32[8]", "f32[8]"))
        told = tuple(f"${number + output}" for output in outputs)
        return made._replace(outputs=told, hash=f"{number:016x}{hash(told) % 2**64:016x}")

    for old, new in ((4, 6), (1, 4), (0, 3), (4, 0)):
        assert against(fibonacci(old, 0, 1), fibonacci(new, 0, 1)).kind == "repeated"
        assert against(fibonacci(old, 0, 1), fibonacci(new, 1, 1)).kind == "different"


@given(st.integers(0, 4), st.integers(0, 4), st.lists(st.sampled_from([SIN, COS]), max_size=3))
def test_a_loop_is_found_whatever_surrounds_it(old: int, new: int, before: list[str]) -> None:
    def around(number: int) -> Listing:
        rows = [*[(text, 10) for text in before], *[(DOUBLE, 11)] * number, (SIN, 12)]
        return listing([(text, [index], line) for index, (text, line) in enumerate(rows)])

    found = against(around(old), around(new))
    if old == new:
        assert found.kind == "identical"
    elif min(old, new) == 0 and max(old, new) == 1:
        assert found.kind == "different"
    else:
        assert blocks(found) == [(("mul",), old, new, 11, False)]


@given(
    inside=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    inner=st.integers(1, 9),
    times=st.integers(3, 16),
    before=st.lists(st.integers(6, 9), max_size=10),
    after=st.lists(st.integers(10, 13), max_size=10),
)
def test_long_rounds_are_found_whatever_runs_within_one(
    inside: list[int], inner: int, times: int, before: list[int], after: list[int]
) -> None:
    block = [*inside * inner, 99]  # the inner loop, and what follows it
    tokens = [*before, *block * times, *after]
    found = list(long_runs(tokens))
    for run in found:
        first = tokens[run.start : run.start + run.length]
        assert tokens[run.start : run.start + run.length * run.times] == first * run.times
    assert any(run.length == len(block) and run.times == times for run in found)

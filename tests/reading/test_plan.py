"""What a plan consists of: sizes, replays and data files; and how it is presented."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import prod
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retrace.command.plan import plan as command
from retrace.errors import UsageError
from retrace.model import Program, Recording
from retrace.plan import corners, data
from retrace.plan.amount import Amount, Span, exactly
from retrace.plan.corners import Size, corner_curve, corner_of
from retrace.plan.flops import JointFlops
from retrace.plan.order import plan
from retrace.plan.sizes import covering, curve, powers_of_two, recommended
from retrace.plan.step import Plan
from retrace.plan.warm import warmth
from retrace.present import plan_json, plan_markdown, plan_text, terminal
from retrace.present.plan_sizes import size_lines
from retrace.present.words import cut_between
from retrace.reason.verdict import judge
from tests.reading.story import LOSS, TRAIN_STEP, Story, array, at, step_key, write
from tests.reading.test_present import hostile, training


def best(weights: dict[int, int], power: int, k: int) -> float:
    """The lowest cost of any choice of `k` sizes, by trying them all."""
    sizes = sorted(weights)
    return min(
        sum(weight * covering(size, chosen) ** power for size, weight in weights.items())
        for chosen in combinations(sizes, k)
        if chosen[-1] == sizes[-1]
    )


@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 9), min_size=1, max_size=9),
    st.integers(1, 3),
)
def test_the_sizes_are_optimal(weights: dict[int, int], power: int) -> None:
    found = list(curve(dict(weights.items()), lambda size: float(size**power), 16))
    assert [len(choice.sizes) for choice in found] == list(range(1, len(weights) + 1))
    for k, choice in enumerate(found, 1):
        assert choice.cost == best(weights, power, k)
        assert set(choice.sizes) <= weights.keys()
        paid = sum(w * covering(s, choice.sizes) ** power for s, w in weights.items())
        assert choice.cost == paid
    assert found[-1].padding == 0
    assert recommended(found, len(weights)) in found
    assert powers_of_two(weights, lambda size: float(size)).cost >= found[-1].cost * (power == 1)


def grouped(sizes: list[Size], k: int) -> Iterator[list[list[Size]]]:
    """All ways to split sizes into `k` groups."""
    if not sizes:
        yield from [[]] if k == 0 else []
        return
    first, *rest = sizes
    for groups in grouped(rest, k):
        for place, group in enumerate(groups):
            yield [*groups[:place], [first, *group], *groups[place + 1 :]]
    for groups in grouped(rest, k - 1):
        yield [[first], *groups]


@pytest.mark.parametrize("axes", [2, 3])
@given(drawn=st.data())
def test_the_corners_are_optimal(axes: int, drawn: st.DataObject) -> None:
    size = st.tuples(*[st.integers(1, 9)] * axes)
    weights = drawn.draw(st.dictionaries(size, st.integers(1, 5), min_size=1, max_size=6))

    def paid(one: Size) -> float:
        return float(prod(one) + sum(one))

    found = corner_curve(dict(weights.items()), paid, 16)
    assert [len(choice.sizes) for choice in found] == list(range(1, len(weights) + 1))
    for k, choice in enumerate(found, 1):
        assert choice.cost == min(
            sum(
                sum(weights[one] for one in group)
                * paid(tuple(map(max, zip(*group, strict=True))))
                for group in groups
            )
            for groups in grouped(list(weights), k)
        )
        assert choice.cost == sum(
            weight * paid(corner_of(one, choice.sizes)) for one, weight in weights.items()
        )
    assert found[-1].padding == 0


@given(st.sets(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=10, max_size=230))
@settings(max_examples=8, deadline=None)
def test_many_sizes_all_fit_and_more_corners_pad_less(sizes: set[Size]) -> None:
    found = corner_curve(dict.fromkeys(sizes, 1.0), lambda one: float(prod(one)), 16)
    assert [len(choice.sizes) for choice in found] == sorted({len(c.sizes) for c in found})
    assert [c.cost for c in found] == sorted((c.cost for c in found), reverse=True)
    for choice in found:
        padded = [corner_of(one, choice.sizes) for one in sizes]
        assert set(padded) == set(choice.sizes)
        assert choice.cost == sum(map(prod, padded))


@given(st.dictionaries(st.tuples(st.integers(0, 70), st.integers(1, 70)), st.integers(1, 5)))
def test_powers_of_two_are_tight_on_every_axis(drawn: dict[Size, int]) -> None:
    weights = {size: float(weight) for size, weight in drawn.items()}
    found = corners.powers_of_two(weights, lambda one: float(prod(one) + sum(one)))
    # Each size goes to a corner less than twice as long on each axis.
    went = {one: [c for c in found.sizes if _is_tight(one, c)] for one in weights}
    assert all(len(to) == 1 for to in went.values())
    assert {to[0] for to in went.values()} == set(found.sizes)
    assert found.cost == sum(weights[one] * (prod(c) + sum(c)) for one, (c,) in went.items())
    assert 0 <= found.padding < 1


def _is_tight(size: Size, corner: Size) -> bool:
    return all(
        own <= there < 2 * own or own == there == 0
        for own, there in zip(size, corner, strict=True)
    ) and all(there & (there - 1) == 0 for there in corner)


TERMS = [(i, j) for i in range(3) for j in range(3) if i + j <= 3 and (i, j) != (2, 2)]


@given(
    st.dictionaries(st.sampled_from(TERMS), st.integers(1, 50), min_size=1, max_size=5),
    st.sets(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=2, max_size=14),
    st.booleans(),
)
@example({(0, 0): 1, (1, 1): 3}, {(64, 16), (32, 32), (16, 64), (8, 128)}, False)
@example({(0, 0): 1, (0, 1): 1, (1, 0): 1}, {(1, 1), (1, 2), (2, 1)}, False)
@example({(0, 0): 1, (0, 1): 1, (1, 0): 1}, {(1, n) for n in range(1, 8)} | {(2, 1)}, False)
def test_flops_of_corners_follow_the_law_or_are_unknown(
    law: dict[Size, int], sizes: set[Size], on_a_curve: bool
) -> None:
    """Nothing is said about a batch that holds the same number of tokens in each shape."""
    if on_a_curve:
        sizes = {(a, 720 // a) for a, _ in sizes}

    def computed(size: Size) -> float:
        return float(sum(n * size[0] ** i * size[1] ** j for (i, j), n in law.items()))

    weights = dict.fromkeys(sizes, 1.0)
    flops = JointFlops({size: computed(size) for size in sizes})
    for choice in corner_curve(weights, lambda one: float(prod(one)), 4):
        found = flops.with_flops(choice, weights).flops
        paid = sum(computed(corner_of(size, choice.sizes)) for size in sizes)
        if found is not None:
            assert found == pytest.approx(1 - sum(map(computed, sizes)) / paid, abs=2e-3)
        assert found is not None or on_a_curve or len(sizes) < 12


def story_plan(story: Story) -> Plan:
    view = story.view()
    return plan(view.recording, view.verdicts)


def test_the_plan_adds_up() -> None:
    found = story_plan(training())
    left = found.now
    assert found.steps
    for step in found.steps:
        assert step.misses
        left = left.minus(step.gone) if step.worth else left
        assert step.left[:2] == left[:2]
        assert step.left.seconds == pytest.approx(left.seconds)
    every = [name for step in found.steps for name in step.misses]
    assert len(every) == len(set(every))
    view = training().view()
    seconds = sum(view.own.values())
    assert abs(found.now.seconds.high - seconds) < 1e-6


def test_seconds_of_a_busy_machine_are_a_range() -> None:
    """Other load adds to a compilation's time; a similar one shows how fast it can be."""
    story = Story()
    counter = array("step", "int32", weak=False)
    for batch, seconds, equations in ((8, 20.0, 100), (16, 26.0, 100), (32, 13.0, 130)):
        program = Program(hash=f"{batch}", equations=equations)
        key, inner = step_key(batch, counter), step_key(batch, counter)
        outer = story.miss(TRAIN_STEP, key, at(60, "train_step()"), (seconds,), program=program)
        story.miss(LOSS, inner, at(43, "loss_fn()"), (seconds / 2,), parent=outer.id)
    found = story_plan(story)
    assert found.now.seconds == Span(59, 59)
    assert sum(step.gone.calls.high for step in found.steps) == 2
    saved = found.now.minus(found.steps[-1].left).seconds
    # The second and third are gone; the fastest took a tenth per equation.
    assert saved == (pytest.approx(10 + 13), pytest.approx(26 + 13))
    view = story.view()
    text, page = plan_text.whole(view, found), plan_markdown.whole(view, found)
    assert re.search(r"^ 1 .* 2  23\.0-39\.0   1 call, 36\.0 s$", text, re.MULTILINE)
    assert "needed: 1 call, 20.0 to 36.0 s" in text
    assert "| 2 | 23.0-39.0 | 1 call, 36.0 s |" in page


@pytest.mark.parametrize(
    ("gone", "worth", "said"),
    [
        (Amount(exactly(1), exactly(0), exactly(0.3)), True, ("1", "0.30", "nothing")),
        (Amount(Span(1, 2), Span(), Span(0.02, 0.06)), True, ("1-2", "0.02-0.06", "nothing")),
        (
            Amount(Span(), Span(0, 28), Span(0, 3.21)),
            False,
            ("up to 28 ops", "up to 3.2", "may save nothing"),
        ),
        (Amount(Span(), Span(4, 6), Span(0.1, 0.1)), True, ("4-6 ops", "0.10", "nothing")),
        (Amount(Span(), Span(), Span(0.0, 0.003)), False, ("nested", "<0.01", "not worth it")),
        (Amount(Span(), exactly(1), Span()), False, ("1 op", "<0.01", "not worth it")),
    ],
)
def test_a_range_and_a_zero_read_naturally(
    gone: Amount, worth: bool, said: tuple[str, str, str]
) -> None:
    view = training().view()
    whole = plan(view.recording, view.verdicts)
    step = whole.steps[0].changed(gone=gone, left=Amount(), worth=worth)
    told = whole.changed(steps=(step,))
    for width in (80, 40):
        text = plan_text.whole(view, told, width=width)
        table = text.partition("needed")[0]
        assert all(part in " ".join(table.split()) for part in said), text
        assert ".." not in table
        assert not re.search(r"(^|\s)-", table)


def test_what_sizes_cost_fits_a_narrow_terminal() -> None:
    (step,) = [one for one in story_plan(training()).steps if one.proposal.sizes]
    sizes = step.proposal.sizes
    assert sizes is not None
    known = [choice._replace(flops=0.25) for choice in (sizes.chosen, *sizes.curve, sizes.powers)]
    chosen, *found, powers = known
    sizes = sizes._replace(chosen=chosen, curve=tuple(found), powers=powers, program=100.0)
    step = step.changed(proposal=step.proposal._replace(sizes=sizes))
    for width in (40, 61, 62, 80):
        told = [line for line in size_lines(1, step, width) if not line.startswith("        ")]
        assert max(map(len, told)) <= width
        # As a table if there is room.
        assert any("padding   of FLOPs" in line for line in told) is (width >= 62)
        assert sum("25%" in line for line in told) == len(sizes.curve) + 1


def test_the_json_is_that_of_the_interface() -> None:
    told = plan_json.to_json(story_plan(training()), warmth(training().view().verdicts))
    assert told["schema"] == "retrace-plan/1"
    assert json.loads(json.dumps(told)) == told
    amounts = {"calls", "eager", "seconds"}
    assert set(told["now"]) == set(told["floor"]) == amounts
    step = {"misses", "functions", "causes", "fix", "gone", "alone", "left", "sure", "worth"}
    assert told["steps"]
    for each in told["steps"]:
        assert step <= set(each)
        assert {"code", "text", "file", "line", "k", "sizes"} <= set(each["fix"])
        assert all(set(each[name]) == amounts for name in ("gone", "alone", "left"))
        assert each["sure"] in ("clear", "likely", "ask")
    assert len(plan_json.to_json(story_plan(training()), top=1)["steps"]) == 1


@pytest.mark.parametrize("story", [training, hostile])
def test_the_text_fits_and_is_safe(story: type[Story]) -> None:
    view = story().view()
    found = plan(view.recording, view.verdicts)
    texts = [
        plan_text.whole(view, found, None, 10, 80),
        plan_markdown.whole(view, found, warmth(view.verdicts)),
        terminal.report(view, plan=found),
        terminal.summary(view, "out", plan=found),
    ]
    assert "\x1b" not in "".join(texts)
    lines = texts[0].splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 80


def npy(
    path: Path,
    numbers: list[int],
    code: str = "<i8",
    shape: tuple[int, ...] = (),
    turned: bool = False,
) -> Path:
    """An .npy file as NumPy writes it."""
    shape = shape or (len(numbers),)
    header = f"{{'descr': '{code}', 'fortran_order': {turned}, 'shape': {shape}, }}"
    padded = header.ljust(117) + "\n"
    kind = {"<i8": "q", "<u2": "H", "<f4": "f"}[code]
    content = struct.pack(f"<{len(numbers)}{kind}", *numbers)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + padded.encode() + content)
    return path


def test_sizes_of_the_data(tmp_path: Path) -> None:
    lines, table = tmp_path / "lines.txt", tmp_path / "table.csv"
    lines.write_text("3\n5\n\n5\n")
    table.write_text("name,n\na,7\nb,7\n")
    found = [
        data.read([str(lines)]),
        data.read([f"{table}:n"]),
        data.read([f"{table}:2"]),
        data.read([f"x={npy(tmp_path / 'a.npy', [1, 4, 4])}"]),
        data.read([f"x={npy(tmp_path / 'b.npy', [2, 2], '<u2')}"]),
        data.read([f"x={npy(tmp_path / 'c.npy', [8, 16], '<f4')}"]),
    ]
    weights = [each.of(["x axis 0"], [5])[0] for each in found]
    assert weights[:3] == [{3: 1, 5: 2}, {7: 2, 5: 1}, {7: 2, 5: 1}]
    assert weights[3:] == [{1: 1, 4: 2, 5: 1}, {2: 2, 5: 1}, {8: 1, 16: 1, 5: 1}]
    assert found[3].of(["other axis 0"], [5]) == ({5: 1.0}, 0)
    assert found[0].of(["x axis 0"], [5])[1] == 1
    unasked = data.read([f"y={lines}"])
    assert unasked.unused() == ["y"]


def test_rows_of_one_file_weigh_what_varies_together(tmp_path: Path) -> None:
    table, other = tmp_path / "table.csv", tmp_path / "other.csv"
    table.write_text("rows,length\n8,4\n2,16\n8,4\n9,9\n")
    other.write_text("rows,length\n8,4\n2,16\n8,4\n9,9\n")
    both = npy(tmp_path / "both.npy", [8, 4, 2, 16, 8, 4, 9, 9], shape=(4, 2))
    turned = npy(tmp_path / "turned.npy", [8, 2, 8, 9, 4, 16, 4, 9], shape=(4, 2), turned=True)
    axes = [("x axis 0", "mask axis 0"), ("x axis 1",)]
    seen = [(8, 4), (2, 16), (5, 5)]
    told = {(8, 4): 2.0, (2, 16): 1.0, (9, 9): 1.0, (5, 5): 1.0}, 4, 1
    for known in (
        [f"x axis 0={table}:rows", f"x axis 1={table}:length"],
        [f"x axis 1={table}:2", f"mask={table}:1"],
        [f"mask={both}:1", f"x axis 1={both}:2"],
        [f"mask={turned}:1", f"x axis 1={turned}:2"],
    ):
        found = data.read(known)
        assert found.together(axes, seen) == told
        assert found.unused() == []
    for unknown in (
        [],
        [f"{table}:rows"],
        [f"x axis 0={table}:rows"],
        [f"x={table}:length", f"mask={table}:rows"],  # which axis of `x`?
        [f"x axis 0={table}:rows", f"x axis 1={other}:length"],
    ):
        assert data.read(unknown).together(axes, seen) is None
    for wrong in ([f"x={table}:1", f"x={table}:2"], [f"{both}"], [f"{both}:3"], [f"{both}:n"]):
        with pytest.raises(UsageError):
            data.read(wrong)


BAD = {
    "words.txt": b"three\nfour\n",
    "negative.txt": b"3\n-1\n",
    "part.txt": b"3\n1.5\n",
    "huge.txt": b"3\n1e999\n",
    "empty.txt": b"",
    "table.csv": b"a,b\n1,2\n",
    "bytes.bin": b"\xff\xfe\x00\x01",
    "short.npy": b"\x93NUMPY",
    "object.npy": b"\x93NUMPY\x01\x00\x2d\x00{'descr': '|O', 'fortran_order': 0, 'shape': (1,)}",
    "code.npy": b"\x93NUMPY\x01\x00\x10\x00__import__('os')",
    "long.npy": b"\x93NUMPY\x01\x00\x2e\x00{'descr': '<i8', 'fortran_order': 0, 'shape': (9,)}",
}


@pytest.mark.parametrize("name", [*BAD, "absent.txt"])
def test_files_without_sizes_are_rejected_in_one_line(tmp_path: Path, name: str) -> None:
    if name in BAD:
        (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(UsageError) as raised:
        data.read([str(tmp_path / name)])
    assert "\n" not in str(raised.value)
    assert name in str(raised.value)


def test_a_recording_without_misses_says_so() -> None:
    view = Story().view()
    found = plan(view.recording, view.verdicts)
    assert found.steps == ()
    assert "nothing to change" in plan_text.whole(view, found)
    assert list(plan_text.block(view, found)) == []


def test_processes_of_one_job_are_not_added_up() -> None:
    view = training().view()
    one = plan(view.recording, view.verdicts)
    (run,) = view.recording.runs
    copies = [
        replace(
            miss,
            run="copy",
            id=f"copy-{miss.id}",
            parent=miss.parent and f"copy-{miss.parent}",
            stages={stage: 2 * spent for stage, spent in miss.stages.items()},
        )
        for miss in view.recording.misses
    ]
    for index, each in ((1, True), (run.process_index, False)):
        runs = [replace(run, process_index=0), replace(run, id="copy", process_index=index or 0)]
        recording = Recording(runs, [*view.recording.misses, *copies])
        both = plan(recording, judge(recording))
        assert (both.processes, both.each) == (2, each)
        times = 1 if each else 2
        assert both.now.calls.high == times * one.now.calls.high
        # For processes that did the same, everyone waits for the slowest.
        slower = 2 if each else 3
        assert both.now.seconds.high == pytest.approx(slower * one.now.seconds.high)
        assert [step.gone.calls for step in both.steps if step.gone.calls.high] == [
            Span(times * low, times * high)
            for low, high in (step.gone.calls for step in one.steps if step.gone.calls.high)
        ]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return write(training(), tmp_path / "out")


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_the_command_writes_every_format(
    recorded: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([recorded], warm=True, top=2, format=form) == 0
    said = capsys.readouterr().out
    assert "train.py" in said
    if form == "json":
        told = json.loads(said)
        assert len(told["steps"]) == 2
        assert told["left_off"] == len(story_plan(training()).steps) - 2
        assert told["warm"]["calls"]


def test_the_command_rejects_what_it_cannot_use(recorded: Path, tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.txt"
    sizes.write_text("17\n32\n32\n")
    assert command([recorded], sizes=[f"batch['image']={sizes}"], format="json") == 0
    for wrong in (
        lambda: command([recorded], sizes=[str(tmp_path / "absent")]),
        lambda: command([recorded], sizes=[f"nobody={sizes}"]),
        lambda: command([recorded], top=0),
        lambda: command([recorded], format="yaml"),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_sizes_of_the_data_weigh_the_padding() -> None:
    view = training().view()
    weighed = data.Data({None: data.Source(Path(), (17,) * 99 + (32,))})
    padding = [
        step.proposal.sizes.chosen.padding
        for found in (None, weighed)
        for step in plan(view.recording, view.verdicts, found).steps
        if step.proposal.sizes is not None
    ]
    # All are padded to 32; there is more padding if most are short.
    assert padding == [
        pytest.approx(1 - (17 + 32) / 64),
        pytest.approx(1 - (17 * 99 + 32) / 3200),
    ]


@pytest.mark.parametrize("limit", [60, 80, 108, 200])
def test_a_title_that_is_cut_says_what_it_is_about(limit: int) -> None:
    name = "provider.runtime_params_provider_profile_conditions_{}.values"
    values = " and ".join(f"`{name.format(one)}`" for one in ("ion", "density"))
    text = cut_between(f"one value of {values} (2 seen) and one size for {values}", limit)
    assert len(text) <= limit
    assert text.startswith("one value of `provider") and "lues`" in text
    assert text.count("(") == text.count(")") and text.count("`") % 2 == 0

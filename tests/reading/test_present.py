"""Turns a recording and its verdicts into words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrace.causes import Cause
from retrace.model import CodeChange, Key, Kind, Miss, Recording, Stage, Value, Verdict
from retrace.present import layout, markdown, miss, report_json, sentences, terminal
from retrace.present.tally import Tally
from retrace.present.view import View
from retrace.present.words import cells
from retrace.reason.verdict import judge
from tests.reading.story import (
    HOME,
    LOSS,
    RUN,
    TRAIN_STEP,
    Story,
    array,
    at,
    changes_of_each_kind,
    function,
    hostile,
    killed,
    plain,
    training,
)
from tests.reading.strategies import misses, numbered

GOLDEN = Path(__file__).parent / "golden"
X = Key((array("x", "float32", 3),))


def says(name: str, text: str) -> None:
    """Compare a text with its golden file; `GOLDEN=write` rewrites the file."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def shown(view: View, label: str) -> Verdict:
    found = view.find(label)
    assert len(found) == 1
    return found[0]


# Wording


def test_report() -> None:
    says("report.txt", terminal.report(killed().view()))


def test_markdown() -> None:
    says("report.md", markdown.report(killed().view()))


def test_summary_of_a_run() -> None:
    says("summary.txt", terminal.summary(training().view(), "out"))


def test_one_miss_in_full() -> None:
    view = training().view()
    says("show.txt", miss.show(view, shown(view, "train_step #3")))


def test_a_sentence_for_each_cause() -> None:
    view = training().view()
    verdict = shown(view, "train_step #3")
    changes = tuple(
        change for change in changes_of_each_kind() if not isinstance(change, CodeChange)
    )
    every = [replace(verdict, cause=cause, changes=changes) for cause in Cause]
    told = [sentences.explanation(view, one) for one in every]
    says("sentences.txt", "\n".join(told) + "\n")
    assert len(set(told)) == len(Cause)


# Layout


@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize("story", [training, killed, hostile])
def test_lines_are_no_wider_than_the_terminal(story: Callable[[], Story], width: int) -> None:
    view = story().view()
    texts = [terminal.report(view, keys=True, width=width)]
    texts += [miss.show(view, verdict, width=width) for verdict in view.verdicts]
    texts += [layout.message(view, verdict, width=width) for verdict in view.verdicts]
    texts.append(terminal.summary(view, "out", width=width))
    wide = [line for text in texts for line in text.splitlines() if len(line) > width]
    assert wide == []


LONG_NAME = "compute_the_loss_of_the_whole_epoch_with_regularization_and_distance"


@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize("name", [LONG_NAME, "f", "計算損失" * 12], ids=["long", "short", "wide"])
def test_a_long_name_leaves_how_often_and_what_it_is_worth(name: str, width: int) -> None:
    story = Story()
    for n in range(12):
        key = Key((array("x", "float32", 3 + n),))
        story.miss(function(name, 41), key, at(88, ""), raised=None)
    text = terminal.summary(story.view(), "out", width=width)
    said = " ".join(text.split())
    assert re.search(r" traced again \(11 times, (\d+ )?(perhaps |not )?avoidable\) ", said)
    assert max(map(cells, text.splitlines())) <= width


def test_an_ordinary_name_is_never_shortened() -> None:
    name = "bias_correction_of_all_moments"
    story = Story()
    for n in range(12):
        story.miss(function(name, 41), Key((array("x", "float32", 3 + n),)), at(88, ""))
    assert f"{name} traced again" in terminal.summary(story.view(), "out", width=60)


def test_wide_characters_take_two_columns() -> None:
    story = Story()
    for n in range(3):
        leaf = array(f"批次['圖像{'資料' * 10}']", "float32", 3 + n)
        static = ("設定", plain("訓練" * 60 + str(n)))
        story.miss(function("計算損失", 41), Key((leaf,), static=(static,)), at(88, ""))
    view = story.view()
    for width in (60, 80, 132):
        texts = [miss.show(view, verdict, width=width) for verdict in view.verdicts]
        texts.append(terminal.report(view, keys=True, width=width))
        lines = [line for text in texts for line in text.splitlines()]
        assert [line for line in lines if cells(line) > width] == []
        assert "".join("".join(lines).split()).count("\0") == 0


@given(st.text("ab 損失é\u0301", min_size=1), st.integers(20, 60), st.integers(0, 4))
def test_wrapping_loses_nothing(text: str, width: int, indent: int) -> None:
    lines = layout.wrapped(text, width, indent)
    assert max(map(cells, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_lines_end_between_words_and_long_names_between_their_parts() -> None:
    told = "new optax._src.base.GradientTransformationExtraArgs, 1.77 s and 3 sizes"
    assert layout.wrapped(told, 26, 2) == [
        "new optax._src.base.",
        "  GradientTransformation",
        "  ExtraArgs, 1.77 s and 3",
        "  sizes",
    ]
    assert layout.wrapped("in all it took 12.8 s", 20, 0) == ["in all it took", "12.8 s"]


def test_a_command_to_copy_is_whole_on_a_narrow_terminal() -> None:
    told = terminal.report(training().view(), width=40).splitlines()
    commands = [line for line in told if "retrace show" in line]
    assert commands and not [line for line in commands if "..." in line]


def test_colour_adds_nothing_but_colour() -> None:
    view = killed().view()
    tellers: list[Callable[[layout.Paint], str]] = [
        lambda paint: terminal.report(view, keys=True, paint=paint),
        lambda paint: terminal.summary(view, "out", paint=paint),
    ]
    for tell in tellers:
        coloured = tell(layout.colour)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == tell(layout.plain)


def test_the_summary_is_short() -> None:
    assert len(terminal.summary(training().view(), "out").splitlines()) <= 16


def test_no_misses_are_reported() -> None:
    view = Story().view()
    assert "no misses in train.py" in terminal.report(view)
    assert terminal.summary(view, "out") == terminal.report(view)
    assert "**0 misses**" in markdown.report(view)


# What is safe in a terminal, a page, an object


def test_hostile_names_do_nothing_in_a_terminal() -> None:
    view = hostile().view()
    texts = [
        terminal.report(view, keys=True),
        terminal.summary(view, "out"),
        *(miss.show(view, verdict) for verdict in view.verdicts),
        *(sentences.explanation(view, verdict) for verdict in view.verdicts),
    ]
    for text in texts:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
        assert " at 0x" not in text
        assert len(text) < 10_000
        text.encode()


def test_hostile_names_do_nothing_in_markdown() -> None:
    text = markdown.report(hostile().view(), keys=True)
    text.encode()
    assert "\x1b" not in text
    block = re.sub(r"````text\n.*?\n````", "", text, flags=re.DOTALL)
    outside = re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", block)
    assert not re.search(r"(?<!\\)<", outside)
    rows = [line for line in block.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5, 7}


@given(name=st.text(st.characters()) | st.text("\\u\ud800\udfffd8\U0001f600"))
def test_every_reader_can_read_our_json(name: str) -> None:
    """A lone surrogate, as in a file name that is not UTF-8, is not valid text elsewhere."""
    told = json.loads(report_json.encode({name: [name]}))
    # The message omits the name, because it could not be sent to whoever prints it.
    assert told == {readable(name): [readable(name)]}, ascii(name)


def readable(name: str) -> str:
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_hostile_names_arrive_whole_in_json() -> None:
    story = hostile()
    text = report_json.encode(report_json.report(story.view(), keys=True))
    assert text.isascii()
    assert "\x1b" not in text
    first = json.loads(text)["misses"][0]
    assert first["function"]["name"] == readable(story.misses[0].function.name)


def test_numbers_that_json_cannot_express() -> None:
    story = training()
    story.misses[0].stages[Stage.TRACE] = float("nan")
    assert json.loads(report_json.encode(report_json.report(story.view())))


# What is counted


def test_each_second_is_counted_once() -> None:
    story = training()
    report = report_json.report(story.view())
    total = sum(report["summary"]["seconds"].values())
    roots = sum(miss.seconds for miss in story.misses if miss.parent is None)
    assert total == pytest.approx(roots)
    by_cause = report["summary"]["by_cause"].values()
    assert sum(row["seconds"] for row in by_cause) == pytest.approx(total)
    assert sum(row["seconds"] for row in report["functions"]) == pytest.approx(total)
    assert sum(row["misses"] for row in by_cause) == len(story.misses)


def test_a_backward_program_does_not_count_for_its_parent() -> None:
    story = Story()
    call = story.miss(TRAIN_STEP, X, at(88, ""), (1.0, 1.0, 1.0))
    story.miss(TRAIN_STEP, X, at(88, ""), (None, 2.0, 3.0), parent=call.id, derived="backward")
    assert Tally.of(story.view()).totals.all_seconds == 8.0


def test_avoidable_seconds_count_what_is_nested_once() -> None:
    story = Story()
    for number in range(2):
        key = Key((array("x", "float32", weak=number == 0),))
        outer = story.miss(TRAIN_STEP, key, at(88, ""), (2.0, 1.0, 1.0))
        story.miss(LOSS, key, at(47, ""), (1.0,), parent=outer.id, nested=True)
    total = Tally.of(story.view()).totals
    assert (total.avoidable, total.avoidable_seconds) == (2, 4.0)


def test_nested_misses_fold_under_a_loud_root() -> None:
    text = terminal.report(training().view())
    assert "1 function traced inside" in text
    assert "loss_fn traced" not in text


def test_what_a_library_traces_inside_a_program_is_folded_into_it() -> None:
    story = Story()
    outer = story.miss(TRAIN_STEP, X, at(88, ""))
    for number in (1, 2):
        theirs = LOSS._replace(name="_fn", object=number, in_library=True)
        story.miss(theirs, X, at(47, ""), (0.01,), parent=outer.id, nested=True)
    text = terminal.report(story.view())
    assert "_fn" not in text
    assert "1 function ran" in text and "2 traces inside" in text


def test_a_loud_miss_shows_though_its_root_is_quiet() -> None:
    story = Story()
    outer = story.miss(TRAIN_STEP, X, at(88, ""))
    for rows in (3, 4):
        key = Key((array("x", "float32", rows),))
        story.miss(LOSS, key, at(47, ""), (0.01,), parent=outer.id, nested=True)
    assert "loss_fn traced again" in terminal.report(story.view())


def test_repeated_misses_are_counted_not_repeated() -> None:
    text = terminal.report(training().view())
    assert text.count("a new lambda") == 1
    assert "4 times, same cause" in text


def test_eager_operations_stand_under_their_line() -> None:
    text = terminal.report(training().view())
    assert re.search(r"train\.py:12 +5 +mul \(twice\)", text)
    assert "random_bits compiled" not in text


def test_the_worst_comes_first() -> None:
    tally = Tally.of(training().view())
    spent = [group.seconds for group in tally.groups()]
    assert spent == sorted(spent, reverse=True)
    counts = [group.count for group in tally.groups("count")]
    assert counts == sorted(counts, reverse=True)
    began = [group.began for group in tally.groups("time")]
    assert began == sorted(began)


def others(*keys: Key) -> str:
    """What the report says about all misses of one cause except the one shown."""
    story = Story()
    for key in keys:
        story.miss(TRAIN_STEP, key, at(88, ""))
    text = terminal.report(story.view(), width=140)
    return next(line.strip() for line in text.splitlines() if line.strip().startswith("also "))


def test_the_other_dtypes_are_listed() -> None:
    dtypes = ("float32", "int32", "float16", "bool", "int8", "uint8", "int16")
    keys = [Key((array("x", dtype, 3),)) for dtype in dtypes]
    assert others(*keys[:5]) == "also float16[3], bool[3] and int8[3]"
    assert others(*keys[:6]).endswith("int8[3] and uint8[3]")
    assert others(*keys).endswith("uint8[3] and 1 other type")
    weak = Key((array("x", "bfloat16", 3, weak=True),))
    assert others(*keys[:3], weak) == "also float16[3] and weak bfloat16[3]"


def test_one_more_is_singular() -> None:
    keys = [Key((array("x", "float32", rows),)) for rows in range(1, 8)]
    assert others(*keys).endswith(" and 1 other shape")
    assert others(*keys, Key((array("x", "float32", 9),))).endswith(" and 2 other shapes")
    names = ("a", "b", "c", "d", "e")
    settings = [Key(X.leaves, config=tuple((n, plain(n == m)) for n in names)) for m in names]
    assert others(X, *settings).endswith(" and 1 other change")


def test_a_change_is_not_cut_across_its_arrow() -> None:
    def config(scale: float, power: int) -> Key:
        text = f"Config(scale={scale}, power={power}, bias=0.0, name='model')"
        return Key(X.leaves, static=(("config", Value("Config", text, text, False)),))

    said = others(*(config(scale, 2) for scale in (2.0, 1.0, 4.0)))
    sides = said.removeprefix("also static config ").split(" -> ")
    assert [side[:17] for side in sides] == ["Config(scale=1.0,", "Config(scale=4.0,"]
    assert all(side.endswith("='model')") for side in sides)


def test_misses_of_only_one_process_say_so() -> None:
    both = [training(), training(run="second", process_index=1)]
    both[1].miss(function("<lambda>", 97, Kind.LAMBDA), X, None, new_object=True)
    both[1].misses[:] = [m for m in both[1].misses if m.function.line != 41 or m.number < 6]
    every = Recording([s.run for s in both], [m for s in both for m in s.misses])
    text = terminal.report(View(every, judge(every), HOME))
    assert "only process 0 of 2" in text
    assert "2 processes" in text


def test_what_costs_little_takes_a_line() -> None:
    story = training()
    for rows in range(1, 4):
        key = Key((array("x", "float32", rows),))
        story.miss(function("trim", 140), key, at(141, ""), (0.001, 0.001, 0.001))
    text = terminal.report(story.view())
    assert re.search(r"k3x9f2a-21 +trim, train\.py:140: shape-changed \(2 times\)", text)
    assert "trim traced" not in text
    assert "trim" not in terminal.summary(story.view(), "out")
    view = story.view()
    alone = [verdict for verdict in view.verdicts if verdict.miss.function.name == "trim"]
    assert "trim traced again" in terminal.report(view, Tally.of(view, alone))


def test_places_are_relative_to_the_program_where_it_lies_elsewhere() -> None:
    recording = training().recording()
    view = View(recording, judge(recording), "/somewhere/else")
    assert view.place(view.find("train_step #3")[0].miss) == "train.py:41"


def test_lambdas_that_ran_for_the_first_time_have_a_place() -> None:
    story = Story()
    for line in (7, 9):
        story.miss(function("<lambda>", line, Kind.LAMBDA), X, at(line, ""))
    story.miss(TRAIN_STEP, X, at(88, ""))
    said = " ".join(terminal.report(story.view()).split())
    assert (
        "<lambda> (train.py:7) 1.15 s, <lambda> (train.py:9) 1.15 s and train_step 1.15" in said
    )


# Labels


def test_a_miss_is_found_by_id_label_and_beginning() -> None:
    view = training().view()
    for text in ("train_step #3", "train_step#3", f"{RUN}-9"):
        assert [v.miss.id for v in view.find(text)] == [f"{RUN}-9"]
    assert len(view.find(RUN)) == len(view.verdicts)
    assert view.find("export #1") == view.find("") == []


def test_labels_that_two_functions_share_name_the_place() -> None:
    story = Story()
    for line in (10, 20):
        story.miss(function("step", line), X, None)
    view = story.view()
    labels = [view.label(miss) for miss in story.misses]
    assert labels == ["step #1 (train.py:10)", "step #1 (train.py:20)"]
    assert [view.find(label)[0].miss for label in labels] == story.misses
    assert len(view.find("step #1")) == 2


def test_labels_that_two_processes_share_name_the_process() -> None:
    both = [training(), training(run="second", process_index=1)]
    every = Recording([s.run for s in both], [m for s in both for m in s.misses])
    view = View(every, judge(every), HOME)
    assert view.label(both[1].misses[5]) == "train_step #1 (process 1)"
    assert view.find("train_step #1 (process 1)")[0].miss is both[1].misses[5]


def processes(*scripts: str, **fields: Any) -> list[Story]:
    """Processes on one host, all with index 0, each with the same misses of `work`."""
    told = [
        Story(run=f"run{n}", pid=14650 + n, argv=[f"{HOME}/{script}"], **fields)
        for n, script in enumerate(scripts)
    ]
    for story in told:
        for rows in (3, 4):
            story.miss(function("work", 5), Key((array("x", "float32", rows),)), at(9, ""))
    return told


def together(stories: list[Story]) -> View:
    every = Recording([s.run for s in stories], [m for s in stories for m in s.misses])
    return View(every, judge(every), HOME)


def test_processes_of_one_index_are_named_by_pid_and_script() -> None:
    view = together(processes("parent.py", "child.py", "child.py"))
    labels = [view.label(verdict.miss) for verdict in view.find("work #2")]
    assert labels == [
        "work #2 (parent.py, process 14650)",
        "work #2 (child.py, process 14651)",
        "work #2 (child.py, process 14652)",
    ]
    assert [len(view.find(label)) for label in labels] == [1, 1, 1]


def test_the_script_is_only_named_if_it_differs() -> None:
    view = together(processes("work.py", "work.py"))
    labels = [view.label(verdict.miss) for verdict in view.find("work #2")]
    assert labels == ["work #2 (process 14650)", "work #2 (process 14651)"]


def test_processes_of_several_hosts_may_have_one_pid() -> None:
    stories = [Story(run=f"run{n}", host=f"host{n % 2}", argv=["work.py"]) for n in range(3)]
    for story in stories:
        story.miss(function("work", 5), X, at(9, ""))
    view = together(stories)
    assert [view.process(story.run.id) for story in stories] == [
        ("process 4242 on host0", "recording run0"),
        ("process 4242 on host1",),
        ("process 4242 on host0", "recording run2"),
    ]


def test_only_some_processes_of_one_index() -> None:
    stories = processes("parent.py", "child.py", "child.py")
    stories[0].misses.clear()
    stories[0].miss(function("other", 7), X, at(12, ""))
    text = terminal.report(together(stories))
    assert "only child.py process 14651 and child.py process 14652 of 3" in text


def test_a_launcher_without_misses_leaves_the_workers_their_index() -> None:
    launcher, *workers = processes("launch.py", "work.py", "work.py")
    launcher.misses.clear()
    for index, worker in enumerate(workers):
        worker.run = replace(worker.run, process_index=index)
    view = together([launcher, *workers])
    labels = [view.label(verdict.miss) for verdict in view.find("work #1")]
    assert labels == ["work #1 (process 0)", "work #1 (process 1)"]


# Anything that could be recorded


@settings(max_examples=60, deadline=None)
@given(st.lists(misses(), max_size=6), st.data())
def test_whatever_was_recorded_can_be_presented(found: list[Miss], data: st.DataObject) -> None:
    story = Story()
    recorded = numbered(found)
    run = replace(story.run, id=recorded[0].run if recorded else "r")
    every = Recording([run], recorded)
    view = View(every, judge(every))
    terminal.report(view, keys=True, width=data.draw(st.integers(40, 120)))
    terminal.summary(view, "out")
    markdown.report(view, keys=True)
    json.loads(report_json.encode(report_json.report(view, keys=True)))
    for verdict in view.verdicts:
        assert sentences.explanation(view, verdict)
        assert miss.show(view, verdict)
        assert verdict in view.find(verdict.miss.id)
        cause = data.draw(st.sampled_from(Cause))
        change = data.draw(st.sampled_from(changes_of_each_kind()))
        other = replace(verdict, cause=cause, changes=(change,))
        assert sentences.explanation(view, other)
        assert miss.show(view, other)


def called_on_one_line(number: int, *sizes: int) -> View:
    """Functions of one name that one line calls with arrays of several sizes."""
    story = Story()
    for size in sizes:
        for one in range(number):
            made = function("apply", 7, Kind.DEF, site=f"apply:7:{one}", object=one + 1)
            key = Key((array("x", "float32", size),))
            story.miss(made, key, site=at(45, "apply(x)"))
    return story.view()


def test_one_cause_on_one_line_is_reported_once_for_all_functions() -> None:
    view = called_on_one_line(30, 3, 4)
    causes = [group.cause for group in Tally.of(view).groups()]
    assert causes.count(Cause.SHAPE_CHANGED) == 1
    assert terminal.report(view).count("apply and 29 more functions") == 1
    two = called_on_one_line(2, 3, 4)
    assert [g.cause for g in Tally.of(two).groups()].count(Cause.SHAPE_CHANGED) == 2


def test_labels_are_unique_even_for_functions_on_one_line() -> None:
    view = called_on_one_line(3, 3, 4)
    labels = [view.label(verdict.miss) for verdict in view.verdicts]
    assert len({*labels}) == len(labels) == 6
    for label, verdict in zip(labels, view.verdicts, strict=True):
        assert view.find(label) == [verdict]


def test_what_is_beyond_the_top_is_counted() -> None:
    view = training().view()
    whole, first = terminal.report(view), terminal.report(view, top=1)
    assert len(first) < len(whole)
    assert "retrace report --top" in first and "retrace report --top" not in whole

"""What redaction hides and keeps, in bounded time even in a recording that was tampered with."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from retrace.errors import UsageError
from retrace.model import (
    Audit,
    Checked,
    Function,
    Key,
    Kind,
    Leaf,
    Listing,
    Outcome,
    Reason,
    Value,
)
from retrace.store.redaction import Redaction, read_key
from tests.reading.story import Story

VALUE = Value("int", "1", "=1", True)


def redacted(*names: str) -> list[str]:
    function = Function("f", "f", "f", Kind.DEF, "t.py", 1, "t.py:1 f", 1)
    found = Redaction([]).function(function._replace(reads=tuple((n, VALUE) for n in names)))
    return [name for name, _ in found.reads]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.name", "plain.name"),
        ("G[0].b[-1]", "G[0].b[-1]"),
        ("G['a'][0].b[True]", "G[#][0].b[#]"),
        ('G["x\']"][3]', "G[#][3]"),
        ("G[(1, 'a')][b'k'].c", "G[#][#].c"),
        ("G['never closed][0].b", "G[#]"),
    ],
)
def test_keys_are_hidden_and_items_stay(name: str, shown: str) -> None:
    (shown_as,) = redacted(name)
    assert re.sub("<redacted [0-9a-f]{8}>", "#", shown_as) == shown


def test_the_key_of_what_an_audited_function_writes_is_hidden() -> None:
    checked = Checked(1, Outcome.UNTRACED, reason=Reason.WRITES, detail="TABLE['secret']")
    (shown_as,) = Redaction([]).audit(Audit("r", 1, 1.0, 1, 1, 0.1, (checked,)), {}).checked
    assert re.sub("<redacted [0-9a-f]{8}>", "#", shown_as.detail) == "TABLE[#]"


def test_equal_keys_have_equal_hashes_only_in_one_place() -> None:
    names = "G['a']", "H['a']", "G['a']['a']", "G['b']['a']"
    hashes = re.findall("[0-9a-f]{8}", " ".join(redacted(*names)))
    assert len(hashes) == 6
    assert len(set(hashes)) == 5  # `G['a']` is there twice


@pytest.mark.parametrize("name", ["G" + "['a']" * 50_000, "G[" * 50_000, "G[" + "'a" * 50_001])
def test_an_endless_name_takes_little_time(name: str) -> None:
    began = time.process_time()
    redacted(name)
    assert time.process_time() - began < 5


def equations(*texts: str) -> list[str]:
    """The redacted equations of a program of `f32[6,4]`, with hashes as `#`."""
    program = Listing(
        *("id", "hash", len(texts), ("f32[6,4]",), (), list(texts)),
        *([0] * len(texts), [], (), ("$0",), {}),
    )
    shown_as = Redaction([]).listing(program).equations
    return [re.sub("(?<=#)[0-9a-f]{12}", "", text) for text in shown_as]


def test_a_number_that_could_be_an_argument_is_hidden_even_if_small() -> None:
    shown_as = equations(
        "integer_pow\t$\tf32[6,4]\ty=2",
        "slice\t$\tf32[2,1]\tlimit_indices=(2,2)\tstart_indices=(1,1)\tstrides=None",
        "scan\t$\tf32[]\tlength=2\treverse=False",
    )
    assert shown_as == [
        "integer_pow\t$\tf32[6,4]\ty=#",
        "slice\t$\tf32[2,1]\tlimit_indices=(#,#)\tstart_indices=(#,#)\tstrides=None",
        "scan\t$\tf32[]\tlength=#\treverse=False",
    ]


def test_sizes_of_axes_and_their_numbers_stay() -> None:
    # The sizes of f32[6,4], their product, one more, one less, and reciprocals.
    kept = ["6", "4.0", "24.0", "23", "25.0", "5.0", str(1 / 6), str(1 / 24)]
    assert equations(*(f"mul\t$ {one}:f32[]\tf32[6,4]" for one in kept)) == [
        f"mul\t$ {one}:f32[]\tf32[6,4]" for one in kept
    ]
    assert equations("reduce_sum\t$\tf32[6]\taxes=(1,)") == ["reduce_sum\t$\tf32[6]\taxes=(1,)"]
    assert equations("mul\t$ 8.0:f32[]\tf32[6,4]") == ["mul\t$ #:f32[]\tf32[6,4]"]


def test_types_and_placements_of_arrays_stay() -> None:
    leaf = Leaf("x", (3,), "bfloat16", True, "GSPMDSharding(replicated)", True, "pinned_host")
    key = Redaction([]).key(Key((leaf,)), "t.py:1 f")
    assert key.leaves == (leaf,)


def test_values_that_were_cut_do_not_look_equal() -> None:
    def texts(*values: Value) -> set[str]:
        function = Function("f", "f", "f", Kind.DEF, "t.py", 1, "t.py:1 f", 1)
        redaction = Redaction([])
        shown_as = [redaction.function(function._replace(closure=(("c", v),))) for v in values]
        return {value.text for each in shown_as for _, value in each.closure}

    cut, whole = Value("C", "C(1, ...", "=1", False), Value("C", "C(1)", "#1", False, {"n": 1})
    assert len(texts(cut, cut._replace(token="=2"))) == 2
    assert len(texts(whole, whole._replace(token="#2"))) == 1


def test_a_key_from_a_file_is_shared_and_a_short_one_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(64)))
    one, other = (Redaction([], read_key(key)) for _ in range(2))
    run = Story().run
    assert one.run(run).redaction == other.run(run).redaction
    assert one.run(run).redaction != Redaction([]).run(run).redaction
    assert bytes(range(64)).hex()[:16] not in str(one.run(run).redaction)
    key.write_bytes(b"short")
    for path in (key, tmp_path / "none", tmp_path):
        with pytest.raises(UsageError):
            read_key(path)

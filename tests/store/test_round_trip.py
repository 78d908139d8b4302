"""What is written can be read, and damage only affects what it touches."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from retrace.errors import UnreadableError
from retrace.model import (
    Callback,
    CallSite,
    Class,
    Function,
    Key,
    Kind,
    Leaf,
    Miss,
    Node,
    PersistentCache,
    Program,
    Receiver,
    Run,
    Stage,
    Value,
)
from retrace.model.parts import VALUES
from retrace.store import schema
from retrace.store.parts import encode_call_site, encode_function
from retrace.store.reader import Reader, read, read_lines
from retrace.store.sinks import File, Memory
from retrace.store.writer import Writer

RUN = Run(
    "k3f9a2x",
    "host",
    4711,
    0,
    1.7e9,
    ["train.py"],
    "3.11",
    "0.10",
    "0.10",
    "cpu",
    off_fast_path=("effects",),
    variables={"XLA_FLAGS": "--xla_dump_to=\udcff"},
    slow_from=0.5,
    commit="0" * 40,
)

text = st.text(max_size=8)
short = st.none() | text
whole = st.integers(0, 1 << 40)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
classes = st.builds(
    Class, text, st.integers(1, 9), st.none() | text, st.none() | st.integers(0, 999)
)
values = st.builds(
    Value, text, text, short, st.booleans(), plain, st.lists(classes, max_size=1).map(tuple)
)
named = st.lists(st.tuples(text, values), max_size=2).map(tuple)
leaves = st.builds(
    Leaf,
    text,
    st.lists(whole | st.just("2*n+1"), max_size=3).map(tuple),
    text,
    st.booleans(),
    short,
    st.booleans(),
    short,
    short,
)
nodes = st.builds(
    Node, text, text, st.lists(text, max_size=3).map(tuple), named, st.none() | classes
)
functions = st.builds(
    Function,
    name=text,
    jax_name=text,
    qualname=text,
    kind=st.sampled_from(Kind),
    file=short,
    line=st.none() | whole,
    site=text,
    object=whole,
    code=short,
    closure=named,
    reads=named,
    defaults=named,
    bound=named,
    wrappers=st.lists(text, max_size=2).map(tuple),
    decorators=st.lists(text, max_size=2).map(tuple),
    around=st.lists(text, max_size=2).map(tuple),
    base=whole,
    receiver=st.none() | st.builds(Receiver, text, st.none() | whole, short, st.none() | values),
    source=short,
)
keys = st.builds(
    Key,
    leaves=st.lists(leaves, max_size=3).map(tuple),
    tree=st.lists(nodes, max_size=2).map(tuple),
    signature=st.lists(st.tuples(text, text), max_size=2).map(tuple),
    **{row.name: named for row in VALUES},
)
sites = st.builds(CallSite, text, whole, text, short, st.booleans(), st.booleans(), whole)
misses = st.builds(
    Miss,
    id=st.just(""),
    run=st.just(RUN.id),
    number=st.just(0),
    time=st.floats(0, 2e9),
    thread=text,
    function=functions,
    key=keys,
    call_site=st.none() | sites,
    parent=st.none() | st.just("before"),
    derived=short,
    inner=whole,
    nested=st.booleans(),
    entry=st.none() | sites,
    through=short,
    within=st.sampled_from([None, "callback", "import"]),
    lines=short,
    lowered_with=st.none() | short,
    carried=st.none() | short,
    ahead=st.booleans(),
    new_object=st.booleans(),
    bodies=st.lists(functions, max_size=2).map(tuple),
    new_bodies=st.lists(st.booleans(), max_size=2).map(tuple),
    settings=st.dictionaries(text, sites, max_size=2).map(lambda found: tuple(found.items())),
    epoch=whole,
    function_epoch=whole,
    cold=st.booleans(),
    stages=st.dictionaries(st.sampled_from(Stage), st.floats(0, 1e6)),
    raised=short,
    persistent_cache=st.none()
    | st.builds(
        PersistentCache,
        st.sampled_from(["hit", "miss", "not-stored", "off"]),
        short,
        short,
        st.lists(st.tuples(text, text), max_size=2).map(tuple),
        st.lists(text, max_size=2).map(tuple),
        st.none() | st.floats(-1e6, 1e6),
        st.lists(st.tuples(text, text), max_size=2).map(tuple),
    ),
    program=st.none()
    | st.builds(
        Program,
        text,
        whole,
        st.none(),
        st.just(()),
        st.just(()),
        callbacks=st.lists(st.builds(Callback, text, short, st.none() | whole), max_size=2).map(
            tuple
        ),
        results=st.none() | short,
    ),
)


@st.composite
def programs(draw: st.DrawFn) -> list[Miss]:
    """The numbered misses of one process, some nested in the previous one."""
    found = draw(st.lists(misses, max_size=4))
    for number, miss in enumerate(found):
        miss.number = number
        miss.id = f"{RUN.id}-{number}"
        if miss.parent is not None:
            miss.parent = f"{RUN.id}-{number - 1}" if number else None
    return found


def write(writer: Writer, found: Iterable[Miss]) -> None:
    """Write misses like the recorder: first their start, then their outcome."""
    for miss in found:
        key = miss.key
        function = writer.part("function", encode_function(miss.function))
        writer.miss(
            miss.number,
            {
                "at": miss.time,
                "thread": miss.thread,
                "function": function,
                "leaves": writer.part("leaves", key.leaves) if key.leaves else None,
                **{kind: writer.part(kind, getattr(key, kind)) for kind in Key._fields[1:]},
                "call_site": miss.call_site
                and writer.part("call_site", encode_call_site(miss.call_site)),
                "parent": miss.parent and miss.number - 1,
                "nested": miss.nested,
                "entry": miss.entry and encode_call_site(miss.entry),
                "through": miss.through,
                "within": miss.within,
                "lines": miss.lines,
                "ahead": miss.ahead,
                "new": miss.new_object,
                "bodies": [writer.part("function", encode_function(f)) for f in miss.bodies],
                "new_bodies": miss.new_bodies,
                "settings": {name: encode_call_site(site) for name, site in miss.settings},
                "epoch": miss.epoch,
                "function_epoch": miss.function_epoch,
                "cold": miss.cold,
                "derived": miss.derived,
            },
        )
    for miss in found:
        cache, program = miss.persistent_cache, miss.program
        writer.amend(
            miss.number,
            {
                "stages": miss.stages,
                "raised": miss.raised,
                "inner": miss.inner,
                "persistent_cache": cache,
                "program": program and [program.hash, program.equations],
                "callbacks": program.callbacks if program else (),
                "results": program and program.results,
                "lowered_with": miss.lowered_with,
                "carried": miss.carried,
            },
        )


def written(found: Iterable[Miss]) -> bytes:
    """The file of a process with these misses."""
    sink = Memory()
    writer = Writer(sink, RUN)
    write(writer, found)
    writer.end()
    return "".join(f"{line}\n" for line in sink.lines).encode()


SURROGATE = Miss(
    id="k3f9a2x-0",
    run=RUN.id,
    number=0,
    time=1.0,
    thread="\udcff",
    function=Function("f", "f", "f", Kind.DEF, None, 1, "site", 1),
    key=Key(),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property; each rewrites its file."""
    return tmp_path_factory.mktemp("recording")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
@example([SURROGATE])
def test_a_miss_is_read_as_it_was_written(found: list[Miss]) -> None:
    recording = read_lines(written(found).decode().splitlines())
    assert recording.misses == found
    (run,) = recording.runs
    assert run.complete
    assert (run.id, run.argv, run.backend, run.losses) == (RUN.id, RUN.argv, "cpu", {})


@given(programs(), st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_cut_anywhere_keeps_every_complete_line(
    folder: Path, found: list[Miss], data: st.DataObject
) -> None:
    whole_file = written(found)
    cut = whole_file[: data.draw(st.integers(0, len(whole_file)))]
    path = folder / f"{RUN.id}.jsonl"
    path.write_bytes(cut)
    recording = read([path])
    starts = [line for line in cut.split(b"\n") if line[:8] == b'{"miss":' and line[-1:] == b"}"]
    assert len(recording.misses) == sum(map(is_complete, starts))
    (run,) = recording.runs
    assert run.losses == {}
    assert run.complete == (cut.rstrip(b"\n") == whole_file.rstrip(b"\n"))


@given(programs(), st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_flipped_bytes_only_lose_what_they_touch(
    folder: Path, found: list[Miss], data: st.DataObject
) -> None:
    damaged = bytearray(written(found))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = folder / f"{RUN.id}.jsonl"
    path.write_bytes(damaged)
    try:
        recording = read([path])
    except UnreadableError:
        return  # the header was hit: a greater format number, or no recognised line
    numbers = [miss.number for miss in recording.misses]
    assert numbers == sorted(set(numbers))


@given(programs(), st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_miss_loses_no_other(found: list[Miss], data: st.DataObject) -> None:
    for miss in found:
        miss.parent = None
    lines = written(found).decode().splitlines()
    places = [index for index, line in enumerate(lines) if line.startswith('{"miss":')]
    if not places:
        return
    index = data.draw(st.sampled_from(places))
    lines[index] = lines[index][:-1]
    recording = read_lines(lines)
    lost = places.index(index)
    assert recording.misses == [miss for miss in found if miss.number != lost]
    assert recording.runs[0].losses == {
        "unreadable line": 1,
        schema.LATER_LINE_ALONE: 1,
    }


FIELDS = [
    *("miss", "amend", "part", "kind", "value", "run", "loss", "count", "retrace", "end"),
    *("at", "thread", "function", "leaves", "stages", "program", "call_site", "bodies"),
    *("parent", "id"),
]

json_lines = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner | st.sampled_from(["function", "leaves", "tree", "config", "trace", "hit"]),
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_lines, max_size=6))
def test_json_that_is_not_a_recording_is_counted_and_raises_nothing(lines: list[object]) -> None:
    reader = Reader()
    # A newer format is refused, and that is tested elsewhere.
    assume(not any(isinstance(line, dict) and "retrace" in line for line in lines))
    for line in lines:
        reader.add(json.dumps(line))
    run, _ = reader.result()
    assert reader.recognised + sum(run.losses.values()) >= len(lines)


def test_a_file_is_read_like_its_lines(tmp_path: Path) -> None:
    sink = Memory()
    path = tmp_path / f"{RUN.id}.jsonl"
    for writer in (Writer(sink, RUN), Writer(File(path), RUN)):
        write(writer, [SURROGATE])
        writer.end()
    assert path.read_text().splitlines() == sink.lines
    assert read([tmp_path]) == read_lines(sink.lines)


def test_equal_parts_are_one_object() -> None:
    sink = Memory()
    writer = Writer(sink, RUN)
    for number in range(3):
        function = writer.part("function", encode_function(SURROGATE.function))
        writer.miss(number, {"at": 1.0, "thread": "t", "function": function})
    recording = read_lines(sink.lines)
    assert len(sink.lines) == 1 + 1 + 3
    assert len({id(miss.function) for miss in recording.misses}) == 1


def is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True

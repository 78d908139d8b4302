"""A Python that lacks something goes in: that part is lost with a word, and nothing else."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import monitoring

from retrace.capture import bytecode, interpreter, session
from retrace.model import Miss, Recording
from retrace.reason.verdict import judge
from retrace.store.reader import read_lines

RATE = 2.0


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Recording that is switched on for the first time in this process."""
    lists = {name: list(held) for name, held in vars(monitoring).items() if type(held) is list}
    monkeypatch.setattr(session, "_session", None)
    interpreter.absent.cache_clear()
    yield
    monkeypatch.undo()
    interpreter.absent.cache_clear()
    for name, held in lists.items():
        getattr(monitoring, name)[:] = held


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Take rows of the table away."""
    rows = interpreter.ROWS
    assert set(names) <= {row.name for row in rows}
    spoilt = [row._replace(there=lambda: 1 / 0) if row.name in names else row for row in rows]
    monkeypatch.setattr(interpreter, "ROWS", tuple(spoilt))


def recorded(program: Callable[[], object]) -> Recording:
    writer, lines = session.begin_memory()
    try:
        program()
    finally:
        session.session().detach(writer)
    return read_lines(lines.lines)


def program() -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return x * RATE

    for size in (2, 3):
        step(np.ones(size, np.float32))


def misses(recording: Recording) -> list[Miss]:
    return [miss for miss in recording.misses if miss.function.name == "step"]


def causes(recording: Recording) -> list[str]:
    found = {verdict.miss.id: verdict.cause.value for verdict in judge(recording)}
    return [found[miss.id] for miss in misses(recording)]


KNOWN = ["first-trace", "shape-changed"]


def test_this_python_has_all() -> None:
    assert interpreter.absent() == ()
    recording = recorded(program)
    assert recording.runs[0].losses == {} and causes(recording) == KNOWN
    assert dict(misses(recording)[0].function.reads)["RATE"].text == "2.0"


@pytest.mark.parametrize("row", interpreter.ROWS, ids=lambda row: row.name)
def test_each_row_taken_away(row: interpreter.Row, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, row.name)
    recording = recorded(program)
    losses = recording.runs[0].losses
    assert list(losses) == [row.lost] * (row.lost is not None)
    if row.lost == interpreter.PUBLIC:
        found = recording.misses
        # jax 0.6.0 does not name what its events tell of.
        if any(miss.function.name != "<unknown>" for miss in found):
            assert len(misses(recording)) == 2
        assert found and not any(miss.key.leaves for miss in found)
        assert "shape-changed" not in {verdict.cause.value for verdict in judge(recording)}
    else:
        assert causes(recording) == KNOWN
        assert all(
            set(miss.stages) == {"trace", "lower", "compile"} for miss in misses(recording)
        )
    reads = any(miss.function.reads for miss in misses(recording))
    assert reads is (row.lost not in (interpreter.BYTECODE, interpreter.PUBLIC))


def no_items(code: CodeType) -> Iterator[dis.Instruction]:
    """Bytecode in which items are taken by an instruction that nobody knows."""
    for instruction in real(code):
        if instruction.opname in ("BINARY_SUBSCR", "BINARY_OP"):
            instruction = instruction._replace(opname="TAKE_ITEM", argrepr="?")
        yield instruction


def nothing(code: CodeType) -> Iterator[dis.Instruction]:
    raise NotImplementedError


def like_314(code: CodeType) -> Iterator[dis.Instruction]:
    """What Python 3.14 writes otherwise, as its documentation has it."""
    for one in real(code):
        if one.opname == "BINARY_SUBSCR":
            one = one._replace(opname="BINARY_OP", arg=26, argval=26, argrepr="[]")
        elif one.opname == "LOAD_CONST" and type(one.argval) is int:
            one = one._replace(opname="LOAD_SMALL_INT", arg=one.argval)
        elif one.opname == "LOAD_FAST":
            one = one._replace(opname="LOAD_FAST_BORROW")
        yield one


real = dis.get_instructions


@pytest.mark.parametrize(("instructions", "known"), [(no_items, 0), (nothing, 0), (like_314, 1)])
def test_bytecode_is_tried_before_it_is_read(
    instructions: Any, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode.dis, "get_instructions", instructions)
    recording = recorded(program)
    lost = {} if known else {interpreter.BYTECODE: 1}
    assert recording.runs[0].losses == lost and causes(recording) == KNOWN
    assert bool(misses(recording)[0].function.reads) is bool(known)


def test_a_python_without_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "_getframe")
    assert interpreter.lacks(interpreter.PUBLIC)
    assert {row.name for row in interpreter.absent()} == {"_getframe", "f_locals"}

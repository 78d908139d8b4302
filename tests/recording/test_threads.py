"""Tables that threads share are right where the threads switch at every bytecode."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import retrace
from retrace.capture.miss_numbers import Numbers
from retrace.capture.tokens import Tokens
from retrace.guards import watch as watching

OURS = str(Path(retrace.__path__[0]))
THREADS = 4
ROUNDS = 6


def switching(frame: FrameType, event: str, argument: object) -> Any:
    """Lets another thread go on before each bytecode of retrace's."""
    if not frame.f_code.co_filename.startswith(OURS):
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        time.sleep(0)
    return switching


def together(call: Callable[[int], Any]) -> list[Any]:
    """What several threads get that do the same at once."""
    barrier = threading.Barrier(THREADS)
    found: list[Any] = [None] * THREADS
    errors: list[BaseException] = []

    def run(index: int) -> None:
        barrier.wait()
        sys.settrace(switching)
        try:
            found[index] = call(index)
        except BaseException as error:  # noqa: BLE001 - told below, in the thread of the test
            errors.append(error)
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return found


class Equal:
    def __eq__(self, other: object) -> bool:
        return type(other) is Equal

    def __hash__(self) -> int:
        return 1


class Thing:
    pass


def test_an_object_has_one_number() -> None:
    tokens = Tokens()
    things = [Thing() for _ in range(ROUNDS)]
    for thing in things:
        assert len(set(together(lambda _, thing=thing: tokens.number(thing)))) == 1
    assert len({tokens.number(thing) for thing in things}) == ROUNDS


def test_different_objects_have_different_numbers() -> None:
    tokens = Tokens()
    things = [[Thing() for _ in range(4)] for _ in range(THREADS)]
    found = together(lambda index: [tokens.number(thing) for thing in things[index]])
    assert len({number for own in found for number in own}) == 4 * THREADS


def test_equal_objects_have_one_token() -> None:
    for _ in range(ROUNDS):
        tokens = Tokens()
        values = [Equal() for _ in range(THREADS)]
        assert len(set(together(lambda index, v=values, t=tokens: t.static(v[index])))) == 1


def test_a_thing_is_put_first_by_one_thread() -> None:
    for _ in range(ROUNDS):
        numbers, thing = Numbers(), Thing()
        found = together(lambda index, n=numbers, t=thing: n.put(t, index))
        assert sorted(found) == [False] * (THREADS - 1) + [True]


def test_one_session_and_one_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrace.capture import session

    monkeypatch.setattr(session, "_session", None)
    monkeypatch.setattr(watching, "_watch", None)
    assert len({id(one) for one in together(lambda _: session.session())}) == 1
    assert len({id(one) for one in together(lambda _: watching.watch())}) == 1


def test_objects_that_die_while_others_come() -> None:
    tokens, numbers = Tokens(), Numbers()

    def churn(index: int) -> bool:
        for _ in range(4):
            thing, value = Thing(), Equal()
            own = tokens.number(thing)
            numbers.put(thing, index)
            if own != tokens.number(thing) or numbers.get(thing) != index:
                return False
            tokens.static(value)
        return True

    assert together(churn) == [True] * THREADS
    assert len(tokens) <= 2  # the classes
    assert len(numbers) == 0

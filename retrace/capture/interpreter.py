"""What recording needs from the interpreter, and what is lost on a Python that lacks it.

Each row is tried, not looked up by version, so this also works on a Python that did not exist
when this was written. All rows together take less than a millisecond, once per process.
Nothing here needs JAX, so `retrace doctor` can run these checks without it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import weakref
from collections.abc import Callable
from types import CodeType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

from retrace.capture.bytecode import Chain, Item, chains_of
from retrace.capture.loops import loops, repeats
from retrace.failure import asked

PUBLIC = "this Python does not show frames"
"""The loss if only JAX's public events can be recorded."""
BYTECODE = "this Python's bytecode is not known"
"""The loss if it is not known what functions read."""


class Row(NamedTuple):
    """An interpreter feature that retrace relies on."""

    name: str
    where: str
    there: Callable[[], bool]
    lost: str | None
    """How this is named among the `losses` of a run; None if recordings lack nothing."""
    without: str
    """What is then missing, in one sentence."""


class _Plain:
    pass


class _Slotted:
    __slots__ = ("field",)


def _shows_frames() -> bool:
    frame = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    caller = frame.f_back
    return (
        caller is not None
        and bool(caller.f_code.co_filename)
        and frame.f_code.co_name == "_shows_frames"
        and caller.f_lineno is not None
        and "caller" in frame.f_locals
    )


def _keeps_marks() -> bool:
    """Whether a value put among the locals of a frame can be found there later."""
    frame = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    frame.f_locals["__retrace_mark__"] = 1
    later = "later"
    local = frame.f_locals
    return local.get("__retrace_mark__") == 1 and local.get(later) == later


def _tells_names() -> bool:
    code: CodeType = _shows_frames.__code__
    return bool(code.co_qualname and code.co_consts and code.co_code)


def _tells_columns() -> bool:
    return any(start for _, _, start, _ in _tells_names.__code__.co_positions())


def _reads_bytecode() -> bool:
    code: CodeType = _Read.method.__code__
    written: set[str] = set()
    found = set(chains_of(code, {"self": "self"}, written, top=True))
    # Creating a closure also loads the variable itself, on some releases with an ordinary
    # load instruction.
    chains = {chain for chain in found if chain.steps}
    return chains == _CHAINS and written == {"_count"} and _finds_loops()


def _finds_loops() -> bool:
    code: CodeType = _Read.repeated.__code__
    start = code.co_firstlineno
    found = [(one.line - start, one.end - start) for one in loops(code)]
    return sorted(found) == [(1, 4), (3, 4)] and not repeats(_tells_names.__code__)


class _Read:
    """The test case of `_reads_bytecode`: each kind of read that is recorded."""

    def method(self: Any, config: Any) -> Any:
        global _count
        _count = 1
        return (
            _TABLE["rate"],
            _TABLE[3],
            _config.model.rate,
            self.width,
            config.own,
            lambda: self.depth + _config.inner,
        )

    def repeated(self: Any, things: Any) -> None:
        for one in things:
            self.see(one)
            while one:
                self.see(one)


_TABLE: Any = {}
_config: Any = None
_count = 0
_CHAINS = {
    Chain("global", "_TABLE", (Item("rate"),), False),
    Chain("global", "_TABLE", (Item(3),), False),
    Chain("global", "_config", ("model", "rate"), False),
    Chain("self", "self", ("width",), False),
    Chain("self", "self", ("depth",), False),
    Chain("global", "_config", ("inner",), False),
}


def _tells_withs() -> bool:
    def managed(context: Any) -> None:
        with context:
            pass

    return bool(managed.__code__.co_exceptiontable)


def _shows_attributes() -> bool:
    dictionary = type.__getattribute__(_Plain, "__dict__")["__dict__"]
    slot = type.__getattribute__(_Slotted, "__dict__")["field"]
    return type(dictionary) in (GetSetDescriptorType, MemberDescriptorType) and (
        type(slot) is MemberDescriptorType
    )


def _frees_at_once() -> bool:
    thing = _Plain()
    reference = weakref.ref(thing)
    del thing
    return reference() is None


def _forks() -> bool:
    return hasattr(os, "fork") and hasattr(os, "register_at_fork")


def _has_signals() -> bool:
    return all(hasattr(signal, name) for name in ("SIGHUP", "SIGTERM", "SIGINT"))


def _tells_users() -> bool:
    return hasattr(os, "geteuid")


ROWS = (
    Row(
        "_getframe",
        "sys",
        _shows_frames,
        PUBLIC,
        "Misses are recorded from JAX's public events only: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "f_locals",
        "frames (PEP 667 since 3.13)",
        _keeps_marks,
        PUBLIC,
        "Misses are recorded from JAX's public events only: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "co_qualname, co_consts, co_code",
        "code objects",
        _tells_names,
        PUBLIC,
        "Misses are recorded from JAX's public events only: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "instructions",
        "dis",
        _reads_bytecode,
        BYTECODE,
        "What functions read besides their arguments (globals, attributes) is not recorded: if a "
        "program changes although the keys are equal, it is not known what changed it. Nor are "
        "the Python loops around eager operations.",
    ),
    Row(
        "co_exceptiontable",
        "code objects",
        _tells_withs,
        "this Python does not show `with` statements",
        "The line of a `with` statement that changed a JAX setting is not recorded.",
    ),
    Row(
        "co_positions",
        "code objects",
        _tells_columns,
        None,
        "Lambdas on the same line are told apart by their code, so an edited lambda counts as "
        "another one (Python was started with -X no_debug_ranges, or keeps no columns).",
    ),
    Row(
        "__dict__ and __slots__ descriptors",
        "types",
        _shows_attributes,
        "this Python does not show attributes",
        "The fields of static arguments and receivers are not recorded: if one of these changed, "
        "it is not known in which field.",
    ),
    Row(
        "objects freed at once",
        "memory",
        _frees_at_once,
        "this Python frees objects late",
        "A function or an object that has died may still count as alive, so it may be noticed "
        "late that it was created again.",
    ),
    Row(
        "fork, register_at_fork",
        "os",
        _forks,
        None,
        "There are no forked children to record. Processes that are started in another way are "
        "recorded with `retrace run --children`.",
    ),
    Row(
        "SIGHUP",
        "signal",
        _has_signals,
        None,
        "Closing the terminal of a program cannot be told apart from other ways to end it.",
    ),
    Row(
        "geteuid",
        "os",
        _tells_users,
        None,
        "The permissions of the folder decide who may read a recording.",
    ),
)


@functools.cache
def absent() -> tuple[Row, ...]:
    """The rows that this Python does not have."""
    return tuple(row for row in ROWS if not asked(row.there))


def losses() -> tuple[str, ...]:
    """The losses of recordings on this Python, without repetition."""
    return tuple(dict.fromkeys(row.lost for row in absent() if row.lost is not None))


def lacks(loss: str) -> bool:
    """Whether recordings have this loss on this Python."""
    return any(row.lost == loss for row in absent())

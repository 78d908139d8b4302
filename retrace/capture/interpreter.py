"""What recording takes from the interpreter, and what is lost on a Python without it.

Each row is tried, not looked up by a version: a Python that nobody here has seen says for
itself what it can do. All rows together take less than a millisecond, once a process.
Nothing here needs JAX, so that `retrace doctor` can ask without it.
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
from retrace.failure import asked

PUBLIC = "this Python does not show frames"
"""The loss where nothing but JAX's public events can be recorded."""
BYTECODE = "this Python's bytecode is not known"
"""The loss where it is not seen what functions read."""


class Row(NamedTuple):
    """Something that retrace relies on."""

    name: str
    where: str
    there: Callable[[], bool]
    lost: str | None
    """As it is counted among the `losses` of a run; None where recordings lack nothing."""
    without: str
    """What is missing then, in one sentence."""


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
    """Whether what is put among the locals of a frame is found there later."""
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
    # Where a cell is made, the variable itself is loaded, on some releases by an instruction
    # that looks like any other.
    return {chain for chain in found if chain.steps} == _CHAINS and written == {"_count"}


class _Read:
    """What `_reads_bytecode` tries: each kind of read that is told."""

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
        "Misses are recorded by JAX's public events alone: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "f_locals",
        "frames (PEP 667 since 3.13)",
        _keeps_marks,
        PUBLIC,
        "Misses are recorded by JAX's public events alone: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "co_qualname, co_consts, co_code",
        "code objects",
        _tells_names,
        PUBLIC,
        "Misses are recorded by JAX's public events alone: a name and seconds, without "
        "arguments or causes.",
    ),
    Row(
        "instructions",
        "dis",
        _reads_bytecode,
        BYTECODE,
        "What functions read besides their arguments (globals, attributes) is not recorded, so "
        "that a program that changed under equal keys is told without what changed it.",
    ),
    Row(
        "co_exceptiontable",
        "code objects",
        _tells_withs,
        "this Python does not show `with` statements",
        "Where a setting of JAX was made by a `with` statement is not recorded.",
    ),
    Row(
        "co_positions",
        "code objects",
        _tells_columns,
        None,
        "Lambdas of one line are told apart by what they do, and an edited lambda counts as "
        "another one (Python was started with -X no_debug_ranges, or knows no columns).",
    ),
    Row(
        "__dict__ and __slots__ descriptors",
        "types",
        _shows_attributes,
        "this Python does not show attributes",
        "The fields of static arguments and receivers are not recorded: one that changed is told "
        "without the field.",
    ),
    Row(
        "objects freed at once",
        "memory",
        _frees_at_once,
        "this Python frees objects late",
        "A function or an object that has died may still count as alive: whether one was made "
        "anew is told later than it was so.",
    ),
    Row(
        "fork, register_at_fork",
        "os",
        _forks,
        None,
        "There are no forked children to record. Processes started otherwise record with "
        "`retrace run --children`.",
    ),
    Row(
        "SIGHUP",
        "signal",
        _has_signals,
        None,
        "A program whose terminal is closed is not told apart from one that was ended otherwise.",
    ),
    Row(
        "geteuid",
        "os",
        _tells_users,
        None,
        "Who may read a recording is up to the folder that it lies in.",
    ),
)


@functools.cache
def absent() -> tuple[Row, ...]:
    """The rows that this Python does not have."""
    return tuple(row for row in ROWS if not asked(row.there))


def losses() -> tuple[str, ...]:
    """What recordings lack on this Python, each once, as it is counted."""
    return tuple(dict.fromkeys(row.lost for row in absent() if row.lost is not None))


def lacks(loss: str) -> bool:
    """Whether recordings lack this on this Python."""
    return any(row.lost == loss for row in absent())

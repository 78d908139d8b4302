"""What one pair of calls does not read, although another pair does, or would be told to pass."""

from __future__ import annotations

from dataclasses import replace

from retrace.model import Component, Verdict
from retrace.model.advice import (
    Advice,
    CompareByValue,
    FewValues,
    LeaveOutArray,
    LeaveOutValue,
    OneStructure,
    OneType,
    Proof,
    ToArgument,
    ToArray,
)
from retrace.reason.asked import replace_advice
from retrace.reason.objects import Deciding, advice_of_kind
from retrace.reason.rules import in_key
from retrace.reason.steering import is_of_program


def keep_used(history: list[Verdict]) -> None:
    """Values that one pair of calls does not use although another pair does."""
    for kind, component in ((LeaveOutValue, None), (LeaveOutArray, Component.SHAPE)):
        if not any(isinstance(verdict.fix, kind) for verdict in history):
            continue
        used, unsure = _used(history, kind, component)
        for index, verdict in enumerate(history):
            advised = verdict.fix
            if isinstance(advised, kind) and (path := advised.paths[0]) in used:
                replace_advice(history, index, used[path])
                if verdict.avoidable == "yes" and used[path].sure != "clear":
                    history[index] = replace(history[index], avoidable="maybe")
            elif isinstance(advised, kind) and not unsure.isdisjoint(advised.paths):
                replace_advice(history, index, advised.changed(proof=Proof.MEANING))


def _used(
    history: list[Verdict], kind: type[Advice], component: Component | None
) -> tuple[dict[str, Advice], set[str]]:
    """The advice on what other calls use, by path, and what they may use."""
    used: dict[str, Advice] = {}
    unsure: set[str] = set()
    deciding = Deciding(history)
    for verdict in history:
        changed = {str(change.path) for change in in_key(verdict.changes)}
        advised = verdict.fix
        if advised is None or isinstance(advised, (kind, OneType, CompareByValue)):
            continue
        if isinstance(advised, OneStructure) and advised.way == "unknown":
            continue
        if component is not None and len(changed) != 1:
            continue
        # Where several changed, those decide that never changed for nothing.
        if not deciding.always(advised.paths) and advised.others:
            if verdict.program_change == "shapes-only":
                continue  # arrays of another size are why
            if any(map(is_of_program, verdict.changes)):
                unsure.update(advised.paths)  # so is what else changed, perhaps alone
                continue
        named = deciding.of(advised.paths, verdict)
        if isinstance(advised, FewValues):
            advised = advised.changed(paths=tuple(named))
        used |= {path: advised for path in named if path not in used}
    return used, unsure


def leave_unread(history: list[Verdict]) -> None:
    """What is to be left out of the key is not told to be passed by another call."""
    unread = {path for one in advice_of_kind(history, LeaveOutValue) for path in one.paths}
    for index, verdict in enumerate(history if unread else ()):
        own = verdict.fix
        if isinstance(own, ToArgument | ToArray):
            rest = tuple(path for path in own.paths if path not in unread)
            if rest and rest != own.paths:
                also = tuple((path, "static") for path in own.paths if path in unread)
                replace_advice(history, index, own.changed(paths=rest, others=own.others + also))

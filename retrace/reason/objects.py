"""Objects that calls pass: advice on one of them must suit what the others hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from retrace.compare.equality import identity
from retrace.model import Change, Verdict
from retrace.model.advice import (
    Advice,
    BranchInProgram,
    CompareByValue,
    FewValues,
    InjectHyperparams,
    LeaveOutValue,
    OneStructure,
    PassHeld,
    Proof,
    ReuseObject,
    ToArgument,
    ToArray,
)
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.asked import replace_advice
from retrace.reason.evidence import OF_VALUES, is_another_function, is_arrays
from retrace.reason.fields import field_changes
from retrace.reason.held import is_in
from retrace.reason.rules import in_key, root
from retrace.reason.statics import OF_TYPES
from retrace.reason.traits import looks_equal, looks_the_same

_Kind = TypeVar("_Kind", bound=Advice)
_Besides: TypeAlias = tuple[tuple[str, Hashable], ...]


def advice_of_kind(history: Iterable[Verdict], kind: type[_Kind]) -> list[_Kind]:
    return [verdict.fix for verdict in history if isinstance(verdict.fix, kind)]


_GUESSED = (Proof.KEY, Proof.MEANING)


def pass_held(history: list[Verdict]) -> None:
    """Objects that look the same in two calls, while a third call holds another number.

    Created once, the object would keep the first number for all calls. Compared by value, it does
    not: then only a number that is sure to be a constant of the programs is to be passed.
    """
    kinds = (InjectHyperparams, ToArgument, ToArray, OneStructure)
    others = [
        verdict.fix
        for verdict in history
        # Another function altogether has its own program, however often this one is created.
        if isinstance(verdict.fix, kinds) and not any(map(is_another_function, verdict.changes))
    ]
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if not isinstance(advised, ReuseObject | CompareByValue) or not others:
            continue
        compared = isinstance(advised, CompareByValue)
        for other in others:
            if compared and other.proof in _GUESSED:
                continue
            if any(is_in(path, advised.paths) for path in other.paths):
                replace_advice(history, index, other)
                break


def keep_others(history: list[Verdict]) -> None:
    """Objects over other arrays that also differ in something else between other calls."""
    if not any(one.of for one in advice_of_kind(history, PassHeld)):
        return
    parts = [
        str(part.path)
        for verdict in history
        for change in verdict.changes
        if change.component in OF_ARGUMENTS
        for part in field_changes(change, whole=False)
    ]
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, PassHeld) and advised.of:
            others = [one for one in parts if is_in(one, advised.paths)]
            besides = tuple(one for one in dict.fromkeys(others) if one not in advised.held)
            if besides:
                replace_advice(history, index, advised.changed(besides=besides))


def pass_same(history: list[Verdict]) -> None:
    """What any call should pass beside an object, every call with that object passes."""
    found: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for one in advice_of_kind(history, ToArgument):
        if (of := one.outside or _function(one)) and not one.texts:
            found[of] |= dict.fromkeys((*one.paths, *_arrays_of(history, _function(one))))
    for index, verdict in enumerate(history if found else ()):
        own = verdict.fix
        if not isinstance(own, ToArgument) or own.texts:
            continue  # a text cannot be passed, only what is computed from it
        if of := own.outside or _function(own):
            paths = tuple(dict.fromkeys((*own.paths, *found[of])))
            replace_advice(history, index, own.changed(paths=paths))


def _arrays_of(history: list[Verdict], function: tuple[str, ...]) -> Iterator[str]:
    """The arrays that a static function holds, of which any two calls have others."""
    for verdict in history:
        for change in verdict.changes:
            if change.path in function:
                parts = field_changes(change, whole=False)
                yield from (str(one.path) for one in parts if is_arrays(one))


def _function(advised: ToArgument) -> tuple[str, ...]:
    return () if advised.function is None else (advised.function,)


def leave_constants(history: list[Verdict]) -> None:
    """A value that is only a constant between some calls does not decide programs."""
    proved = [one for one in advice_of_kind(history, ToArgument) if one.proof is Proof.CONSTANTS]
    constants = {path for one in proved for path in one.paths}
    for index, verdict in enumerate(history):
        own = verdict.fix
        if not isinstance(own, BranchInProgram | FewValues):
            continue
        rest = tuple(path for path in own.paths if path not in constants)
        if rest and rest != own.paths:
            others = tuple((path, "static") for path in own.paths if path in constants)
            replace_advice(history, index, own.changed(paths=rest, others=own.others + others))


def ask_for_kept(history: list[Verdict]) -> None:
    """Objects that are kept, if one of them may hold something else, are asked about."""
    asked = [one for one in advice_of_kind(history, ToArray) if one.proof is Proof.MEANING]
    kept = {path for one in asked for path in one.kept}
    for index, verdict in enumerate(history):
        own = verdict.fix
        if isinstance(own, ToArray) and not kept.isdisjoint(own.kept):
            replace_advice(history, index, own.changed(proof=Proof.MEANING))


def keep_compared(history: list[Verdict]) -> None:
    """Objects that look the same in two calls and hold something else in a third."""
    differing = differing_values(history)
    unread = advice_of_kind(history, LeaveOutValue)
    classes = tuple(dict.fromkeys(one.type for one in advice_of_kind(history, CompareByValue)))
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if not isinstance(advised, CompareByValue) or not differing.keys() & {*advised.paths}:
            continue
        within = [one for one in unread if all(is_in(path, advised.paths) for path in one.paths)]
        varying = advised.changed(varies=True, classes=classes if len(classes) > 1 else ())
        replace_advice(history, index, within[0] if within else varying)


def changed_for_nothing(history: list[Verdict]) -> set[str | None]:
    """Values and fields that changed between calls whose programs are the same.

    Or that only differ in constants which follow from other values.
    """
    beside = {
        path
        for verdict in history
        if isinstance(verdict.fix, ToArgument) and verdict.fix.shows
        for path in verdict.fix.unread
    }
    return beside | {
        part.path
        for verdict in history
        if verdict.program_change == "identical"
        for change in in_key(verdict.changes)
        if change.component in OF_VALUES
        for part in field_changes(change) or (change,)
    }


class Deciding:
    """Tells which of some values may decide a program: those that never changed for nothing.

    If all of them did, as under another flag, only what calls with the same other arguments show
    is left out; if nothing is left then, all may decide.
    """

    def __init__(self, history: list[Verdict]) -> None:
        self._history = history
        self._unread = changed_for_nothing(history)
        self._unread_beside: dict[frozenset[str], dict[_Besides, set[str | None]]] = {}

    def always(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Those of the paths that never changed for nothing."""
        return tuple(path for path in paths if path not in self._unread)

    def of(self, paths: Sequence[str], verdict: Verdict) -> tuple[str, ...]:
        """Those of the paths, in their order."""
        if found := self.always(paths):
            return found
        roots = frozenset(map(root, paths))
        if roots not in self._unread_beside:
            beside: dict[_Besides, list[Verdict]] = defaultdict(list)
            for one in self._history:
                beside[_besides(one, roots)].append(one)
            unread = {key: changed_for_nothing(rows) for key, rows in beside.items()}
            self._unread_beside[roots] = unread
        same = self._unread_beside[roots][_besides(verdict, roots)]
        return tuple(path for path in paths if path not in same) or tuple(paths)


def _besides(verdict: Verdict, roots: frozenset[str]) -> _Besides:
    """The other static arguments of a call."""
    static = verdict.miss.key.static
    return tuple((name, identity(value)) for name, value in static if name not in roots)


def _is_other(verdict: Verdict) -> bool:
    """Whether the program is another one, though nothing else in the key changed."""
    others = verdict.program_change in ("constants-only", "different")
    return others and len(in_key(verdict.changes)) == 1


def _is_explained(verdict: Verdict) -> bool:
    """Whether the program is the same, or arrays of another type or size are why it is not."""
    return verdict.program_change == "identical" or any(
        change.component in OF_TYPES for change in verdict.changes
    )


def differing_values(history: list[Verdict]) -> dict[str, Change]:
    """Values in the key for which a call passed something new, by path of the argument."""
    return {
        change.path: change
        for verdict in history
        for change in verdict.changes
        if change.component in OF_ARGUMENTS
        and change.path is not None
        and (not looks_equal(change) or _is_other(verdict))
        and not (looks_the_same(change) and _is_explained(verdict))
    }

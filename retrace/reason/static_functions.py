"""Functions that calls pass as static arguments, created again over the same or other values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from retrace.model import Verdict
from retrace.model.advice import PassHeld, Proof, ReuseObject, ToArgument
from retrace.reason.asked import replace_advice
from retrace.reason.evidence import is_function, is_of_other_code
from retrace.reason.fields import field_changes
from retrace.reason.objects import differing_values
from retrace.reason.steering import is_of_program
from retrace.reason.traits import is_explained_beside


def unify_functions(history: list[Verdict]) -> None:
    """A function argument that is created again, over the same value and over another one."""
    # Comparing the programs takes longest, and for most functions it is not needed.
    if not any(isinstance(one.fix, ReuseObject | PassHeld | ToArgument) for one in history):
        return
    asked, sure = _asked_of_functions(history)
    others = [
        one
        for one in history
        if not any(map(is_of_program, one.changes))
        and one.program_change not in (None, "identical")
        and not any(is_explained_beside(each, one.changes) for each in one.changes)
    ]
    for path, change in differing_values(others).items():
        known = path in asked or path in sure
        if not known and is_function(change) and not is_of_other_code(change):
            # Functions over values that change the program: no single one can replace them.
            names = tuple(str(one.path).rpartition(".")[2] for one in field_changes(change))
            asked[path].append(PassHeld(paths=(path,), held=names, proof=Proof.MEANING))
    for index, verdict in enumerate(history):
        advised = verdict.fix
        if isinstance(advised, ReuseObject | PassHeld):
            path = next((path for path in advised.paths if path in asked or path in sure), None)
        elif isinstance(advised, ToArgument):
            path = advised.function
        else:
            continue
        if path is None:
            continue
        held = tuple(dict.fromkeys(name for one in asked[path] for name in one.held))
        if isinstance(advised, ReuseObject) and held and _holds_the_same(verdict, held):
            replace_advice(history, index, advised.changed(each=held))
        elif found := asked[path] or sure[path]:
            is_settled = isinstance(advised, PassHeld if asked[path] else ToArgument)
            if not is_settled:
                replace_advice(history, index, found[0])


def _asked_of_functions(
    history: list[Verdict],
) -> tuple[dict[str, list[PassHeld]], dict[str, list[ToArgument]]]:
    """By the path of a static function: its calls that ask, and those that know what to pass."""
    asked: dict[str, list[PassHeld]] = defaultdict(list)
    sure: dict[str, list[ToArgument]] = defaultdict(list)
    more: set[str] = set()
    for one in history:
        if isinstance(one.fix, PassHeld):
            for path in one.fix.paths:
                asked[path].append(one.fix)
            if one.fix.of or one.program_change != "constants-only":
                more |= {*one.fix.paths}
        elif isinstance(one.fix, ToArgument) and one.fix.function is not None:
            sure[one.fix.function].append(one.fix)
    for path in sure.keys() & asked.keys() - more:
        # Arrays that are only constants, too: passed beside the numbers, one function is enough.
        del asked[path]
    return asked, sure


def _holds_the_same(verdict: Verdict, held: Sequence[str]) -> bool:
    """Whether a call's function is another one over the same: one for each value saves it.

    Over other values that give the same program it would be one more for each of them.
    """
    return verdict.program_change == "identical" and not any(
        str(field.path).rpartition(".")[2] in held
        for change in verdict.changes
        for field in field_changes(change, whole=False)
    )

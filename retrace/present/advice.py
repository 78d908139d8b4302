"""Words advice: one sentence with the user's own names.

Proven advice is stated; advice that depends on what the program means is phrased as a question.
Nothing searches these texts: code that needs the advice reads its fields.
"""

from __future__ import annotations

from retrace.model.advice import REUSED, Advice, PadBatch
from retrace.present.advice_arrays import of_arrays
from retrace.present.advice_functions import of_functions
from retrace.present.advice_operations import of_operations
from retrace.present.advice_values import of_values
from retrace.present.passing_words import static_where
from retrace.present.words import listed, names, quoted

_MAX_OTHERS = 2


def advised(advice: Advice) -> str:
    """What to do, in one sentence."""
    for words in (of_functions, of_values, of_arrays, of_operations):
        if (text := words(advice)) is not None:
            break
    else:
        raise TypeError(type(advice).__name__)
    if advice.remade is not None:
        new = "is a new function object as well: jit it once"
        if advice.another:
            new = f"is a method of another {quoted(advice.another)} object as well: jit each"
        text += f"; {quoted(advice.remade)} {new}"
        if advice.reading:
            text += f" for each value of {names(advice.reading)}, which it would keep"
        if advice.holding:
            held = names(advice.holding)
            text += f", and pass {held}, which it holds{static_where(advice.holding)}"
        if advice.calling:
            many = len(advice.calling) > 1
            text += f", and pass what {names(advice.calling)} {'hold' if many else 'holds'}"
    if reused := [path for path, what in advice.others if what == REUSED]:
        text += f"; create {names(reused)} once and reuse {'them' if len(reused) > 1 else 'it'}"
    if others := [(path, what) for path, what in advice.others if what != REUSED]:
        told = [f"{quoted(path)} ({what.replace('_', ' ')})" for path, what in others]
        text += f"; {listed(told, _MAX_OTHERS)} changed too"
    text += f"{_made_by(advice.makers)}{_injected(advice)}"
    text += also_read(advice.read_too)
    if advice.passed_by and advice.paths and not isinstance(advice, PadBatch):
        text += f"; {who_passes(advice.passed_by, one=len(advice.paths) == 1)}"
    if advice.jitted_by:
        who = advice.jitted_by
        text += f"; {who} jits the function, so only {who} can: report it there"
    return f"{text}."


def _made_by(makers: tuple[str, ...]) -> str:
    """Who computes with a number before the program does."""
    if not makers:
        return ""
    parts = [one.partition(".<locals>.")[0].partition(":") for one in makers]
    text = ""
    if libraries := [f"`{name}` of {package}" for package, _, name in parts if package]:
        get = "get" if len(libraries) > 1 else "gets"
        text += (
            f"; {listed(libraries)} {get} it: a comparison in Python there raises, and what "
            "Python computes there may differ in its last bits"
        )
    if rules := [quoted(name) for package, _, name in parts if not package]:
        own = "their" if len(rules) > 1 else "its"
        text += (
            f"; if {listed(rules)} gets it for one of {own} `nondiff_argnums`, make it an "
            "ordinary argument there: an array raises"
        )
    return text


def _injected(advice: Advice) -> str:
    """What else there is to numbers that become a part of an optimizer's state."""
    text = ""
    if advice.promotes:
        text += "; float32 arrays in its state make 16-bit updates float32, so results differ"
    if advice.scheduled:
        text += _scheduled(advice.scheduled)
    if advice.counted:
        what = names(advice.counted)
        text += f"; keep one optimizer for each {what} of a schedule, which cannot be injected"
    return text


def _scheduled(numbers: tuple[str, ...]) -> str:
    it, of = ("them", "belong") if len(numbers) > 1 else ("it", "belongs")
    given = ", ".join(numbers)
    passed = ", ".join(f"{name}={name}" for name in numbers)
    return (
        f"; {names(numbers)} {of} to a schedule, which would overwrite what is set: inject {it} "
        f"into a function that makes the schedule, too, as in "
        f"`optax.inject_hyperparams(lambda {given}: optax.sgd(schedule({passed})))`"
    )


def also_read(read: tuple[str, ...]) -> str:
    """What else must be passed: what the function reads and that changed as well."""
    if not read:
        return ""
    what = "them" if len(read) > 1 else "it"
    return f"; {names(read)}, which the function reads, changed too: pass {what} as well"


def who_passes(called: str, *, one: bool) -> str:
    """Who passes what changed: a library's function, as `package:name`."""
    package, _, name = called.partition(":")
    who = f"`{name}` of {package}" if name else package
    what, follow = ("it", "it follows") if one else ("them", "they follow")
    return f"{who} passes {what}: nothing to change unless {follow} from your arguments"

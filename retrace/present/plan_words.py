"""Words in a sentence what a step of the plan asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from retrace.compare.along import Along
from retrace.model import advice as model
from retrace.model.advice import Advice
from retrace.model.parts import OF_ARGUMENTS
from retrace.plan.step import Change, Meant, Pairs, Proposal, Sizes
from retrace.present.advice import advised, also_read, who_passes
from retrace.present.advice_arrays import MEANT
from retrace.present.advice_operations import (
    of_lines,
)
from retrace.present.padding_words import although, arrays_by_axes, every_axis, masked, room
from retrace.present.passing_words import static_where
from retrace.present.plan_titles import title
from retrace.present.words import listed, names, quoted
from retrace.present.words import place as words_of
from retrace.reason.held import is_below


def sentence(proposal: Proposal) -> str:
    """What to do, in one sentence."""
    text = _sentence(proposal)
    if not proposal.passed_by or (proposal.advice is not None and proposal.sizes is None):
        return text
    by = who_passes(proposal.passed_by, one=len(proposal.changes[0].paths) == 1)
    return text if by in text else f"{text[:-1]}; {by}."


def _sentence(proposal: Proposal) -> str:
    change = proposal.changes[0]
    if (eager := of_lines(change, proposal.advice)) is not None:
        return eager
    text = _without_advice(proposal) if proposal.advice is None else advised(proposal.advice)
    if rest := _held_besides(proposal):
        also = f"pass {names(rest)} too, which a new function object held{static_where(rest)}"
        text = f"{text[:-1]}; {also}."
    for one in proposal.besides:
        text = f"{text[:-1]}; where other calls miss, {advised(one)}"
    text = _with_unnamed(proposal, text)
    if not proposal.made and _is_made_once(proposal.advice):
        text = f"{text[:-1]}; this line passes it; where it is created was not seen."
    if proposal.also:
        lines = [words_of(PurePath(file).name, line) for file, line in proposal.also]
        text = (
            f"{text[:-1]}; do the same at {listed(lines, 2)}, where another step is needed, too."
        )
    others = text if len(proposal.changes) > 1 else ""
    if proposal.pairs is not None:
        return _together(proposal.pairs, others, proposal.takers)
    if proposal.sizes is None:
        if proposal.takers:
            get = "get" if len(proposal.takers) > 1 else "gets"
            such = f"{names(proposal.takers)} {get} such integers, too, which may be an index"
            text = f"{text[:-1]}; {such}: leave those."
        return text
    return (
        f"{_padded(proposal.sizes, others, proposal.takers)[:-1]}{also_read(proposal.read_too)}."
    )


def _created_once(change: Change) -> str:
    text = f"create {names(change.functions)} once, outside, and call that"
    it = "it holds" if len(change.functions) == 1 else "they hold"
    held = f"; pass {names(change.held)}, which {it}{static_where(change.held)}"
    return text + held if change.held else text


_PLAINLY: dict[str, Callable[[Change], str]] = {
    "sharding": lambda one: f"place {names(one.paths)} in the same way at every call",
    "dtype": lambda one: f"give {names(one.paths)} one dtype at every call",
    "tree": lambda one: f"give {names(one.paths)} the same structure at every call",
    "weak_type": lambda one: f"pass {names(one.paths)} with a dtype, not as a Python number",
    "signature": lambda one: f"pass {names(one.paths)} the same way at every call",
    "static": lambda one: f"keep {names(one.paths)} to {_one_or_few(one)}",
    "meta": lambda one: f"keep {names(one.paths)} the same between calls",
    "function": _created_once,
}


def _one_or_few(change: Change) -> str:
    return "one value" if change.to_one else "a few values"


def _without_advice(proposal: Proposal) -> str:
    """What to do where none of the misses says more than what varies."""
    if any(one.family not in _PLAINLY for one in proposal.changes):
        return f"{title(proposal)}."
    said = dict.fromkeys(_PLAINLY[one.family](one) for one in proposal.changes)
    meant = "" if any(one.family == "function" for one in proposal.changes) else MEANT
    return f"{'; '.join(said)}{meant}."


def _held_besides(proposal: Proposal) -> list[str]:
    """What functions that are new as well held, and the advice on one of them leaves out."""
    advice = proposal.advice
    known = None if advice is None or advice.remade is None else advice.holding
    held = [name for one in proposal.changes if one.family == "function" for name in one.held]
    return [] if known is None else [name for name in held if name not in known]


def _with_unnamed(proposal: Proposal, text: str) -> str:
    """With what the title names besides, if the advice is only about one of several."""
    advice = proposal.advice
    if advice is None or proposal.sizes is not None:
        return text
    known = (*advice.paths, *(path for path, _ in advice.others))
    alone: list[Change] = []
    for change in proposal.changes:
        if change.family not in _OF_ARGUMENTS:
            continue
        rest = [
            path
            for path in change.paths
            if quoted(path) not in text
            and quoted(path.rpartition(".")[0]) not in text
            and not is_below(path, known)
            and not any(is_below(one, (path,)) for one in known)
        ]
        if rest and len(rest) < len(change.paths):
            said = f"the same for {names(rest)}"
            optional = [path for path in rest if path in proposal.optional]
            if optional:
                same = [path for path in rest if path not in optional]
                said = f"the same for {names(same)}; " if same else ""
                said += f"where {names(optional)} may be omitted, pass what gives what None gives"
            elif change.family in _OF_VALUES:  # what one needs says nothing of the others
                it = "it does" if len(rest) == 1 else "they do"
                said = f"{names(rest)} changed in the same calls: while {it}, this saves nothing"
            text = f"{text[:-1]}; {said}."
        elif rest:
            alone.append(change)
    if alone:
        besides = proposal._replace(changes=tuple(alone), advice=None)
        text = f"{text[:-1]}; also {title(besides)}."
    return text


_OF_VALUES = (*OF_ARGUMENTS, "meta")
_OF_ARGUMENTS = (*_OF_VALUES, "tree", "signature", "dtype", "weak_type", "sharding")


def _is_made_once(advice: Advice | None) -> bool:
    """Whether one object should be created and passed to every call."""
    by_value = isinstance(advice, model.CompareByValue) and bool(advice.held or advice.package)
    of_library = isinstance(advice, model.Library) and advice.holder == advice.name
    return by_value or of_library or isinstance(advice, model.ReuseObject)


_MEANT = {
    "kernels": "if these are parameters, each size is a different model: leave it; if data,",
    "lines": "each size was first passed on another line; if one size works for all,",
    "square": "if this is the dimension of a problem, like that of a covariance, each size needs "
    "its own program: leave it; if data,",
    "unknown": "if rows added at the end change no result (the programs do not show that),",
    "doubled": "each size is twice the one before: leave them if that is intended, otherwise",
}
_SAID = ("", "wrapped")
"""Reasons for no question, or for one that what is to be masked says by itself."""


def _meant(why: Meant, along: Along) -> str:
    if not along.ordered:
        return _MEANT[why]
    through = f"if rows may be added at the end although {although(along)}"
    if along.draws:
        through += " and other random numbers are drawn for another size"
    through += ","
    if why == "doubled":
        return f"{_MEANT[why]}, {through}"
    return through if why == "ordered" else f"{_MEANT[why][:-1]}, and {through}"


def _padded(sizes: Sizes, others: str, takers: tuple[str, ...]) -> str:
    name, number = every_axis(sizes), len(sizes.chosen.sizes)
    by_axes = arrays_by_axes(sizes)
    if not by_axes:
        sized = sizes.chosen.sizes[0] if number == 1 else f"the next of {number} sizes"
        text = f"make {sized} PRNG keys in {names(sizes.keys)} at every call"
    elif sizes.grows:
        text = f"create {name} at the start, as long as {room(sizes)}, and write into it"
        text = f"{text} (its last item, `[-1]`, is then none of yours)"
    elif number == 1:
        text = f"pad {name} to {sizes.chosen.sizes[0]:,}"
    else:
        text = f"pad {name} up to the next of {number} sizes"
    if not sizes.grows and by_axes and all(len(axes) == 1 for axes in by_axes):
        text = f"{text} with copies of a row"  # zeros may give NaN, mask or not
    if sizes.masks:
        text = f"{text} ({names(sizes.masks)} with `False`)"
    if sizes.keys and by_axes:
        text = f"{text} ({names(sizes.keys)}, PRNG keys, by making as many: NumPy holds none)"
    if sizes.follows:
        text = f"{text}; {also(sizes)}"
    text = f"{text}; {masked(sizes.along)}{_taken(takers)}."
    if sizes.meant not in _SAID:
        text = f"{_meant(sizes.meant, sizes.along)} {text}"
    return f"{others[:-1]}; and {text}" if others else text


def _taken(takers: tuple[str, ...]) -> str:
    """Who is not to get what is padded for others."""
    if not takers:
        return ""
    get, them = ("get", "them") if len(takers) > 1 else ("gets", "it")
    return f"; {names(takers)} {get} arrays of this size, too: pass {them} the real rows"


def also(sizes: Sizes) -> str:
    """What grows with the axis and must be padded as well: `y axis 0`, twice as long."""
    what = listed([quoted(name) for name in sizes.follows], 2)
    one = len(sizes.follows) == 1
    return f"{what} {'grows' if one else 'grow'} with it: pad {'that' if one else 'those'} along"


def _together(pairs: Pairs, others: str, takers: tuple[str, ...]) -> str:
    axes, number = listed([quoted(name) for name in pairs.axes]), len(pairs.chosen.sizes)
    if number == 1:
        text = f"pad {axes} to {by(pairs.chosen.sizes[0])}"
    else:
        text = f"pad {axes} together, up to the first of {number} sizes that fits on every axis"
    if others_of := [name for own in pairs.same for name in own if name not in pairs.axes]:
        text = f"{text}, and {listed([quoted(name) for name in others_of], 6)} with them"
    text = f"{text}; {masked(pairs.along, len(pairs.axes))}{_taken(takers)}."
    if pairs.meant not in _SAID:
        text = f"{_meant(pairs.meant, pairs.along)} {text}"
    return f"{others[:-1]}; and {text}" if others else text


def by(size: Sequence[int]) -> str:
    """The lengths of several axes: `64 x 32`."""
    return " x ".join(f"{one:,}" for one in size)

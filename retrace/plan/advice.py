"""What a step asks for, in a few words, with the place to do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from retrace.model import Component, Function, Miss, Verdict
from retrace.plan.candidate import Candidate
from retrace.plan.eager import Line
from retrace.plan.history import Column, History
from retrace.plan.step import Proposal, Sizes
from retrace.reason.evidence import listed

_CODES = {
    "shape": "few-sizes",
    "rank": "one-rank",
    "code": "run-last-version",
    "again": "keep-entry",
}


class Told:
    """What is said of candidates, from the misses that they take away."""

    def __init__(self, histories: list[History], verdicts: Mapping[str, Verdict]) -> None:
        self.histories = histories
        self.verdicts = verdicts

    def paths(self, candidate: Candidate) -> list[str]:
        """The arguments and options that a candidate is about."""
        found = [path for _, column in self.columns(candidate) for path in column.paths]
        return _outermost(list(dict.fromkeys(found)))

    def columns(self, candidate: Candidate) -> list[tuple[History, Column]]:
        """Where a candidate reaches."""
        at = [(self.histories[index], number) for index, number in candidate.at]
        return [(history, history.columns[number]) for history, number in at]

    def functions(self, candidate: Candidate) -> list[Function]:
        """The functions that it reaches, each once."""
        found = [history.function for history, _ in self.columns(candidate)]
        return list({function.site: function for function in found}.values())


def _outermost(paths: list[str]) -> list[str]:
    """Without those that lie in another one of them."""
    return [
        path
        for path in paths
        if not any(path.startswith((f"{other}[", f"{other}.")) for other in paths)
    ]


def proposal(members: Sequence[Candidate], names: Sequence[str], told: Told) -> Proposal:
    """What to do for one step."""
    verdicts = [told.verdicts[name] for name in names]
    own = [v for v in verdicts if v.miss.parent not in names] or verdicts
    titles = [_TITLES[member.family](member, own, told) for member in members]
    advised = next((v.fix for v in own if v.fix is not None), None)
    sizes = next((member.sizes for member in members if member.sizes is not None), None)
    file, line = _place([verdict.miss for verdict in own])
    family = members[0].family
    title = " and ".join(titles)
    code = _CODES.get(family) or (family if advised is None else advised.code)
    text = f"{title}." if advised is None or family in _CODES else advised.text
    if sizes is not None:
        text = _padded(sizes, text if len(members) > 1 else "")
    return Proposal(code, title, text, file, line, sizes)


def _padded(sizes: Sizes, others: str) -> str:
    name, number = f"`{sizes.names[0]}`", len(sizes.chosen.sizes)
    if sizes.grows:
        text = f"make {name} {sizes.chosen.sizes[-1]:,} long from the start, and write into it"
    elif number == 1:
        text = f"pad {name} to {sizes.chosen.sizes[0]:,}, or drop what is shorter"
    else:
        text = f"pad {name} up to the next of {number} sizes"
    text = f"{text}; mask what was added where results depend on it."
    return f"{others[:-1]}: {text}" if others else text


def eager_proposal(line: Line) -> Proposal:
    """What to do about a line of eager operations."""
    number = len({v.miss.function.jax_name for v in line.verdicts})
    if line.repeats:
        title = "one size in, or NumPy, on this line"
        text = (
            "one operation compiles again for each size on this line: give it arrays of one "
            "size, or make with NumPy what varies."
        )
        return Proposal("jit-block", title, text, line.site.file, line.site.line)
    title = "jit what this line calls"
    text = (
        f"this line compiles {number} operations one by one: put what it calls into one jitted "
        "function, where that is your own code; the time saved is small."
    )
    return Proposal("jit-block", title, text, line.site.file, line.site.line)


def _place(misses: Sequence[Miss]) -> tuple[str | None, int | None]:
    """The line of the user's that asked most often, else where the function was written."""
    sites = [m.call_site for m in misses if m.call_site is not None]
    users = [site for site in sites if not site.in_library] or sites
    if users:
        (place, _), *_ = Counter((site.file, site.line) for site in users).most_common(1)
        return place
    function = misses[0].function
    return function.file, function.line


def _names(told: Told, candidate: Candidate) -> str:
    return listed([name for name in told.paths(candidate) if name])


def _who(told: Told, candidate: Candidate) -> str:
    return listed([function.name for function in told.functions(candidate)])


def _function(candidate: Candidate, own: Sequence[Verdict], told: Told) -> str:
    held = dict.fromkeys(
        str(change.path)
        for verdict in own
        for change in verdict.changes
        if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
    )
    if candidate.constants and held:
        what = "an argument" if len(held) == 1 else "arguments"
        return f"pass {listed(list(held))} as {what} of {_who(told, candidate)}"
    return f"make {_who(told, candidate)} once"


def _static(candidate: Candidate, own: Sequence[Verdict], told: Told) -> str:
    names = _names(told, candidate)
    if candidate.programs is not None:
        values, programs = candidate.programs
        return f"pass what {names} decides ({values} values, {programs} programs)"
    if candidate.sure == "ask":
        number = max(max(column.values) + 1 for _, column in told.columns(candidate))
        return f"one value of {names} ({number} seen)"
    if candidate.constants:
        return f"pass {names} as an argument"
    codes = {verdict.fix.code for verdict in own if verdict.fix is not None}
    return f"one {'type' if 'one-static-type' in codes else 'object'} for {names}"


def _shape(candidate: Candidate, _own: Sequence[Verdict], told: Told) -> str:
    sizes = candidate.sizes
    if sizes is None:
        return f"one size for {_names(told, candidate)}"
    argument, _, axis = sizes.names[0].rpartition(" axis ")
    name = f"`{argument}`" if axis == "0" else f"`{argument}` axis {axis}"
    seen, number = len(sizes.seen), len(sizes.chosen.sizes)
    if sizes.grows:
        return f"preallocate {name} ({sizes.chosen.sizes[-1]:,} rows)"
    if number == 1:
        return f"one size for {name} ({seen} seen)"
    return f"{number} sizes for {name} ({seen} seen)"


_TITLES: dict[str, Callable[[Candidate, Sequence[Verdict], Told], str]] = {
    "function": _function,
    "code": lambda c, _, told: f"run only the last version of {_who(told, c)}",
    "bodies": lambda c, _, told: f"define {_who(told, c)} once, outside",
    "options": lambda c, _, told: f"one setting of {_names(told, c)} for {_who(told, c)}",
    "config": lambda c, _, told: f"one setting of {_names(told, c)}",
    "static": _static,
    "meta": _static,
    "signature": lambda c, _, told: f"pass {_names(told, c)} one way",
    "tree": lambda c, _, told: f"one structure for {_names(told, c)}",
    "shape": _shape,
    "rank": lambda c, _, told: f"one number of axes for {_names(told, c)}",
    "dtype": lambda c, _, told: f"one dtype for {_names(told, c)}",
    "weak_type": lambda c, _, told: f"pass {_names(told, c)} as an array from the start",
    "sharding": lambda c, _, told: f"place {_names(told, c)} before the first call",
    "clear": lambda *_: "do not clear the caches",  # pyright: ignore[reportUnknownLambdaType]
    "again": lambda c, _, told: f"keep fewer programs beside {_who(told, c)}",
    "state": lambda c, _, told: f"pass to {_who(told, c)} what it reads from outside",
}
